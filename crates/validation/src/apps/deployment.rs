//! Deployments and ReplicaSets.

// upstream: pkg/apis/apps/validation/validation.go

use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

use super::{
    amount, at_most_hundred_percent, collisions, int_or_percent, same_selector, selector_and_template,
};
use crate::Checks;
use crate::fields::{Errors, Fields, NOT_NEGATIVE, not_negative};
use crate::internal;
use crate::pod::at_most;

pub(crate) static DEPLOYMENTS: Checks = Checks {
    create: |object| deployment(object, None),
    update: |new, old| {
        let mut errors = deployment(new, Some(old.part("spec")));
        same_selector(&mut errors, new.part("spec"), old.part("spec"), &FieldPath::new("spec"));
        errors
    },
    subresource: |name, new, old| match name {
        "status" => deployment_status(new.part("status"), old.part("status")),
        _ => Vec::new(),
    },
};

pub(crate) static REPLICA_SETS: Checks = Checks {
    create: |object| replica_set(object, None),
    update: |new, old| {
        let mut errors = replica_set(new, Some(old.part("spec")));
        same_selector(&mut errors, new.part("spec"), old.part("spec"), &FieldPath::new("spec"));
        errors
    },
    subresource: |name, new, _| match name {
        "status" => replica_set_status(new.part("status")),
        _ => Vec::new(),
    },
};

/// Annotation with the revision to roll back to, which has no field since extensions/v1beta1.
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

fn deployment(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = object.part("spec");
    let path = FieldPath::new("spec");
    not_negative(&mut errors, spec, "replicas", &path);
    selector_and_template(&mut errors, spec, old, &path);
    strategy(&mut errors, spec.part("strategy"), &path.child("strategy"));
    not_negative(&mut errors, spec, "minReadySeconds", &path);
    not_negative(&mut errors, spec, "revisionHistoryLimit", &path);
    let revision = object::annotation(object, ROLLBACK).and_then(|text| text.parse::<i64>().ok());
    if let Some(revision) = revision.filter(|revision| *revision < 0) {
        let path = path.child("rollback").child("version");
        errors.push(FieldError::invalid(&path, revision, NOT_NEGATIVE));
    }
    if let Some(deadline) = spec.optional_integer("progressDeadlineSeconds") {
        not_negative(&mut errors, spec, "progressDeadlineSeconds", &path);
        if deadline <= spec.integer("minReadySeconds") {
            let path = path.child("progressDeadlineSeconds");
            errors.push(FieldError::invalid(&path, deadline, "must be greater than minReadySeconds"));
        }
    }
    errors
}

fn strategy(errors: &mut Errors, strategy: &Value, path: &FieldPath) {
    let rolling = strategy.field("rollingUpdate");
    let rolling_path = || path.child("rollingUpdate");
    match (strategy.text("type"), rolling) {
        ("Recreate", Some(_)) => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(FieldError::forbidden(&rolling_path(), detail));
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => {
            let detail = "this should be defaulted and never be nil";
            errors.push(FieldError::required(&rolling_path(), detail));
        }
        ("RollingUpdate", Some(rolling)) => {
            let (unavailable, surge) = (rolling.part("maxUnavailable"), rolling.part("maxSurge"));
            let path = rolling_path();
            let unavailable_path = path.child("maxUnavailable");
            int_or_percent(errors, unavailable, &unavailable_path);
            int_or_percent(errors, surge, &path.child("maxSurge"));
            if amount(unavailable) == 0 && amount(surge) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(&unavailable_path, unavailable.clone(), detail));
            }
            at_most_hundred_percent(errors, unavailable, &unavailable_path);
        }
        _ => {
            let rendered = internal::render("DeploymentStrategy", strategy);
            errors.push(FieldError::not_supported(path, rendered, &["Recreate", "RollingUpdate"]));
        }
    }
}

fn deployment_status(status: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new("status");
    for field in [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ] {
        not_negative(&mut errors, status, field, &path);
    }
    for field in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        at_most(&mut errors, status, field, "replicas", "status.replicas", &path);
    }
    at_most(&mut errors, status, "availableReplicas", "readyReplicas", "readyReplicas", &path);
    collisions(&mut errors, status, old, &path);
    errors
}

fn replica_set(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = object.part("spec");
    let path = FieldPath::new("spec");
    not_negative(&mut errors, spec, "replicas", &path);
    not_negative(&mut errors, spec, "minReadySeconds", &path);
    selector_and_template(&mut errors, spec, old, &path);
    errors
}

fn replica_set_status(status: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new("status");
    for field in [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ] {
        not_negative(&mut errors, status, field, &path);
    }
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        at_most(&mut errors, status, field, "replicas", "status.replicas", &path);
    }
    at_most(&mut errors, status, "availableReplicas", "readyReplicas", "readyReplicas", &path);
    errors
}
