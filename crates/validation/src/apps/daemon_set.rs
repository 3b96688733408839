//! DaemonSets.

// upstream: pkg/apis/apps/validation/validation.go

use atoll_meta::{LabelSelector, object};

use super::{
    amount, at_most_hundred_percent, check_selected, collisions, int_or_percent, is_empty, not_negative,
    render_selector, same_selector,
};
use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::internal;
use crate::pod::{check_always_restarted, template};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| {
        let mut errors = Errors::new();
        check(&mut errors, &FieldValue::field(object, "spec"), None);
        errors
    },
    update: |new, old| {
        let mut errors = Errors::new();
        let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
        same_selector(&mut errors, &spec, &before);
        check(&mut errors, &spec, Some(&before));
        errors
    },
    subresource: |name, new, old| match name {
        "status" => status(&FieldValue::field(new, "status"), &FieldValue::field(old, "status")),
        _ => Errors::new(),
    },
};

fn check(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    let (selector, pod) = (spec.get("selector"), spec.get("template"));
    errors.extend(object::validate_label_selector(selector.value, &selector.path));
    if let Ok(selector) = LabelSelector::from_object(selector.value) {
        check_selected(errors, &selector, &pod);
    }
    if selector.value.is_object() && is_empty(&selector) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(selector.invalid_as(render_selector(&selector), detail));
    }
    template::check(errors, &pod, old.map(|old| old.get("template")).as_ref());
    check_always_restarted(errors, &pod, "DaemonSet");
    spec.get("minReadySeconds").not_negative(errors);
    strategy(errors, &spec.get("updateStrategy"));
    spec.get("revisionHistoryLimit").not_negative(errors);
}

fn strategy(errors: &mut Errors, strategy: &FieldValue<'_>) {
    match strategy.text_of("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.get("rollingUpdate");
            if rolling.is_set() {
                rolling_update(errors, &rolling);
            } else {
                errors.push(rolling.required(""));
            }
        }
        _ => {
            let rendered = internal::render("DaemonSetUpdateStrategy", strategy.value);
            errors.push(strategy.unsupported_as(rendered, &["RollingUpdate", "OnDelete"]));
        }
    }
}

fn rolling_update(errors: &mut Errors, rolling: &FieldValue<'_>) {
    let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    int_or_percent(errors, &unavailable);
    int_or_percent(errors, &surge);
    at_most_hundred_percent(errors, &unavailable);
    at_most_hundred_percent(errors, &surge);
    match (amount(&unavailable) != 0, amount(&surge) != 0) {
        (true, true) => errors.push(surge.invalid("may not be set when maxUnavailable is non-zero")),
        (false, false) => errors.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}

fn status(status: &FieldValue<'_>, old: &FieldValue<'_>) -> Errors {
    let mut errors = Errors::new();
    not_negative(
        &mut errors,
        status,
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    );
    collisions(&mut errors, status, old);
    errors
}
