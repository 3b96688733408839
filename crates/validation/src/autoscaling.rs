//! HorizontalPodAutoscalers.

// upstream: pkg/apis/autoscaling/validation/validation.go

use atoll_meta::names;
use atoll_meta::object::split_api_version;
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::quantities;

pub(crate) static AUTOSCALERS: Checks = Checks {
    create: |autoscaler| spec(autoscaler, &ValidationOptions::default()),
    update: |new, old| spec(new, &ValidationOptions::for_update(new, old)),
    subresource: |name, new, _| {
        let mut errors = Errors::new();
        if name == "status" {
            let status = FieldValue::field(new, "status");
            status.get("currentReplicas").not_negative(&mut errors);
            status.get("desiredReplicas").not_negative(&mut errors);
        }
        errors
    },
};

const MAX_WINDOW_SECONDS: i64 = 3600;
const MAX_PERIOD_SECONDS: i64 = 1800;

/// Validation that is relaxed because the old object already violates it.
#[derive(Default)]
struct ValidationOptions {
    allow_zero_replicas: bool,
    target_version: bool,
    object_version: bool,
}

impl ValidationOptions {
    fn for_update(new: &Value, old: &Value) -> ValidationOptions {
        let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
        let (target, target_before) = (spec.get("scaleTargetRef"), before.get("scaleTargetRef"));
        let same = |field| target.text_of(field) == target_before.text_of(field);
        let metrics = before.get("metrics");
        let mut objects =
            metrics.items().filter(|metric| metric.text_of("type") == "Object" && metric.has("object"));
        ValidationOptions {
            allow_zero_replicas: before.get("minReplicas").number() == Some(0),
            target_version: same("apiVersion") && same("kind"),
            object_version: objects.any(|metric| {
                version_error(metric.get("object").get("describedObject").text_of("apiVersion"), true)
                    .is_some()
            }),
        }
    }
}

fn version_error(version: &str, may_be_core: bool) -> Option<String> {
    match split_api_version(version) {
        None => Some(format!("unexpected GroupVersion string: {version}")),
        Some(("", _)) if !may_be_core => Some("apiVersion must specify API group".to_owned()),
        Some(_) => None,
    }
}

fn spec(autoscaler: &Value, options: &ValidationOptions) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(autoscaler, "spec");
    let (least, most) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    let bound = i64::from(!options.allow_zero_replicas);
    if least.number().is_some_and(|number| number < bound) {
        errors.push(least.invalid(format!("must be greater than or equal to {bound}")));
    }
    let limit = most.number().unwrap_or_default();
    if limit == 0 {
        errors.push(most.required("must be set and greater than 0"));
    } else if limit < 0 {
        errors.push(most.invalid("must be greater than or equal to 1"));
    }
    if least.number().is_some_and(|number| limit < number) {
        errors.push(most.invalid_as(limit, "must be greater than or equal to `minReplicas`"));
    }
    let target = spec.get("scaleTargetRef");
    let may_be_core = target.text_of("kind") == "ReplicationController";
    reference(&mut errors, &target, may_be_core, options.target_version);
    let metrics = spec.get("metrics");
    for metric in metrics.items() {
        self::metric(&mut errors, &metric, options);
    }
    let outside = |metric: FieldValue<'_>| matches!(metric.text_of("type"), "Object" | "External");
    if least.number() == Some(0) && !metrics.items().any(outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(metrics.forbidden(detail));
    }
    let behavior = spec.get("behavior");
    for rules in [behavior.get("scaleUp"), behavior.get("scaleDown")] {
        if rules.is_set() {
            scaling_rules(&mut errors, &rules);
        }
    }
    errors
}

fn reference(errors: &mut Errors, reference: &FieldValue<'_>, may_be_core: bool, any_version: bool) {
    for part in [reference.get("kind"), reference.get("name")] {
        if part.is_empty() {
            errors.push(part.required(""));
        } else {
            part.rules(errors, names::path_segment_name(part.text()));
        }
    }
    let version = reference.get("apiVersion");
    if !any_version && let Some(detail) = version_error(version.text(), may_be_core) {
        errors.push(version.invalid_as(version.text(), detail));
    }
}

fn scaling_rules(errors: &mut Errors, rules: &FieldValue<'_>) {
    let (window, select) = (rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy"));
    if window.number().is_some_and(|seconds| seconds < 0) {
        errors.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.number().is_some_and(|seconds| seconds > MAX_WINDOW_SECONDS) {
        errors.push(window.invalid(format!("must be less than or equal to {MAX_WINDOW_SECONDS}")));
    }
    let choices = &["Disabled", "Max", "Min"];
    if select.is_set() && !choices.contains(&select.text()) {
        errors.push(select.unsupported(choices));
    }
    let policies = rules.get("policies");
    if policies.is_empty() {
        errors.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        let (kind, value, period) = (policy.get("type"), policy.get("value"), policy.get("periodSeconds"));
        if !matches!(kind.text(), "Pods" | "Percent") {
            errors.push(kind.unsupported(&["Percent", "Pods"]));
        }
        for number in [&value, &period] {
            let found = number.number().unwrap_or_default();
            if found <= 0 {
                errors.push(number.invalid_as(found, "must be greater than zero"));
            }
        }
        if period.number().is_some_and(|seconds| seconds > MAX_PERIOD_SECONDS) {
            errors.push(period.invalid(format!("must be less than or equal to {MAX_PERIOD_SECONDS}")));
        }
    }
    quantities::not_negative(errors, &rules.get("tolerance"));
}

const KINDS: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

/// `type` of a metric, the field that belongs to it, and the check of that field.
type Source = (&'static str, &'static str, fn(&mut Errors, &FieldValue<'_>, &ValidationOptions));
const SOURCES: &[Source] = &[
    ("Object", "object", |errors, source, options| {
        reference(errors, &source.get("describedObject"), true, options.object_version);
        identifier(errors, &source.get("metric"));
        let goal = target(errors, source);
        if !goal.has("value") && !goal.has("averageValue") {
            errors.push(goal.get("averageValue").required("must set either a target value or averageValue"));
        }
    }),
    ("External", "external", |errors, source, _| {
        identifier(errors, &source.get("metric"));
        let goal = target(errors, source);
        match (goal.has("value"), goal.has("averageValue")) {
            (false, false) => {
                let detail = "must set either a target value for metric or a per-pod target";
                errors.push(goal.get("averageValue").required(detail));
            }
            (true, true) => {
                let detail = "may not set both a target value for metric and a per-pod target";
                errors.push(goal.get("value").forbidden(detail));
            }
            _ => {}
        }
    }),
    ("Pods", "pods", |errors, source, _| {
        identifier(errors, &source.get("metric"));
        let goal = target(errors, source);
        if !goal.has("averageValue") {
            errors.push(goal.get("averageValue").required("must specify a positive target averageValue"));
        }
    }),
    ("Resource", "resource", |errors, source, _| {
        let name = source.get("name");
        if name.is_empty() {
            errors.push(name.required("must specify a resource name"));
        }
        raw_or_utilization(errors, source);
    }),
    ("ContainerResource", "containerResource", |errors, source, _| {
        let (name, container) = (source.get("name"), source.get("container"));
        if name.is_empty() {
            errors.push(name.required("must specify a resource name"));
        } else {
            crate::resources::check_container_name(errors, name.text(), &name.path);
        }
        if container.is_empty() {
            errors.push(container.required("must specify a container"));
        } else {
            container.rules(errors, names::dns1123_label(container.text()));
        }
        raw_or_utilization(errors, source);
    }),
];

fn metric(errors: &mut Errors, metric: &FieldValue<'_>, options: &ValidationOptions) {
    let kind = metric.get("type");
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    }
    if !KINDS.contains(&kind.text()) {
        errors.push(kind.unsupported(KINDS));
    }
    let mut present: Vec<&'static str> = Vec::new();
    for (_, field, check) in SOURCES.iter().filter(|(_, field, _)| metric.has(field)) {
        present.push(field);
        if present.len() == 1 {
            check(errors, &metric.get(field), options);
        }
    }
    let expected = SOURCES.iter().find(|(name, ..)| *name == kind.text()).map(|(_, field, _)| *field);
    match expected {
        Some(field) if !metric.has(field) => {
            let detail = "must populate information for the given metric source";
            errors.push(metric.get(field).required(detail));
        }
        Some(_) => {}
        None => errors.push(kind.unsupported(KINDS)),
    }
    if present.len() != 1 {
        present.sort_unstable();
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            errors.push(metric.get(field).forbidden("must populate the given metric source only"));
        }
    }
}

fn identifier(errors: &mut Errors, metric: &FieldValue<'_>) {
    let name = metric.get("name");
    if name.is_empty() {
        errors.push(name.required("must specify a metric name"));
    } else {
        name.rules(errors, names::path_segment_name(name.text()));
    }
}

fn raw_or_utilization(errors: &mut Errors, source: &FieldValue<'_>) {
    let goal = target(errors, source);
    match (goal.has("averageUtilization"), goal.has("averageValue")) {
        (false, false) => {
            let detail = "must set either a target raw value or a target utilization";
            errors.push(goal.get("averageUtilization").required(detail));
        }
        (true, true) => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(goal.get("averageValue").forbidden(detail));
        }
        _ => {}
    }
}

/// Checks the target of a metric and returns it.
fn target<'a>(errors: &mut Errors, source: &FieldValue<'a>) -> FieldValue<'a> {
    let target = source.get("target");
    let (kind, utilization) = (target.get("type"), target.get("averageUtilization"));
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric target type"));
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        errors.push(kind.invalid_as(kind.named(), "must be either Utilization, Value, or AverageValue"));
    }
    for amount in [target.get("value"), target.get("averageValue")] {
        if amount.quantity().is_some_and(|found| found.is_zero() || found.is_negative()) {
            errors.push(amount.invalid("must be positive"));
        }
    }
    if utilization.number().is_some_and(|percent| percent < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
    target
}
