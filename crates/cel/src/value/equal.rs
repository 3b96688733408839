//! Equality and order of values.

// upstream: github.com/google/cel-go/common/types/util.go
// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go

use std::cmp::Ordering;

use super::merge::{same_keyed, same_set};
use super::{List, Map, Value};
use crate::error::Error;
use crate::shape::{ListKind, ShapeKind};

impl<'a> Value<'a> {
    /// Whether two values are equal. Values of different types are not, except for numbers; comparing lists
    /// and maps with a schema to other types is an error.
    pub fn equals(&self, other: &Value<'a>) -> Result<bool, Error> {
        Ok(match (self, other) {
            (Value::Null, Value::Null) => true,
            // Comparing with null is never an error.
            (Value::Null, _) | (_, Value::Null) => false,
            (Value::Bool(one), Value::Bool(two)) => one == two,
            (
                Value::Int(_) | Value::Uint(_) | Value::Double(_),
                Value::Int(_) | Value::Uint(_) | Value::Double(_),
            ) => self.compare_numbers(other) == Some(Ordering::Equal),
            (Value::String(one), Value::String(two)) => **one == **two,
            (Value::Bytes(one), Value::Bytes(two)) => one == two,
            (Value::Timestamp(one), Value::Timestamp(two)) => one == two,
            (Value::Duration(one), Value::Duration(two)) => one == two,
            (Value::Type(one), Value::Type(two)) => one == two,
            (Value::Optional(one), Value::Optional(two)) => match (one, two) {
                (None, None) => true,
                (Some(one), Some(two)) => one.equals(two)?,
                _ => false,
            },
            (Value::Unknown(one), Value::Unknown(two)) => one == two,
            (Value::Opaque(one), Value::Opaque(two)) if one.type_name() == two.type_name() => {
                one.equals(&**two)
            }
            // Comparing opaque types with other types is an error.
            (Value::Opaque(_), _) => return Err(Error::NoSuchOverload),
            (Value::List(one), Value::List(two)) => lists(one, two)?,
            (Value::Map(one), Value::Map(two)) => maps(one, two)?,
            (Value::List(List::Json(..) | List::Merged(..)) | Value::Map(Map::Json(..)), _) => {
                return Err(Error::NoSuchOverload);
            }
            _ => false,
        })
    }

    /// Compares two numbers of any type. `None` if one is not a number.
    pub(crate) fn compare_numbers(&self, other: &Value<'_>) -> Option<Ordering> {
        fn compare_integer(number: i128, double: f64) -> Option<Ordering> {
            if double.is_nan() {
                return None;
            }
            // Outside the range of integers the double decides; otherwise compare the integer part and then
            // the fraction.
            if double >= 18_446_744_073_709_551_616.0 {
                return Some(Ordering::Less);
            }
            if double < -9_223_372_036_854_775_808.0 {
                return Some(Ordering::Greater);
            }
            // As upstream: the integer becomes a double.
            (number as f64).partial_cmp(&double)
        }
        match (self, other) {
            (Value::Int(one), Value::Int(two)) => Some(one.cmp(two)),
            (Value::Uint(one), Value::Uint(two)) => Some(one.cmp(two)),
            (Value::Double(one), Value::Double(two)) => one.partial_cmp(two),
            (Value::Int(one), Value::Uint(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            (Value::Uint(one), Value::Int(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            (Value::Int(one), Value::Double(two)) => compare_integer(i128::from(*one), *two),
            (Value::Uint(one), Value::Double(two)) => compare_integer(i128::from(*one), *two),
            (Value::Double(one), Value::Int(two)) => {
                compare_integer(i128::from(*two), *one).map(Ordering::reverse)
            }
            (Value::Double(one), Value::Uint(two)) => {
                compare_integer(i128::from(*two), *one).map(Ordering::reverse)
            }
            _ => None,
        }
    }

    /// Compares two values, as `<` does.
    pub fn compare(&self, other: &Value<'a>) -> Result<Ordering, Error> {
        Ok(match (self, other) {
            (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
            (Value::String(one), Value::String(two)) => (**one).cmp(&**two),
            (Value::Bytes(one), Value::Bytes(two)) => one.cmp(two),
            (Value::Timestamp(one), Value::Timestamp(two)) => one.cmp(two),
            (Value::Duration(one), Value::Duration(two)) => one.cmp(two),
            (Value::Double(one), _) if one.is_nan() => {
                return Err(Error::new("NaN values cannot be ordered"));
            }
            (_, Value::Double(two)) if two.is_nan() => {
                return Err(Error::new("NaN values cannot be ordered"));
            }
            _ => self.compare_numbers(other).ok_or(Error::NoSuchOverload)?,
        })
    }
}

fn lists<'a>(one: &List<'a>, two: &List<'a>) -> Result<bool, Error> {
    if one.len() != two.len() {
        return Ok(false);
    }
    match one.kind() {
        Some((ListKind::Set, _)) => return same_set(one, two),
        Some((ListKind::Map(keys), _)) => return same_keyed(one, two, keys),
        _ => {}
    }
    for (left, right) in one.iter().zip(two.iter()) {
        match left?.equals(&right?) {
            Ok(true) => {}
            // In lists without a schema, incomparable items do not make a difference.
            Err(_) if one.kind().is_none() => {}
            other => return other,
        }
    }
    Ok(true)
}

fn maps<'a>(one: &Map<'a>, two: &Map<'a>) -> Result<bool, Error> {
    if one.len() != two.len() {
        return Ok(false);
    }
    let Map::Json(members, shape) = one else {
        for key in one.keys() {
            match (one.find(&key)?, two.find(&key)?) {
                (Some(left), Some(right)) if left.equals(&right) != Ok(false) => {}
                _ => return Ok(false),
            }
        }
        return Ok(true);
    };
    for (name, raw) in *members {
        let known = match &shape.kind {
            ShapeKind::Map(_) => true,
            ShapeKind::Object(object) => object.fields.contains_key(name),
            _ => false,
        };
        if known {
            // As upstream, the JSON name is used as an escaped name here.
            match (one.member(name)?, two.find(&Value::from(name.as_str()))?) {
                (None, None) => {}
                (Some(left), Some(right)) if left.equals(&right)? => {}
                _ => return Ok(false),
            }
            continue;
        }
        let Map::Json(others, _) = two else { return Err(Error::NoSuchOverload) };
        if others.get(name).is_some_and(|other| other != raw) {
            return Ok(false);
        }
    }
    Ok(true)
}
