//! `kubernetes.lists`: functions of lists.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/lists.go

use std::cmp::Ordering;

use super::arguments::{any, list};
use super::costs::{estimate_walk, walk};
use super::sequences::is_comparable;
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::Value;

/// Declares one overload for each item type, in upstream's order.
macro_rules! for_types {
    ($call:expr; $($id:literal $signature:literal),* $(,)?) => {
        &[$(Overload::new($id, $signature, $call).costs(walk, estimate_walk)),*]
    };
}

pub static LIBRARY: Library = Library {
    name: "kubernetes.lists",
    functions: &[
        Function {
            name: "isSorted",
            overloads: for_types![is_sorted;
                "list_int_is_sorted_bool" "list(int).() -> bool",
                "list_uint_is_sorted_bool" "list(uint).() -> bool",
                "list_double_is_sorted_bool" "list(double).() -> bool",
                "list_bool_is_sorted_bool" "list(bool).() -> bool",
                "list_duration_is_sorted_bool" "list(duration).() -> bool",
                "list_timestamp_is_sorted_bool" "list(timestamp).() -> bool",
                "list_string_is_sorted_bool" "list(string).() -> bool",
                "list_bytes_is_sorted_bool" "list(bytes).() -> bool",
            ],
        },
        Function {
            name: "sum",
            overloads: &[
                Overload::new("list_int_sum_int", "list(int).() -> int", |items| sum(items, Value::Int(0)))
                    .costs(walk, estimate_walk),
                Overload::new("list_uint_sum_uint", "list(uint).() -> uint", |items| {
                    sum(items, Value::Uint(0))
                })
                .costs(walk, estimate_walk),
                Overload::new("list_double_sum_double", "list(double).() -> double", |items| {
                    sum(items, Value::Double(0.0))
                })
                .costs(walk, estimate_walk),
                Overload::new("list_duration_sum_duration", "list(duration).() -> duration", |items| {
                    sum(items, Value::Duration(0))
                })
                .costs(walk, estimate_walk),
            ],
        },
        Function {
            name: "max",
            overloads: for_types![max;
                "list_int_max_int" "list(int).() -> int",
                "list_uint_max_uint" "list(uint).() -> uint",
                "list_double_max_double" "list(double).() -> double",
                "list_bool_max_bool" "list(bool).() -> bool",
                "list_duration_max_duration" "list(duration).() -> duration",
                "list_timestamp_max_timestamp" "list(timestamp).() -> timestamp",
                "list_string_max_string" "list(string).() -> string",
                "list_bytes_max_bytes" "list(bytes).() -> bytes",
            ],
        },
        Function {
            name: "min",
            overloads: for_types![min;
                "list_int_min_int" "list(int).() -> int",
                "list_uint_min_uint" "list(uint).() -> uint",
                "list_double_min_double" "list(double).() -> double",
                "list_bool_min_bool" "list(bool).() -> bool",
                "list_duration_min_duration" "list(duration).() -> duration",
                "list_timestamp_min_timestamp" "list(timestamp).() -> timestamp",
                "list_string_min_string" "list(string).() -> string",
                "list_bytes_min_bytes" "list(bytes).() -> bytes",
            ],
        },
        Function {
            name: "indexOf",
            overloads: for_types![index_of; "list_a_index_of_int" "list(A).(A) -> int"],
        },
        Function {
            name: "lastIndexOf",
            overloads: for_types![last_index_of; "list_a_last_index_of_int" "list(A).(A) -> int"],
        },
    ],
    types: &[],
};

fn is_sorted<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut before: Option<Value<'a>> = None;
    for item in list(arguments, 0)?.iter() {
        let item = ordered(item?)?;
        // Items that cannot be compared do not make a list unsorted.
        if before.is_some_and(|before| before.compare(&item) == Ok(Ordering::Greater)) {
            return Ok(Value::Bool(false));
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

/// Returns an item if its type is ordered.
fn ordered(item: Value<'_>) -> Result<Value<'_>, Error> {
    if is_comparable(&item) { Ok(item) } else { Err(Error::NoSuchOverload) }
}

fn sum<'a>(arguments: &[Value<'a>], zero: Value<'a>) -> Result<Value<'a>, Error> {
    list(arguments, 0)?.iter().try_fold(zero, |sum, item| plus(&sum, &item?))
}

fn plus<'a>(sum: &Value<'a>, item: &Value<'a>) -> Result<Value<'a>, Error> {
    let overflow = |what| Error::new(what);
    match (sum, item) {
        (Value::Int(one), Value::Int(two)) => {
            one.checked_add(*two).map(Value::Int).ok_or_else(|| overflow("integer overflow"))
        }
        (Value::Uint(one), Value::Uint(two)) => {
            one.checked_add(*two).map(Value::Uint).ok_or_else(|| overflow("unsigned integer overflow"))
        }
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one + two)),
        (Value::Duration(one), Value::Duration(two)) => {
            one.checked_add(*two).map(Value::Duration).ok_or_else(|| overflow("integer overflow"))
        }
        _ => Err(Error::NoSuchOverload),
    }
}

fn min<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    extremum(arguments, Ordering::Greater, "min called on empty list")
}

fn max<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    extremum(arguments, Ordering::Less, "max called on empty list")
}

/// Returns the minimum or maximum: the first item to which no other compares as `worse`.
fn extremum<'a>(
    arguments: &[Value<'a>],
    worse: Ordering,
    otherwise: &'static str,
) -> Result<Value<'a>, Error> {
    let mut items = list(arguments, 0)?.iter();
    let first = ordered(items.next().ok_or_else(|| Error::new(otherwise))??)?;
    items.try_fold(first, |best, item| {
        let item = ordered(item?)?;
        Ok(if best.compare(&item) == Ok(worse) { item } else { best })
    })
}

fn index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (items, sought) = (list(arguments, 0)?, any(arguments, 1)?);
    position(items.iter().position(|item| item.is_ok_and(|item| item.equals(sought) == Ok(true))))
}

fn last_index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (items, sought) = (list(arguments, 0)?, any(arguments, 1)?);
    let is_sought =
        |index: &usize| matches!(items.get(*index), Some(Ok(item)) if item.equals(sought) == Ok(true));
    position((0..items.len()).rev().find(is_sought))
}

fn position<'a>(index: Option<usize>) -> Result<Value<'a>, Error> {
    Ok(Value::Int(index.map_or(-1, |index| index as i64)))
}
