//! Lists that are sets or have keys: equal in any order, and merged by `+`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;

use super::{List, Map, Value};
use crate::error::Error;
use crate::shape::ListKind;

/// Data without a structure, by which sets tell their items apart. Upstream looks at the data here, not at values: what has
/// become something else by its format is never found.
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

/// Whether all of the second are in the first, which has as many.
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

/// The keys of an item, as text that only the same keys give. Only data has them, not what was made.
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

/// Whether items with the same keys are the same.
pub(super) fn same_keyed<'a>(one: &List<'a>, two: &List<'a>, keys: &[String]) -> Result<bool, Error> {
    let mut places = HashMap::with_capacity(one.len());
    for (place, item) in one.iter().enumerate() {
        if let Some(key) = keys_of(&item?, keys) {
            places.insert(key, place);
        }
    }
    for item in two.iter() {
        let item = item?;
        let own = keys_of(&item, keys).and_then(|key| places.get(&key)).and_then(|place| one.get(*place));
        match own.transpose()? {
            Some(own) if own.equals(&item)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Two lists as one: sets take what they have not, lists with keys replace what has the same ones, others go on.
pub(crate) fn merged<'a>(one: &List<'a>, two: &List<'a>) -> Result<List<'a>, Error> {
    let (kind, shape) = match one.kind() {
        None | Some((ListKind::Atomic, _)) => return one.joined(two),
        Some(kept) => kept,
    };
    let mut items = one.values()?;
    match kind {
        ListKind::Map(keys) => {
            let own =
                items.iter().enumerate().filter_map(|(place, item)| Some((keys_of(item, keys)?, place)));
            let places: HashMap<String, usize> = own.collect();
            for item in two.iter() {
                let item = item?;
                match keys_of(&item, keys).and_then(|key| places.get(&key)) {
                    Some(place) => items[*place] = item,
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
    Ok(List::Kept(Arc::new(items), shape, kind))
}
