//! Jobs.

// upstream: pkg/apis/batch/validation/validation.go
// upstream: pkg/registry/batch/job/strategy.go

use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::{FieldError, FieldPath, LabelSelector, names, object};
use serde_json::{Value, json};

use super::{job_status, policy};
use crate::Checks;
use crate::apps::{check_selected, render_selector, same_selector, selects};
use crate::fields::{Errors, Fields, named, not_negative};
use crate::internal;
use crate::pod::{same, template};

pub(crate) static CHECKS: Checks = Checks {
    create: |job| {
        let mut errors = Vec::new();
        check(&mut errors, job, None, true);
        errors
    },
    update,
    subresource: |name, new, old| match name {
        "status" => job_status::update(new, old),
        _ => Vec::new(),
    },
};

/// Labels that tie pods to their Job, with the legacy name first.
const NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

const INDEXED_LIMIT: i64 = 100_000;
/// Number of completions above which the parallelism has a lower limit.
const MANY_COMPLETIONS: i64 = 100_000;
const LIMIT_FOR_MANY: i64 = 10_000;
const MANAGER_LENGTH: usize = 63;

fn check(errors: &mut Errors, job: &Value, old: Option<&Value>, with_new_labels: bool) {
    generated_selector(errors, job, with_new_labels);
    let spec = job.part("spec");
    let path = FieldPath::new("spec");
    check_spec_with_selector(errors, spec, old, &path);
    let completions = spec.integer("completions");
    if spec.text("completionMode") == "Indexed" && completions > 0 {
        let name = object::name(job);
        let host = format!("{name}-{}", completions - 1);
        if !names::dns1123_label(&host).is_empty() {
            let path = FieldPath::new("metadata").child("name");
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errors.push(FieldError::invalid(&path, name, detail));
        }
    }
}

/// Checks that the selector is the generated one, unless `manualSelector` is set.
fn generated_selector(errors: &mut Errors, job: &Value, with_new_labels: bool) {
    let spec = job.part("spec");
    if spec.flag("manualSelector") || spec.field("selector").is_none() {
        return;
    }
    let (uid, name) = (object::uid(job), object::name(job));
    if uid.is_empty() {
        errors.push(FieldError::required(&FieldPath::new("metadata").child("uid"), ""));
    }
    let labels = spec.part("template").part("metadata").part("labels");
    let path = || FieldPath::new("spec").child("template").child("metadata").child("labels");
    for generation in 0..=usize::from(with_new_labels) {
        for (key, expected) in [(UID[generation], uid), (NAME[generation], name)] {
            match labels.optional_text(key) {
                Some(value) if value == expected => {}
                Some(_) => {
                    let detail = format!("must be '{expected}'");
                    errors.push(FieldError::invalid(&path().key(key), labels.clone(), detail));
                }
                None => errors.push(FieldError::required(&path().key(key), format!("must be '{expected}'"))),
            }
        }
    }
    let mut expected = json!({ UID[0]: uid, NAME[0]: name });
    if with_new_labels {
        expected[UID[1]] = Value::from(uid);
        expected[NAME[1]] = Value::from(name);
    }
    let selector = spec.part("selector");
    if LabelSelector::from_object(selector).is_ok_and(|selector| !selects(&selector, &expected)) {
        let path = FieldPath::new("spec").child("selector");
        errors.push(FieldError::invalid(&path, render_selector(selector), "`selector` not auto-generated"));
    }
}

/// Checks a spec with its selector. Specs in templates have none.
fn check_spec_with_selector(errors: &mut Errors, spec: &Value, old: Option<&Value>, path: &FieldPath) {
    check_spec(errors, spec, old, path);
    let selector_path = path.child("selector");
    match spec.field("selector") {
        None => errors.push(FieldError::required(&selector_path, "")),
        Some(selector) => errors.extend(object::validate_label_selector(selector, &selector_path)),
    }
    if let Ok(selector) = LabelSelector::from_object(spec.part("selector")) {
        check_selected(errors, &selector, spec.part("template"), &path.child("template"));
    }
}

/// Checks the fields that all Job specs share.
pub(super) fn check_spec(errors: &mut Errors, spec: &Value, old: Option<&Value>, path: &FieldPath) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(errors, spec, field, path);
    }
    if spec.field("maxFailedIndexes").is_some() && spec.field("backoffLimitPerIndex").is_none() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), detail));
    }
    if let Some(manager) = spec.optional_text("managedBy") {
        let path = path.child("managedBy");
        errors.extend(names::domain_prefixed_path(&path, manager));
        if manager.len() > MANAGER_LENGTH {
            errors.push(FieldError::too_long(&path, MANAGER_LENGTH));
        }
    }
    completion_mode(errors, spec, path);
    policy::failure(errors, spec, &path.child("podFailurePolicy"));
    policy::success(errors, spec, &path.child("successPolicy"));
    policy::replacement(errors, spec, &path.child("podReplacementPolicy"));
    template::check(errors, spec, old, &path.child("template"));
    restart_policy(errors, spec, path);
}

fn completion_mode(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let mode = spec.optional_text("completionMode");
    let completions = spec.optional_integer("completions");
    let parallelism = spec.optional_integer("parallelism");
    let failed = spec.optional_integer("maxFailedIndexes");
    let per_index = spec.optional_integer("backoffLimitPerIndex");
    match mode {
        Some("Indexed") => {}
        None | Some("NonIndexed") => {
            for (field, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
                if let Some(value) = value {
                    let detail = "requires indexed completion mode";
                    errors.push(FieldError::invalid(&path.child(field), value, detail));
                }
            }
            return;
        }
        Some(other) => {
            let path = path.child("completionMode");
            errors.push(FieldError::not_supported(&path, named(other), &["NonIndexed", "Indexed"]));
            return;
        }
    }
    if completions.is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(&path.child("completions"), detail));
    }
    let mut refuse = |field: &'static str, value: i64, detail: String| {
        errors.push(FieldError::invalid(&path.child(field), value, detail));
    };
    if let Some(parallelism) = parallelism.filter(|parallelism| *parallelism > INDEXED_LIMIT) {
        let detail = format!("must be less than or equal to {INDEXED_LIMIT} when completion mode is Indexed");
        refuse("parallelism", parallelism, detail);
    }
    if let Some(failed) = failed {
        if completions.is_some_and(|completions| failed > completions) {
            refuse("maxFailedIndexes", failed, "must be less than or equal to completions".to_owned());
        }
        if failed > INDEXED_LIMIT {
            refuse("maxFailedIndexes", failed, format!("must be less than or equal to {INDEXED_LIMIT}"));
        }
    }
    if completions.is_none_or(|completions| completions <= MANY_COMPLETIONS) || per_index.is_none() {
        return;
    }
    let detail = format!(
        "must be less than or equal to {LIMIT_FOR_MANY} when completions are above {MANY_COMPLETIONS} and used with \
         backoff limit per index"
    );
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.push(FieldError::required(&path.child("maxFailedIndexes"), detail));
    }
    for (field, value) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
        if let Some(value) = value.filter(|value| *value > LIMIT_FOR_MANY) {
            errors.push(FieldError::invalid(&path.child(field), value, detail.clone()));
        }
    }
}

/// Checks that pods of the Job can terminate.
fn restart_policy(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let path = || path.child("template").child("spec").child("restartPolicy");
    match spec.part("template").part("spec").text("restartPolicy") {
        "Never" => {}
        "" | "Always" => {
            errors.push(FieldError::required(&path(), "valid values: \"OnFailure\", \"Never\""));
        }
        "OnFailure" => {
            if spec.field("podFailurePolicy").is_some() {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.push(FieldError::invalid(&path(), named("OnFailure"), detail));
            }
        }
        other => {
            errors.push(FieldError::not_supported(&path(), named(other), &["OnFailure", "Never"]));
        }
    }
}

fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let before_labels = old.part("spec").part("template").part("metadata").part("labels");
    let had_new_labels = [NAME[1], UID[1]].iter().all(|key| before_labels.get(key).is_some());
    check(&mut errors, new, Some(old.part("spec")), had_new_labels);
    let path = FieldPath::new("spec");
    let (spec, before) = (new.part("spec"), old.part("spec"));
    // Upstream validates the spec a second time.
    check_spec_with_selector(&mut errors, spec, Some(before), &path);
    completions(&mut errors, spec, before, &path);
    same_selector(&mut errors, spec, before, &path);
    changed_template(&mut errors, spec, old, &path);
    for (field, kind) in [
        ("completionMode", None),
        ("podFailurePolicy", Some("*PodFailurePolicy")),
        ("backoffLimitPerIndex", None),
        ("managedBy", None),
        ("successPolicy", Some("*SuccessPolicy")),
    ] {
        let value = spec.part(field);
        if !same(value, before.part(field)) {
            let rendered = match kind {
                Some(kind) => internal::render(kind, value),
                None => value.clone().into(),
            };
            errors.push(FieldError::invalid(&path.child(field), rendered, FIELD_IS_IMMUTABLE));
        }
    }
    errors
}

/// Checks a change of `completions`, which only indexed Jobs allow.
fn completions(errors: &mut Errors, spec: &Value, before: &Value, path: &FieldPath) {
    let field = "completions";
    if spec.part(field) == before.part(field) {
        return;
    }
    let detail = if spec.text("completionMode") != "Indexed" {
        FIELD_IS_IMMUTABLE
    } else if spec.field(field).is_some() && spec.integer(field) != spec.integer("parallelism") {
        "can only be modified in tandem with spec.parallelism"
    } else {
        return;
    };
    errors.push(FieldError::invalid(&path.child(field), spec.part(field).clone(), detail));
}

/// Checks a change of the template. Scheduling directives and resources can change while the Job is suspended
/// and has no running pods.
fn changed_template(errors: &mut Errors, spec: &Value, old: &Value, path: &FieldPath) {
    let before = old.part("spec");
    let status = old.part("status");
    let is_suspended = before.flag("suspend");
    let has_stopped =
        status.field("startTime").is_none() || job_status::is_condition(status, "Suspended", "True");
    let may_change = is_suspended && has_stopped && status.integer("active") == 0;
    let pod = spec.part("template");
    if !may_change {
        if !same(pod, before.part("template")) {
            let rendered = internal::render("PodTemplateSpec", pod);
            errors.push(FieldError::invalid(&path.child("template"), rendered, FIELD_IS_IMMUTABLE));
        }
        return;
    }
    let mut expected = before.part("template").part("spec").clone();
    adopt_placement(&mut expected, pod.part("spec"));
    for field in ["containers", "initContainers"] {
        let (Some(expected), new) =
            (expected.get_mut(field).and_then(Value::as_array_mut), pod.part("spec").list(field))
        else {
            continue;
        };
        if expected.len() != new.len() {
            continue;
        }
        for (expected, new) in expected.iter_mut().zip(new) {
            if expected.text("name") == new.text("name") {
                adopt(expected, new, "resources");
            }
        }
    }
    if !same(pod.part("spec"), &expected) {
        let rendered = internal::render("PodSpec", pod.part("spec"));
        errors.push(FieldError::invalid(&path.child("template.spec"), rendered, FIELD_IS_IMMUTABLE));
    }
}

/// Copies a field, or its absence.
fn adopt(object: &mut Value, new: &Value, field: &str) {
    let Some(object) = object.as_object_mut() else { return };
    match new.field(field) {
        Some(value) => object.insert(field.to_owned(), value.clone()),
        None => object.remove(field),
    };
}

fn adopt_placement(expected: &mut Value, new: &Value) {
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        adopt(expected, new, field);
    }
    let had_affinity = expected.field("affinity").is_some();
    match (new.field("affinity"), had_affinity) {
        (None, true) => {
            adopt(&mut expected["affinity"], &Value::Null, "nodeAffinity");
            if expected["affinity"].as_object().is_some_and(|affinity| affinity.is_empty()) {
                adopt(expected, &Value::Null, "affinity");
            }
        }
        (Some(affinity), true) => adopt(&mut expected["affinity"], affinity, "nodeAffinity"),
        (Some(affinity), false) => {
            expected["affinity"] = json!({});
            adopt(&mut expected["affinity"], affinity, "nodeAffinity");
        }
        (None, false) => {}
    }
}
