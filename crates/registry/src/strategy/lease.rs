//! Leases: what elections rely on.

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::{Strategy, at, disabled};

pub static STRATEGY: Strategy = Strategy {
    create_on_update: true,
    unconditional_update: false,
    prepare_create: |lease, _| disabled::drop_from(lease, disabled::LEASE),
    prepare_update: |new, _, _| disabled::drop_from(new, disabled::LEASE),
    validate,
    validate_update: |new, _| validate(new),
    ..Strategy::GENERIC
};

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
