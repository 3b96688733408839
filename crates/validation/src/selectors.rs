//! Label selectors in objects, and what old ones may keep.

use atoll_meta::{json, names, object};
use serde_json::Value;

use crate::at::{At, Errors};

/// Whether a selector has a value that no label can have. Such ones were taken once.
pub(crate) fn has_bad_value(selector: &Value) -> bool {
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    expressions
        .filter_map(|expression| expression.get("values").and_then(Value::as_array))
        .flatten()
        .any(|value| !names::label_value(value.as_str().unwrap_or_default()).is_empty())
}

/// Checks a selector that may keep values that no label can have.
pub(crate) fn without_values(errors: &mut Errors, selector: &At<'_>) {
    let found = object::validate_label_selector(selector.value, &selector.path);
    errors.extend(found.into_iter().filter(|error| {
        // Only those about values have an element of `values` as their field.
        !error.field().rsplit_once('[').is_some_and(|(list, _)| list.ends_with(".values"))
    }));
}

/// Checks a selector beside one that was there before.
pub(crate) fn check(errors: &mut Errors, selector: &At<'_>, lenient: bool) {
    if lenient {
        without_values(errors, selector);
    } else {
        errors.extend(object::validate_label_selector(selector.value, &selector.path));
    }
}

/// A selector as upstream shows it in messages: labels before expressions.
pub(crate) fn shown(selector: &Value) -> String {
    let Value::Object(fields) = selector else { return "null".to_owned() };
    let parts = ["matchLabels", "matchExpressions"].into_iter();
    let parts = parts
        .filter_map(|name| fields.get(name).map(|value| format!("\"{name}\":{}", json::to_string(value))));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}
