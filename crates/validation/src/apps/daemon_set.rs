//! DaemonSets.

// upstream: pkg/apis/apps/validation/validation.go

use atoll_meta::{FieldError, FieldPath, LabelSelector, object};
use serde_json::Value;

use super::{
    amount, at_most_hundred_percent, check_selected, collisions, int_or_percent, is_empty, render_selector,
    same_selector,
};
use crate::Checks;
use crate::fields::{Errors, Fields, not_negative};
use crate::internal;
use crate::pod::{check_always_restarted, template};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| {
        let mut errors = Vec::new();
        check(&mut errors, object.part("spec"), None);
        errors
    },
    update: |new, old| {
        let mut errors = Vec::new();
        same_selector(&mut errors, new.part("spec"), old.part("spec"), &FieldPath::new("spec"));
        check(&mut errors, new.part("spec"), Some(old.part("spec")));
        errors
    },
    subresource: |name, new, old| match name {
        "status" => status(new.part("status"), old.part("status")),
        _ => Vec::new(),
    },
};

fn check(errors: &mut Errors, spec: &Value, old: Option<&Value>) {
    let path = FieldPath::new("spec");
    let selector = spec.part("selector");
    errors.extend(object::validate_label_selector(selector, &path.child("selector")));
    let pod = spec.part("template");
    let template_path = path.child("template");
    if let Ok(selector) = LabelSelector::from_object(selector) {
        check_selected(errors, &selector, pod, &template_path);
    }
    if selector.is_object() && is_empty(selector) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(FieldError::invalid(&path.child("selector"), render_selector(selector), detail));
    }
    template::check(errors, spec, old, &template_path);
    check_always_restarted(errors, pod, "DaemonSet", &template_path);
    not_negative(errors, spec, "minReadySeconds", &path);
    strategy(errors, spec.part("updateStrategy"), &path.child("updateStrategy"));
    not_negative(errors, spec, "revisionHistoryLimit", &path);
}

fn strategy(errors: &mut Errors, strategy: &Value, path: &FieldPath) {
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            match strategy.field("rollingUpdate") {
                Some(rolling) => rolling_update(errors, rolling, &path),
                None => errors.push(FieldError::required(&path, "")),
            }
        }
        _ => {
            let rendered = internal::render("DaemonSetUpdateStrategy", strategy);
            errors.push(FieldError::not_supported(path, rendered, &["RollingUpdate", "OnDelete"]));
        }
    }
}

fn rolling_update(errors: &mut Errors, rolling: &Value, path: &FieldPath) {
    let (unavailable, surge) = (rolling.part("maxUnavailable"), rolling.part("maxSurge"));
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    int_or_percent(errors, unavailable, &unavailable_path);
    int_or_percent(errors, surge, &surge_path);
    at_most_hundred_percent(errors, unavailable, &unavailable_path);
    at_most_hundred_percent(errors, surge, &surge_path);
    match (amount(unavailable) != 0, amount(surge) != 0) {
        (true, true) => {
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.push(FieldError::invalid(&surge_path, surge.clone(), detail));
        }
        (false, false) => {
            errors.push(FieldError::required(&unavailable_path, "cannot be 0 when maxSurge is 0"));
        }
        _ => {}
    }
}

fn status(status: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new("status");
    for field in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ] {
        not_negative(&mut errors, status, field, &path);
    }
    collisions(&mut errors, status, old, &path);
    errors
}
