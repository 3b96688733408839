//! Sets and map lists: equality in any order, and merging by `+`.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;

use super::{List, Map, Value};
use crate::error::Error;
use crate::shape::ListKind;

/// Scalar JSON, by which the items of sets are compared. As upstream, this compares the JSON data and not the
/// values: an item that its format turned into another type never matches.
#[derive(PartialEq, Eq, Hash)]
enum Scalar<'v> {
    Bool(bool),
    Int(i64),
    Double(u64),
    Text(&'v str),
}

fn raw(json: &Json) -> Option<Scalar<'_>> {
    Some(match json {
        Json::Bool(it) => Scalar::Bool(*it),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Scalar::Int(number),
            None => Scalar::Double(number.as_f64()?.to_bits()),
        },
        Json::String(text) => Scalar::Text(text),
        _ => return None,
    })
}

fn scalar<'v>(value: &'v Value<'_>) -> Option<Scalar<'v>> {
    Some(match value {
        Value::Bool(it) => Scalar::Bool(*it),
        Value::Int(it) => Scalar::Int(*it),
        Value::Double(it) => Scalar::Double(it.to_bits()),
        Value::String(text) => Scalar::Text(text),
        _ => return None,
    })
}

/// Whether the first list contains all items of the second, which has the same length.
pub(super) fn same_set<'a>(one: &List<'a>, two: &List<'a>) -> Result<bool, Error> {
    let values;
    let own: HashSet<Scalar<'_>> = match one {
        List::Json(items, ..) => items.iter().filter_map(raw).collect(),
        _ => {
            values = one.values()?;
            values.iter().filter_map(scalar).collect()
        }
    };
    for item in two.iter() {
        if !scalar(&item?).is_some_and(|item| own.contains(&item)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the keys of an item as a string that identifies them. Only JSON items have keys, not computed
/// ones.
fn keys_of(item: &Value<'_>, keys: &[String]) -> Option<String> {
    let Value::Map(Map::Json(members, _) | Map::Plain(members)) = item else { return None };
    let mut text = String::new();
    for key in keys {
        match members.get(key) {
            Some(value) => text.push_str(&value.to_string()),
            None => text.push_str("nothing"),
        }
        text.push('\0');
    }
    Some(text)
}

/// Whether items with the same keys are equal.
pub(super) fn same_keyed<'a>(one: &List<'a>, two: &List<'a>, keys: &[String]) -> Result<bool, Error> {
    let mut indexes = HashMap::with_capacity(one.len());
    for (index, item) in one.iter().enumerate() {
        if let Some(key) = keys_of(&item?, keys) {
            indexes.insert(key, index);
        }
    }
    for item in two.iter() {
        let item = item?;
        let own = keys_of(&item, keys).and_then(|key| indexes.get(&key)).and_then(|index| one.get(*index));
        match own.transpose()? {
            Some(own) if own.equals(&item)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Merges two lists: sets add missing items, map lists replace items with the same keys, other lists are
/// concatenated.
pub(crate) fn merged<'a>(one: &List<'a>, two: &List<'a>) -> Result<List<'a>, Error> {
    let (kind, shape) = match one.kind() {
        None | Some((ListKind::Atomic, _)) => return one.joined(two),
        Some(kept) => kept,
    };
    let mut items = one.values()?;
    match kind {
        ListKind::Map(keys) => {
            let own =
                items.iter().enumerate().filter_map(|(index, item)| Some((keys_of(item, keys)?, index)));
            let indexes: HashMap<String, usize> = own.collect();
            for item in two.iter() {
                let item = item?;
                match keys_of(&item, keys).and_then(|key| indexes.get(&key)) {
                    Some(index) => items[*index] = item,
                    None => items.push(item),
                }
            }
        }
        _ => {
            let more = two.values()?;
            let mut own: HashSet<Scalar<'_>> = items.iter().filter_map(scalar).collect();
            let new: Vec<Value<'a>> = more
                .iter()
                .filter(|item| scalar(item).is_none_or(|item| own.insert(item)))
                .cloned()
                .collect();
            drop(own);
            items.extend(new);
        }
    }
    Ok(List::Merged(Arc::new(items), shape, kind))
}
