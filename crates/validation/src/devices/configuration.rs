//! Configuration for drivers and device selectors, which classes and claims share.

// upstream: pkg/apis/resource/validation/validation.go

use atoll_meta::{FieldError, json};

use super::names;
use crate::field_value::{Errors, FieldValue};

const MAX_PARAMETERS_LENGTH: usize = 10 * 1024;
const MAX_EXPRESSION_LENGTH: usize = 10 * 1024;

/// Checks a configuration. A stored one may exceed the length limit.
pub(super) fn check(errors: &mut Errors, configuration: &FieldValue<'_>, is_stored: bool) {
    let opaque = configuration.get("opaque");
    if !opaque.is_set() {
        errors.push(opaque.required(""));
        return;
    }
    names::driver(errors, &opaque.get("driver"));
    let longest = if is_stored { usize::MAX } else { MAX_PARAMETERS_LENGTH };
    raw(errors, &opaque.get("parameters"), longest);
}

/// Checks opaque parameters, which must be a JSON object.
pub(super) fn raw(errors: &mut Errors, data: &FieldValue<'_>, longest: usize) {
    if !data.is_set() {
        errors.push(data.required(""));
    } else if json::to_string(data.value).len() > longest {
        errors.push(FieldError::too_long(&data.path, longest));
    } else if !data.value.is_object() {
        errors.push(data.invalid_as("<value omitted>", "must be a valid JSON object"));
    }
}

/// Error of the CEL compiler about an empty expression.
const NO_EXPRESSION: &str = "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Checks a device selector. Only the length of its expression is checked.
pub(super) fn selector(errors: &mut Errors, selector: &FieldValue<'_>) {
    let cel = selector.get("cel");
    if !cel.is_set() {
        errors.push(cel.required(""));
        return;
    }
    let expression = cel.get("expression");
    if expression.is_empty() {
        errors.push(expression.invalid_as("", NO_EXPRESSION));
    } else if expression.len() > MAX_EXPRESSION_LENGTH {
        errors.push(FieldError::too_long(&expression.path, MAX_EXPRESSION_LENGTH));
    }
}
