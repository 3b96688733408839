//! Label selectors in objects, and relaxed rules for existing ones.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go

use atoll_meta::{json, names, object};
use serde_json::Value;

use crate::field_value::{Errors, FieldValue};

/// Whether a selector has an invalid label value, which old API servers accepted.
pub(crate) fn has_bad_value(selector: &FieldValue<'_>) -> bool {
    let has = |expression: FieldValue<'_>| {
        expression.get("values").texts().any(|value| !names::label_value(value).is_empty())
    };
    selector.get("matchExpressions").items().any(has)
}

/// Checks a selector, ignoring invalid label values.
pub(crate) fn without_values(errors: &mut Errors, selector: &FieldValue<'_>) {
    let found = object::validate_label_selector(selector.value, &selector.path);
    errors.extend(found.into_iter().filter(|error| {
        // Only errors about values have an element of `values` as their field.
        !error.field().rsplit_once('[').is_some_and(|(list, _)| list.ends_with(".values"))
    }));
}

/// Checks a selector. If `lenient`, invalid label values are ignored.
pub(crate) fn check(errors: &mut Errors, selector: &FieldValue<'_>, lenient: bool) {
    if lenient {
        without_values(errors, selector);
    } else {
        errors.extend(object::validate_label_selector(selector.value, &selector.path));
    }
}

/// Renders a selector as in upstream's messages: labels before expressions.
pub(crate) fn render(selector: &Value) -> String {
    let Value::Object(fields) = selector else { return "null".to_owned() };
    let parts = ["matchLabels", "matchExpressions"].into_iter();
    let parts = parts
        .filter_map(|name| fields.get(name).map(|value| format!("\"{name}\":{}", json::to_string(value))));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}
