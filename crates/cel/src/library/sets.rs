//! `cel.lib.ext.sets`: lists as sets.

// upstream: github.com/google/cel-go/ext/sets.go

use super::arguments::list;
use super::costs::{cross, cross_twice, estimate_cross, estimate_cross_twice};
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::{List, Value};

pub static LIBRARY: Library = Library {
    name: "cel.lib.ext.sets",
    functions: &[
        Function {
            name: "sets.contains",
            overloads: &[Overload::new(
                "list_sets_contains_list",
                "(list(T), list(T)) -> bool",
                |arguments| Ok(Value::Bool(includes(list(arguments, 0)?, list(arguments, 1)?)?)),
            )
            .costs(cross, estimate_cross)],
        },
        Function {
            name: "sets.equivalent",
            overloads: &[Overload::new(
                "list_sets_equivalent_list",
                "(list(T), list(T)) -> bool",
                equivalent,
            )
            .costs(cross_twice, estimate_cross_twice)],
        },
        Function {
            name: "sets.intersects",
            overloads: &[Overload::new(
                "list_sets_intersects_list",
                "(list(T), list(T)) -> bool",
                intersects,
            )
            .costs(cross, estimate_cross)],
        },
    ],
    types: &[],
};

/// Whether a list contains an item.
fn has<'a>(list: &List<'a>, item: &Value<'a>) -> Result<bool, Error> {
    for own in list.iter() {
        // Items that cannot be compared are not equal.
        if item.equals(&own?) == Ok(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a list contains all items of another.
fn includes<'a>(all: &List<'a>, some: &List<'a>) -> Result<bool, Error> {
    for item in some.iter() {
        if !has(all, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equivalent<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (first, second) = (list(arguments, 0)?, list(arguments, 1)?);
    Ok(Value::Bool(includes(first, second)? && includes(second, first)?))
}

fn intersects<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (first, second) = (list(arguments, 0)?, list(arguments, 1)?);
    for item in first.iter() {
        if has(second, &item?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
