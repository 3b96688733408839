//! The order of values, and of the fields in `managedFields`.

// upstream: sigs.k8s.io/structured-merge-diff/v6/value/value.go
// upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Compares values in the order of server-side apply: numbers, then strings, booleans, lists, maps, and null.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let unequal = left.iter().zip(right).map(|(left, right)| compare(left, right));
            let unequal = unequal.into_iter().find(|order| order.is_ne());
            unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Compares exactly: with integers rounded to floats, large ones would be equal to the same float and not to
/// each other, and sorting by such an order panics.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    let float = |number: &Number| number.as_f64().unwrap_or_default();
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_to_float(left, float(right)),
        (None, Some(right)) => compare_to_float(right, float(left)).reverse(),
        (None, None) => float(left).partial_cmp(&float(right)).unwrap_or(Ordering::Equal),
    }
}

fn compare_to_float(integer: i128, float: f64) -> Ordering {
    // The conversion saturates, beyond every integer of JSON.
    integer.cmp(&(float.trunc() as i128)).then_with(|| 0.0_f64.total_cmp(&(float.fract() + 0.0)))
}

fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let unequal = left.iter().zip(right).map(|((left_name, left), (right_name, right))| {
        left_name.cmp(right_name).then_with(|| compare(left, right))
    });
    let unequal = unequal.into_iter().find(|order| order.is_ne());
    unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Returns the members of `fieldsV1` in upstream's order: fields by name, then list items by their keys and
/// values. A map has them in the order of their strings, in which 443 precedes 80. `None` if both orders are
/// the same.
pub(super) fn field_order(fields: &Map<String, Value>) -> Option<Vec<(&String, &Value)>> {
    let is_item = |name: &String| !name.starts_with("f:") && name != ".";
    if fields.keys().filter(|name| is_item(name)).count() < 2 {
        return None;
    }
    let mut members: Vec<_> = fields.iter().map(|(name, value)| (sort_key(name), (name, value))).collect();
    members.sort_by(|left, right| left.0.cmp(&right.0));
    Some(members.into_iter().map(|(_, member)| member).collect())
}

/// Sort key of a path element: its kind, then its value.
struct SortKey<'a> {
    kind: u8,
    value: Value,
    text: &'a str,
}

fn sort_key(name: &str) -> SortKey<'_> {
    let (kind, text) = name.split_at_checked(2).unwrap_or((name, ""));
    let kind = match kind {
        "f:" => 1,
        "k:" => 2,
        "v:" => 3,
        "i:" => 4,
        _ => 0,
    };
    let value = if kind > 1 { super::parse(text.as_bytes()).ok() } else { None };
    SortKey { kind, value: value.map_or(Value::Null, |parsed| parsed.value), text }
}

impl SortKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let value = || compare(&self.value, &other.value);
        self.kind.cmp(&other.kind).then_with(value).then_with(|| self.text.cmp(other.text))
    }
}

#[cfg(test)]
mod tests;
