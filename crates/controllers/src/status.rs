//! Whether there is anything new to say in a status.

use serde_json::{Map, Value};

/// Whether a status says what `wanted` does. What is not wanted may be there as long as it says nothing.
pub fn says_the_same(status: &Value, wanted: &Map<String, Value>) -> bool {
    let says_nothing = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        value => *value == 0,
    };
    let present = status.as_object().into_iter().flatten();
    let mut others = present.filter(|(field, _)| !wanted.contains_key(field.as_str()));
    wanted.iter().all(|(field, value)| status[field.as_str()] == *value)
        && others.all(|(_, value)| says_nothing(value))
}

/// A count as it is written where zero goes without saying.
pub fn unless_zero(count: i64) -> Option<i64> {
    (count != 0).then_some(count)
}

/// The fields that have a value.
pub fn fields<const N: usize>(counts: [(&str, Option<i64>); N]) -> Map<String, Value> {
    counts.into_iter().filter_map(|(field, count)| Some((field.into(), count?.into()))).collect()
}
