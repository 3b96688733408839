//! The set of fields of an object.

use serde_json::{Map, Value};

use super::element::Element;
use super::set::Set;
use super::shape::{Inner, Items, NoKey, Shape};

/// The paths of all that an object says: its values, the items of its lists and what is said to be empty.
pub fn fields<'a>(shape: Shape<'_>, value: &'a Value) -> Result<Set<'a>, NoKey> {
    walk(shape, value).map(|(_, below)| below)
}

/// Whether the path to this value is itself in the set, and what is below.
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
        // What is said to be empty is said, too; and an entry of a map is more than what it holds.
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        set.push(Element::Field(name), own || empty || !declared, below);
    }
    Ok(set)
}

fn items_of<'a>(element: Inner<'_>, items: Items<'_>, list: &'a [Value]) -> Result<Set<'a>, NoKey> {
    let shape = element.shape();
    let mut set = Set { nodes: Vec::with_capacity(list.len()) };
    for (step, group) in grouped(element, items, list)? {
        let below = match group.as_slice() {
            [item] => walk(shape, item)?.1,
            // Items that cannot be told apart are one value.
            _ => Set::default(),
        };
        set.push(step, true, below);
    }
    Ok(set)
}

/// The items of a list by the step that leads to them, in the order of steps.
pub(super) fn grouped<'a>(
    element: Inner<'_>,
    items: Items<'_>,
    list: &'a [Value],
) -> Result<Vec<(Element<'a>, Vec<&'a Value>)>, NoKey> {
    let mut groups: Vec<(Element<'a>, Vec<&'a Value>)> = Vec::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        let step =
            items.step(element, item).map_err(|NoKey(words)| NoKey(format!("element {index}: {words}")))?;
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
