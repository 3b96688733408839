//! Runtime costs of calls of standard functions.

// upstream: github.com/google/cel-go/interpreter/runtimecost.go

use super::{REGEX_LENGTH, STRING_TRAVERSAL, actual_size, charge};
use crate::library::RuntimeCost;
use crate::value::Value;

/// Returns the runtime cost of an overload. `None` means 1.
pub fn runtime(overload: &str) -> Option<RuntimeCost> {
    Some(match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" => first,
        "in_list" => in_list,
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => shorter,
        "add_string" | "add_bytes" => both,
        "matches_string" => matches,
        "contains_string" => contains,
        _ => return None,
    })
}

fn size(arguments: &[Value<'_>], index: usize) -> u64 {
    arguments.get(index).map_or(1, actual_size)
}

fn first(arguments: &[Value<'_>], _: Option<&Value<'_>>) -> u64 {
    charge(size(arguments, 0), STRING_TRAVERSAL)
}

fn in_list(arguments: &[Value<'_>], _: Option<&Value<'_>>) -> u64 {
    size(arguments, 1)
}

/// Cost of equality and order, which traverse the shorter operand.
pub fn shorter(arguments: &[Value<'_>], _: Option<&Value<'_>>) -> u64 {
    charge(size(arguments, 0).min(size(arguments, 1)), STRING_TRAVERSAL)
}

fn both(arguments: &[Value<'_>], _: Option<&Value<'_>>) -> u64 {
    charge(size(arguments, 0) + size(arguments, 1), STRING_TRAVERSAL)
}

/// Cost of matching. The length of the string counts one more, because even matching the empty string has a
/// cost.
pub fn matches(arguments: &[Value<'_>], _: Option<&Value<'_>>) -> u64 {
    charge(1 + size(arguments, 0), STRING_TRAVERSAL) * charge(size(arguments, 1), REGEX_LENGTH)
}

fn contains(arguments: &[Value<'_>], _: Option<&Value<'_>>) -> u64 {
    charge(size(arguments, 0), STRING_TRAVERSAL) * charge(size(arguments, 1), STRING_TRAVERSAL)
}
