//! `metav1.Condition`, as all kinds use it.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go

use std::collections::HashSet;

use atoll_meta::{FieldError, names};

use crate::field_value::{Errors, FieldValue};

const MAX_REASON_LENGTH: usize = 1024;
const MAX_MESSAGE_LENGTH: usize = 32 * 1024;
const REASON_WORDS: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
const REASON_PATTERN: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";

pub(crate) fn check(errors: &mut Errors, conditions: &FieldValue<'_>) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let kind = condition.get("type");
        if !seen.insert(kind.text()) {
            errors.push(FieldError::duplicate(&kind.path, kind.text()));
        }
        one(errors, &condition);
    }
}

fn one(errors: &mut Errors, condition: &FieldValue<'_>) {
    let (kind, status) = (condition.get("type"), condition.get("status"));
    kind.rules(errors, names::qualified_name(kind.text()));
    let known = &["False", "True", "Unknown"];
    if !known.contains(&status.text()) {
        errors.push(status.unsupported(known));
    }
    let generation = condition.get("observedGeneration");
    if generation.number().is_some_and(|number| number < 0) {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
    if !condition.has("lastTransitionTime") {
        errors.push(condition.get("lastTransitionTime").required(""));
    }
    let (reason, message) = (condition.get("reason"), condition.get("message"));
    if reason.is_empty() {
        errors.push(reason.required(""));
    } else {
        if !is_reason(reason.text()) {
            let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
            errors.push(reason.invalid(names::pattern_error(REASON_WORDS, REASON_PATTERN, &examples)));
        }
        if reason.len() > MAX_REASON_LENGTH {
            errors.push(FieldError::too_long(&reason.path, MAX_REASON_LENGTH));
        }
    }
    if message.len() > MAX_MESSAGE_LENGTH {
        errors.push(FieldError::too_long(&message.path, MAX_MESSAGE_LENGTH));
    }
}

fn is_reason(reason: &str) -> bool {
    let bytes = reason.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(inner)
        && bytes.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
