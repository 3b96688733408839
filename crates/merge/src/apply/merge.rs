//! Merging of an applied configuration into the live object.

// upstream: sigs.k8s.io/structured-merge-diff/v6/typed/merge.go

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{ItemType, ListIdentity, NoKey, Shape};

/// Returns the live object merged with the configuration.
pub fn merge(shape: Shape<'_>, live: &Value, config: &Value) -> Result<Value, NoKey> {
    Ok(walk(shape, Some(live), Some(config))?.unwrap_or(Value::Null))
}

fn walk(shape: Shape<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, NoKey> {
    let value_of_either = || config.or(live).cloned();
    if shape.is_atomic() {
        return Ok(value_of_either());
    }
    if let Shape::List { element, items } = shape {
        let (left, right) = (live.and_then(Value::as_array), config.and_then(Value::as_array));
        return match (left, right) {
            (None, None) => Ok(value_of_either()),
            (left, right) => {
                let (left, right) =
                    (left.map_or(&[][..], Vec::as_slice), right.map_or(&[][..], Vec::as_slice));
                match (left, right) {
                    ([], []) => Ok(value_of_either()),
                    // There is nothing to merge.
                    (left, []) => Ok(Some(Value::Array(left.to_vec()))),
                    (left, right) => {
                        merge_items(element, items, left, right).map(|list| Some(Value::Array(list)))
                    }
                }
            }
        };
    }
    // The configuration determines the type of a value of unknown type.
    if matches!(shape, Shape::Deduced)
        && config.is_some_and(|config| !config.is_object() && !config.is_null())
    {
        return Ok(value_of_either());
    }
    let (left, right) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
    if left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
        return Ok(value_of_either());
    }
    let Some(right) = right.filter(|right| !right.is_empty()) else {
        return Ok(left.map(|left| Value::Object(left.clone())));
    };
    let mut merged = Map::new();
    for (name, value) in left.into_iter().flatten() {
        // Fields that only the live object has are kept as they are.
        let kept = match (right.get(name), shape.member(name)) {
            (Some(value_of_either), Some((inner, _))) => walk(inner, Some(value), Some(value_of_either))?,
            _ => Some(value.clone()),
        };
        merged.extend(kept.map(|kept| (name.clone(), kept)));
    }
    for (name, value) in right {
        if let (false, Some((inner, _))) = (merged.contains_key(name), shape.member(name)) {
            merged.extend(walk(inner, None, Some(value))?.map(|value| (name.clone(), value)));
        }
    }
    Ok(Some(Value::Object(merged)))
}

/// Merges two lists. Shared items are in the order of the configuration; items of the live object alone keep
/// their position between them.
fn merge_items(
    element: ItemType<'_>,
    items: ListIdentity<'_>,
    live: &[Value],
    config: &[Value],
) -> Result<Vec<Value>, NoKey> {
    let shape = element.shape();
    let left = steps(element, items, live)?;
    let right = steps(element, items, config)?;
    let places = Places::of(&left);
    let right_places = Places::of(&right);
    if let Some(again) = right_places.first_repeated {
        return Err(NoKey(format!("duplicate entries for key {}", right[again])));
    }
    // Index of each item in the other list.
    let in_right: Vec<Option<usize>> = left.iter().map(|step| right_places.first(step)).collect();
    let in_left: Vec<Option<usize>> = right.iter().map(|step| places.first(step)).collect();
    // A duplicate item of the live list is replaced, not merged.
    let repeated = |index: usize| places.is_repeated(&left[index]);
    let join = |right_index: usize| {
        let null = Value::Null;
        let before = in_left[right_index].map(|index| if repeated(index) { &null } else { &live[index] });
        walk(shape, before, Some(&config[right_index]))
    };
    let mut shared = (0..right.len()).filter(|index| in_left[*index].is_some());
    let mut next_shared = shared.next();
    let mut merged = vec![false; right.len()];
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            if in_right[l] == Some(r) {
                merged[r] = true;
                out.extend(join(r)?);
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            // The item comes later, at another position.
            if in_right[l].is_some() && next_shared.is_some() && in_right[l] != next_shared {
                l += 1;
                continue;
            }
        }
        if l < left.len() {
            match in_right[l] {
                None => {
                    out.extend(walk(shape, Some(&live[l]), None)?);
                    l += 1;
                    continue;
                }
                Some(index) if merged[index] => l += 1,
                Some(_) => {}
            }
        }
        if r < right.len() {
            merged[r] = true;
            out.extend(join(r)?);
            if next_shared == Some(r) {
                next_shared = shared.next();
            }
            r += 1;
        }
    }
    Ok(out)
}

/// The places of the items of a list by path element, so that two long lists are compared in `n log n` steps.
struct Places<'x, 'a> {
    /// The first index of each element, and whether there are more.
    indices: BTreeMap<&'x Element<'a>, (usize, bool)>,
    /// Index of the first item that is equal to an earlier one.
    first_repeated: Option<usize>,
}

impl<'x, 'a> Places<'x, 'a> {
    fn of(steps: &'x [Element<'a>]) -> Self {
        let mut places = Places { indices: BTreeMap::new(), first_repeated: None };
        for (index, step) in steps.iter().enumerate() {
            match places.indices.entry(step) {
                Entry::Vacant(entry) => {
                    entry.insert((index, false));
                }
                Entry::Occupied(mut entry) => {
                    entry.get_mut().1 = true;
                    places.first_repeated.get_or_insert(index);
                }
            }
        }
        places
    }

    /// Returns the index of the first item with this path element.
    fn first(&self, step: &Element<'_>) -> Option<usize> {
        self.indices.get(step).map(|(index, _)| *index)
    }

    fn is_repeated(&self, step: &Element<'_>) -> bool {
        self.indices.get(step).is_some_and(|(_, is_repeated)| *is_repeated)
    }
}

fn steps<'a>(
    element: ItemType<'_>,
    items: ListIdentity<'_>,
    list: &'a [Value],
) -> Result<Vec<Element<'a>>, NoKey> {
    let step = |(index, item)| {
        items.step(element, item).map_err(|NoKey(message)| NoKey(format!("element {index}: {message}")))
    };
    list.iter().enumerate().map(step).collect()
}
