//! Deployments and ReplicaSets.

// upstream: pkg/apis/apps/validation/validation.go

use atoll_meta::object;
use serde_json::Value;

use super::{
    amount, at_most_hundred_percent, collisions, int_or_percent, not_negative, same_selector,
    selector_and_template,
};
use crate::Checks;
use crate::field_value::{Errors, FieldValue, NOT_NEGATIVE};
use crate::internal;
use crate::pod::at_most;

pub(crate) static DEPLOYMENTS: Checks = Checks {
    create: |object| deployment(object, None),
    update: |new, old| {
        let before = FieldValue::field(old, "spec");
        let mut errors = deployment(new, Some(&before));
        same_selector(&mut errors, &FieldValue::field(new, "spec"), &before);
        errors
    },
    subresource: |name, new, old| match name {
        "status" => deployment_status(&FieldValue::field(new, "status"), &FieldValue::field(old, "status")),
        _ => Errors::new(),
    },
};

pub(crate) static REPLICA_SETS: Checks = Checks {
    create: |object| replica_set(&FieldValue::field(object, "spec"), None),
    update: |new, old| {
        let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
        let mut errors = replica_set(&spec, Some(&before));
        same_selector(&mut errors, &spec, &before);
        errors
    },
    subresource: |name, new, _| match name {
        "status" => replica_set_status(&FieldValue::field(new, "status")),
        _ => Errors::new(),
    },
};

/// Annotation with the revision to roll back to, which has no field since extensions/v1beta1.
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

fn deployment(object: &Value, old: Option<&FieldValue<'_>>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(object, "spec");
    let (ready, deadline) = (spec.get("minReadySeconds"), spec.get("progressDeadlineSeconds"));
    spec.get("replicas").not_negative(&mut errors);
    selector_and_template(&mut errors, &spec, old);
    strategy(&mut errors, &spec.get("strategy"));
    ready.not_negative(&mut errors);
    spec.get("revisionHistoryLimit").not_negative(&mut errors);
    let revision = object::annotation(object, ROLLBACK).and_then(|text| text.parse::<i64>().ok());
    if let Some(revision) = revision.filter(|revision| *revision < 0) {
        let path = spec.path.child("rollback").child("version");
        errors.push(spec.with_path(path).invalid_as(revision, NOT_NEGATIVE));
    }
    if deadline.is_set() {
        deadline.not_negative(&mut errors);
        if deadline.integer() <= ready.integer() {
            errors.push(deadline.invalid("must be greater than minReadySeconds"));
        }
    }
    errors
}

fn strategy(errors: &mut Errors, strategy: &FieldValue<'_>) {
    let rolling = strategy.get("rollingUpdate");
    match (strategy.text_of("type"), rolling.is_set()) {
        ("Recreate", true) => {
            errors.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
        }
        ("Recreate", false) => {}
        ("RollingUpdate", false) => {
            errors.push(rolling.required("this should be defaulted and never be nil"));
        }
        ("RollingUpdate", true) => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            int_or_percent(errors, &unavailable);
            int_or_percent(errors, &surge);
            if amount(&unavailable) == 0 && amount(&surge) == 0 {
                errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
            }
            at_most_hundred_percent(errors, &unavailable);
        }
        _ => {
            let rendered = internal::render("DeploymentStrategy", strategy.value);
            errors.push(strategy.unsupported_as(rendered, &["Recreate", "RollingUpdate"]));
        }
    }
}

fn deployment_status(status: &FieldValue<'_>, old: &FieldValue<'_>) -> Errors {
    let mut errors = Errors::new();
    not_negative(
        &mut errors,
        status,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    );
    counts(&mut errors, status, &["updatedReplicas", "readyReplicas", "availableReplicas"]);
    collisions(&mut errors, status, old);
    errors
}

/// Checks that none of these counts exceeds the replicas, and that available replicas are ready.
fn counts(errors: &mut Errors, status: &FieldValue<'_>, fields: &[&'static str]) {
    for field in fields {
        at_most(errors, &status.get(field), &status.get("replicas"), "status.replicas");
    }
    at_most(errors, &status.get("availableReplicas"), &status.get("readyReplicas"), "readyReplicas");
}

fn replica_set(spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) -> Errors {
    let mut errors = Errors::new();
    spec.get("replicas").not_negative(&mut errors);
    spec.get("minReadySeconds").not_negative(&mut errors);
    selector_and_template(&mut errors, spec, old);
    errors
}

fn replica_set_status(status: &FieldValue<'_>) -> Errors {
    let mut errors = Errors::new();
    not_negative(
        &mut errors,
        status,
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    );
    counts(&mut errors, status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
    errors
}
