//! Leases: what elections rely on.

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::{Strategy, at};

pub static STRATEGY: Strategy = Strategy {
    create_on_update: true,
    unconditional_update: false,
    prepare_create: |lease, _| drop_disabled(lease),
    prepare_update: |new, _| drop_disabled(new),
    validate,
    validate_update: |new, _| validate(new),
    ..Strategy::GENERIC
};

/// Fields of coordinated leader election, which is off by default upstream.
fn drop_disabled(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

fn validate(lease: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let number = |path: &str| at(lease, path).and_then(Value::as_i64);
    let mut errors = Vec::new();
    if let Some(seconds) = number("spec.leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            &spec.child("leaseDurationSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    if let Some(transitions) = number("spec.leaseTransitions").filter(|transitions| *transitions < 0) {
        let message = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&spec.child("leaseTransitions"), transitions, message));
    }
    errors
}
