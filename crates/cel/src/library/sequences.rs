//! `cel.lib.ext.lists`: functions that create lists.

// upstream: github.com/google/cel-go/ext/lists.go

use std::cmp::Ordering;
use std::mem::discriminant;

use super::arguments::{any, int, list};
use super::costs::{
    compare_items, estimate_compare, estimate_compare_texts, estimate_flatten, estimate_range,
    estimate_reverse, estimate_slice, flatten as flatten_cost, make_list, one,
};
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::{List, Value};

/// Maximum length of a range. A longer one would exceed the cost limit.
const MAX_NUMBERS: i64 = 1_000_000;

/// Declares one overload for each item type, in upstream's order.
macro_rules! for_types {
    ($call:expr; $($id:literal $signature:literal $estimate:expr),* $(,)?) => {
        &[$(Overload::new($id, $signature, $call).costs(compare_items, $estimate).ambiguously(one).unguarded()),*]
    };
}

pub static LIBRARY: Library = Library {
    name: "cel.lib.ext.lists",
    functions: &[
        Function {
            name: "slice",
            overloads: &[Overload::new("list_slice", "list(T).(int, int) -> list(T)", slice)
                .costs(make_list, estimate_slice)],
        },
        Function {
            name: "flatten",
            overloads: &[
                Overload::new("list_flatten", "list(list(T)).() -> list(T)", flatten)
                    .costs(flatten_cost, estimate_flatten)
                    .unguarded(),
                Overload::new("list_flatten_int", "list(dyn).(int) -> list(dyn)", flatten)
                    .costs(flatten_cost, estimate_flatten)
                    .unguarded(),
            ],
        },
        Function {
            name: "sort",
            overloads: for_types![sort;
                "list_int_sort" "list(int).() -> list(int)" estimate_compare,
                "list_uint_sort" "list(uint).() -> list(uint)" estimate_compare,
                "list_double_sort" "list(double).() -> list(double)" estimate_compare,
                "list_bool_sort" "list(bool).() -> list(bool)" estimate_compare,
                "list_google.protobuf.Duration_sort" "list(duration).() -> list(duration)" estimate_compare,
                "list_google.protobuf.Timestamp_sort" "list(timestamp).() -> list(timestamp)" estimate_compare,
                "list_string_sort" "list(string).() -> list(string)" estimate_compare_texts,
                "list_bytes_sort" "list(bytes).() -> list(bytes)" estimate_compare_texts,
            ],
        },
        Function {
            name: "@sortByAssociatedKeys",
            overloads: for_types![sort_by_keys;
                "list_int_sortByAssociatedKeys" "list(T).(list(int)) -> list(T)" estimate_compare,
                "list_uint_sortByAssociatedKeys" "list(T).(list(uint)) -> list(T)" estimate_compare,
                "list_double_sortByAssociatedKeys" "list(T).(list(double)) -> list(T)" estimate_compare,
                "list_bool_sortByAssociatedKeys" "list(T).(list(bool)) -> list(T)" estimate_compare,
                "list_google.protobuf.Duration_sortByAssociatedKeys" "list(T).(list(duration)) -> list(T)"
                    estimate_compare,
                "list_google.protobuf.Timestamp_sortByAssociatedKeys" "list(T).(list(timestamp)) -> list(T)"
                    estimate_compare,
                "list_string_sortByAssociatedKeys" "list(T).(list(string)) -> list(T)" estimate_compare_texts,
                "list_bytes_sortByAssociatedKeys" "list(T).(list(bytes)) -> list(T)" estimate_compare_texts,
            ],
        },
        Function {
            name: "lists.range",
            overloads: &[
                Overload::new("lists_range", "(int) -> list(int)", range).costs(make_list, estimate_range)
            ],
        },
        Function {
            name: "reverse",
            overloads: &[Overload::new("list_reverse", "list(T).() -> list(T)", reverse)
                .costs(make_list, estimate_reverse)],
        },
        Function {
            name: "distinct",
            overloads: &[Overload::new("list_distinct", "list(T).() -> list(T)", distinct)
                .costs(compare_items, estimate_compare)],
        },
    ],
    types: &[],
};

fn slice<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (items, start, end) = (list(arguments, 0)?, int(arguments, 1)?, int(arguments, 2)?);
    let refuse = |reason: &str| Err(Error::new(format!("cannot slice({start}, {end}), {reason}")));
    let (Ok(first), Ok(after)) = (usize::try_from(start), usize::try_from(end)) else {
        return refuse("negative indexes not supported");
    };
    if first > after {
        return refuse("start index must be less than or equal to end index");
    }
    if items.len() < after {
        return refuse(&format!("list is length {}", items.len()));
    }
    let items: Result<Vec<_>, Error> = (first..after).filter_map(|index| items.get(index)).collect();
    Ok(Value::from(items?))
}

fn flatten<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let depth = if arguments.len() > 1 { int(arguments, 1)? } else { 1 };
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(&mut flat, list(arguments, 0)?, depth)?;
    Ok(Value::from(flat))
}

fn flatten_into<'a>(flat: &mut Vec<Value<'a>>, items: &List<'a>, depth: i64) -> Result<(), Error> {
    for item in items.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(flat, &inner, depth - 1)?,
            item => flat.push(item),
        }
    }
    Ok(())
}

fn sort<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    sorted(any(arguments, 0)?, list(arguments, 0)?)
}

fn sort_by_keys<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    sorted(any(arguments, 0)?, list(arguments, 1)?)
}

/// Returns the items in the order of their keys.
fn sorted<'a>(items: &Value<'a>, keys: &List<'a>) -> Result<Value<'a>, Error> {
    let own = items.as_list().ok_or(Error::NoSuchOverload)?;
    if own.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            own.len(),
            keys.len()
        )));
    }
    let keys = keys.values()?;
    let Some(first) = keys.first() else {
        return Ok(items.clone());
    };
    if !is_comparable(first) {
        return Err(Error::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| discriminant(key) != discriminant(first)) {
        return Err(Error::new("list elements must have the same type"));
    }
    let order = order(&keys);
    let sorted: Result<Vec<_>, Error> = order.into_iter().filter_map(|index| own.get(index)).collect();
    Ok(Value::from(sorted?))
}

/// Whether values of the type are ordered.
pub(super) fn is_comparable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
    )
}

/// Maximum length of a list that upstream sorts by insertion.
const SHORT: usize = 12;

/// Returns the indexes of the keys in sorted order. Short lists are sorted as upstream does, even with NaN;
/// longer lists are sorted stably, which upstream does not guarantee.
fn order(keys: &[Value<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    if keys.len() > SHORT {
        order.sort_by(|&one, &two| in_order(&keys[one], &keys[two]));
        return order;
    }
    for sorted in 1..order.len() {
        let mut index = sorted;
        while index > 0 && keys[order[index]].compare(&keys[order[index - 1]]) == Ok(Ordering::Less) {
            order.swap(index, index - 1);
            index -= 1;
        }
    }
    order
}

/// A total order, in which NaN is greater than all numbers.
fn in_order<'a>(one: &Value<'a>, two: &Value<'a>) -> Ordering {
    match (one, two) {
        (Value::Double(one), Value::Double(two)) => {
            one.partial_cmp(two).unwrap_or_else(|| one.total_cmp(two))
        }
        _ => one.compare(two).unwrap_or(Ordering::Equal),
    }
}

fn range<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let end = int(arguments, 0)?;
    if end > MAX_NUMBERS {
        return Err(Error::Cancelled);
    }
    Ok(Value::from((0..end).map(Value::Int).collect::<Vec<_>>()))
}

fn reverse<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut items = list(arguments, 0)?.values()?;
    items.reverse();
    Ok(Value::from(items))
}

fn distinct<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let mut seen: Vec<Value<'a>> = Vec::new();
    for item in list(arguments, 0)?.iter() {
        let item = item?;
        if !seen.iter().any(|other| item.equals(other) == Ok(true)) {
            seen.push(item);
        }
    }
    Ok(Value::from(seen))
}
