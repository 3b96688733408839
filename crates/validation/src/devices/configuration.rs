//! What classes and claims have in common: configuration for drivers, and selectors of devices.

use atoll_meta::{FieldError, json};

use super::names;
use crate::at::{At, Errors};

const LONGEST_PARAMETERS: usize = 10 * 1024;
const LONGEST_EXPRESSION: usize = 10 * 1024;

/// A configuration. One that was there before may be longer than a new one.
pub(super) fn check(errors: &mut Errors, configuration: &At<'_>, is_stored: bool) {
    let opaque = configuration.get("opaque");
    if !opaque.is_set() {
        errors.push(opaque.required(""));
        return;
    }
    names::driver(errors, &opaque.get("driver"));
    let longest = if is_stored { usize::MAX } else { LONGEST_PARAMETERS };
    raw(errors, &opaque.get("parameters"), longest);
}

/// JSON that only a driver understands, but an object.
pub(super) fn raw(errors: &mut Errors, data: &At<'_>, longest: usize) {
    if !data.is_set() {
        errors.push(data.required(""));
    } else if json::to_string(data.value).len() > longest {
        errors.push(FieldError::too_long(&data.path, longest));
    } else if !data.value.is_object() {
        errors.push(data.invalid_as("<value omitted>", "must be a valid JSON object"));
    }
}

/// What the compiler says about no expression at all.
const NO_EXPRESSION: &str = "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// A selector of devices. Of its expression only the length is looked at.
pub(super) fn selector(errors: &mut Errors, selector: &At<'_>) {
    let cel = selector.get("cel");
    if !cel.is_set() {
        errors.push(cel.required(""));
        return;
    }
    let expression = cel.get("expression");
    if expression.is_empty() {
        errors.push(expression.invalid_as("", NO_EXPRESSION));
    } else if expression.len() > LONGEST_EXPRESSION {
        errors.push(FieldError::too_long(&expression.path, LONGEST_EXPRESSION));
    }
}
