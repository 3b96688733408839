//! Helpers for comparing and building statuses.

use serde_json::{Map, Value};

/// Whether a status equals `wanted`. Other fields may exist if they are zero or empty.
pub fn is_same_status(status: &Value, wanted: &Map<String, Value>) -> bool {
    let is_unset = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        value => *value == 0,
    };
    let present = status.as_object().into_iter().flatten();
    let mut others = present.filter(|(field, _)| !wanted.contains_key(field.as_str()));
    wanted.iter().all(|(field, value)| status[field.as_str()] == *value)
        && others.all(|(_, value)| is_unset(value))
}

/// Returns `None` for zero, for fields that omit it.
pub fn unless_zero(count: i64) -> Option<i64> {
    (count != 0).then_some(count)
}

/// Returns the fields that have a value.
pub fn fields<const N: usize>(counts: [(&str, Option<i64>); N]) -> Map<String, Value> {
    counts.into_iter().filter_map(|(field, count)| Some((field.into(), count?.into()))).collect()
}
