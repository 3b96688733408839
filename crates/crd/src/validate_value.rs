//! Validates values against a schema.
//!
//! ```text
//! is_valid   valid or not, for every request, without allocation
//! failures   the errors of an invalid value: follows upstream's validator, with its messages and its order
//! numbers    checks of numbers for both
//! ```

// upstream: k8s.io/kube-openapi/pkg/validation/validate/schema.go
// upstream: k8s.io/kube-openapi/pkg/validation/validate/type.go
// upstream: k8s.io/kube-openapi/pkg/validation/validate/values.go

mod failures;
mod numbers;

use atoll_meta::Deadline;
use atoll_meta::quote::print_float;
use serde_json::{Number, Value};

use crate::node::{Check, Flags, Node, NodeId, Rest, Types};

pub(crate) use failures::{MOST, SIZE, failures, quotable, shown};

/// A number as in Go's untyped objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Numeric {
    Integer(i64),
    Float(f64),
}

impl Numeric {
    pub fn of(number: &Number) -> Numeric {
        match number.as_i64() {
            Some(integer) => Numeric::Integer(integer),
            None => Numeric::Float(number.as_f64().unwrap_or(f64::INFINITY)),
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Numeric::Integer(integer) => integer as f64,
            Numeric::Float(float) => float,
        }
    }

    pub fn value(self) -> Value {
        match self {
            Numeric::Integer(integer) => Value::from(integer),
            Numeric::Float(float) => Value::from(float),
        }
    }

    /// Prints a bound that was compared with this number, as a number of the same type.
    pub fn print(self, bound: f64) -> String {
        match self {
            Numeric::Integer(_) => numbers::go_integer(bound).to_string(),
            Numeric::Float(_) => print_float(bound),
        }
    }
}

/// Whether the value is valid. Parts that are not checked before the deadline count as invalid.
pub(crate) fn is_valid(nodes: &[Node], node: &Node, value: &Value, deadline: &Deadline<'_>) -> bool {
    let at = |id: NodeId| &nodes[id.0 as usize];
    if deadline.step() || !is_type(node, value) {
        return false;
    }
    for check in &node.checks {
        if !passes(nodes, node, check, value, deadline) {
            return false;
        }
    }
    match value {
        Value::Object(fields) => fields.iter().all(|(key, value)| match (node.property(key), node.rest) {
            (Some(id), _) | (None, Rest::Node(id)) => is_valid(nodes, at(id), value, deadline),
            (None, Rest::Forbidden) => false,
            (None, Rest::Unspecified | Rest::Allowed) => true,
        }),
        Value::Array(items) => match node.items.map(at) {
            Some(node) => items.iter().all(|item| is_valid(nodes, node, item, deadline)),
            None => true,
        },
        Value::Number(number) => numbers::in_range(node, Numeric::of(number)),
        _ => true,
    }
}

/// Upstream's type check, with its exceptions for formats.
fn is_type(node: &Node, value: &Value) -> bool {
    let types = node.types;
    let format = node.checks.iter().any(|check| matches!(check, Check::Format(..)));
    if types.is_empty() && !format {
        return true;
    }
    match value {
        Value::Null => types.is_empty() || node.is(Flags::NULLABLE),
        Value::Bool(_) => types.has(Types::BOOLEAN),
        Value::Object(_) => types.has(Types::OBJECT),
        // A string or list passes if there is a format that is not a number format.
        Value::String(_) => {
            types.has(Types::STRING) || (format && !types.has(Types::NUMBER) && !types.has(Types::INTEGER))
        }
        Value::Array(_) => {
            types.has(Types::ARRAY) || (format && !types.has(Types::NUMBER) && !types.has(Types::INTEGER))
        }
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Integer(_) => types.has(Types::INTEGER) || types.has(Types::NUMBER),
            Numeric::Float(float) => {
                types.has(Types::NUMBER) || (types.has(Types::INTEGER) && numbers::is_json_integer(float))
            }
        },
    }
}

fn passes(nodes: &[Node], node: &Node, check: &Check, value: &Value, deadline: &Deadline<'_>) -> bool {
    let valid = |id: &NodeId| is_valid(nodes, &nodes[id.0 as usize], value, deadline);
    // Null is checked only for its type and against `enum`.
    if value.is_null() && !matches!(check, Check::Enum(_)) {
        return true;
    }
    match (check, value) {
        (Check::AnyOf(parts), _) => parts.iter().any(valid),
        (Check::OneOf(parts), _) => parts.iter().filter(|part| valid(part)).count() == 1,
        (Check::AllOf(parts), _) => parts.iter().all(valid),
        (Check::Not(part), _) => !valid(part),
        (Check::MaxLength(most), Value::String(text)) => length(text) <= *most,
        (Check::MinLength(least), Value::String(text)) => length(text) >= *least,
        (Check::Pattern(pattern), Value::String(text)) => {
            !deadline.steps(pattern.steps(text)) && pattern.is_match(text)
        }
        (Check::Format(format, _), Value::String(text)) => format.accepts(text),
        (Check::MultipleOf(factor), Value::Number(number)) => {
            numbers::is_multiple(node, Numeric::of(number), *factor)
        }
        (Check::Minimum { bound, exclusive }, Value::Number(number)) => {
            numbers::is_at_least(node, Numeric::of(number), *bound, *exclusive)
        }
        (Check::Maximum { bound, exclusive }, Value::Number(number)) => {
            numbers::is_at_most(node, Numeric::of(number), *bound, *exclusive)
        }
        (Check::MinItems(least), Value::Array(items)) => items.len() as i64 >= *least,
        (Check::MaxItems(most), Value::Array(items)) => items.len() as i64 <= *most,
        (Check::UniqueItems, Value::Array(items)) => !has_duplicates(items, deadline),
        (Check::Enum(values), value) => {
            !deadline.steps(values.len()) && values.iter().any(|known| is_same(value, known))
        }
        (Check::MinProperties(least), Value::Object(fields)) => fields.len() as i64 >= *least,
        (Check::MaxProperties(most), Value::Object(fields)) => fields.len() as i64 <= *most,
        (Check::Required(names), Value::Object(fields)) => {
            names.iter().all(|name| fields.contains_key(name.as_ref()))
        }
        _ => true,
    }
}

fn has_duplicates(items: &[Value], deadline: &Deadline<'_>) -> bool {
    let is_repeated = |(index, item): (usize, &Value)| deadline.steps(index) || items[..index].contains(item);
    items.iter().enumerate().any(is_repeated)
}

pub(crate) fn length(text: &str) -> i64 {
    text.chars().count() as i64
}

/// Whether a value equals a known one after Go's conversion to the known one's type.
pub(crate) fn is_same(value: &Value, known: &Value) -> bool {
    match (value, known) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(number), Value::Number(known)) => match (Numeric::of(number), Numeric::of(known)) {
            (Numeric::Integer(number), Numeric::Integer(known)) => number == known,
            (Numeric::Float(number), Numeric::Float(known)) => number == known,
            (Numeric::Integer(number), Numeric::Float(known)) => number as f64 == known,
            // Go truncates the fraction.
            (Numeric::Float(number), Numeric::Integer(known)) => numbers::go_integer(number) == known,
        },
        // Go converts a number to the character with that code.
        (Value::Number(number), Value::String(known)) => number.as_i64().is_some_and(|code| {
            let character = u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            let mut characters = known.chars();
            characters.next() == Some(character) && characters.next().is_none()
        }),
        _ => value == known,
    }
}
