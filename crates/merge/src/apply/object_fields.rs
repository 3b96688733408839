//! The set of fields of an object.

// upstream: sigs.k8s.io/structured-merge-diff/v6/typed/tofieldset.go

use serde_json::{Map, Value};

use super::element::Element;
use super::path_set::Set;
use super::shape::{ItemType, ListIdentity, NoKey, Shape};

/// Returns the paths of all values of an object, including list items and empty maps.
pub fn of<'a>(shape: Shape<'_>, value: &'a Value) -> Result<Set<'a>, NoKey> {
    walk(shape, value).map(|(_, below)| below)
}

/// Returns whether the path of this value is itself in the set, and the paths below it.
fn walk<'a>(shape: Shape<'_>, value: &'a Value) -> Result<(bool, Set<'a>), NoKey> {
    if shape.is_atomic() {
        return Ok((true, Set::default()));
    }
    match (shape, value) {
        (_, Value::Null) => Ok((false, Set::default())),
        (Shape::List { element, items }, Value::Array(list)) => {
            items_of(element, items, list).map(|below| (false, below))
        }
        (Shape::List { .. }, _) => Ok((false, Set::default())),
        (_, Value::Object(map)) => members(shape, map).map(|below| (false, below)),
        (Shape::Deduced, _) => Ok((true, Set::default())),
        _ => Ok((false, Set::default())),
    }
}

fn members<'a>(shape: Shape<'_>, map: &'a Map<String, Value>) -> Result<Set<'a>, NoKey> {
    let mut set = Set { nodes: Vec::with_capacity(map.len()) };
    for (name, value) in map {
        let Some((inner, declared)) = shape.member(name) else { continue };
        let (own, below) = walk(inner, value)?;
        // Empty values and map entries are members themselves.
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        set.push(Element::Field(name), own || empty || !declared, below);
    }
    Ok(set)
}

fn items_of<'a>(element: ItemType<'_>, items: ListIdentity<'_>, list: &'a [Value]) -> Result<Set<'a>, NoKey> {
    let shape = element.shape();
    let mut set = Set { nodes: Vec::with_capacity(list.len()) };
    for (step, group) in grouped(element, items, list)? {
        let below = match group.as_slice() {
            [item] => walk(shape, item)?.1,
            // Duplicate items are one value.
            _ => Set::default(),
        };
        set.push(step, true, below);
    }
    Ok(set)
}

/// Groups the items of a list by path element, in the order of elements.
pub(super) fn grouped<'a>(
    element: ItemType<'_>,
    items: ListIdentity<'_>,
    list: &'a [Value],
) -> Result<Vec<(Element<'a>, Vec<&'a Value>)>, NoKey> {
    let mut groups: Vec<(Element<'a>, Vec<&'a Value>)> = Vec::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        let step = items
            .step(element, item)
            .map_err(|NoKey(message)| NoKey(format!("element {index}: {message}")))?;
        groups.push((step, vec![item]));
    }
    groups.sort_by(|left, right| left.0.cmp(&right.0));
    groups.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1.append(&mut later.1);
        }
        same
    });
    Ok(groups)
}
