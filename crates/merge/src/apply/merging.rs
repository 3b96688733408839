//! An applied configuration laid over the live object.

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{Inner, Items, NoKey, Shape};

/// The live object with what the configuration says.
pub fn merge(shape: Shape<'_>, live: &Value, config: &Value) -> Result<Value, NoKey> {
    Ok(walk(shape, Some(live), Some(config))?.unwrap_or(Value::Null))
}

fn walk(shape: Shape<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, NoKey> {
    let said = || config.or(live).cloned();
    if shape.is_atomic() {
        return Ok(said());
    }
    if let Shape::List { element, items } = shape {
        let (left, right) = (live.and_then(Value::as_array), config.and_then(Value::as_array));
        return match (left, right) {
            (None, None) => Ok(said()),
            (left, right) => {
                let (left, right) =
                    (left.map_or(&[][..], Vec::as_slice), right.map_or(&[][..], Vec::as_slice));
                match (left, right) {
                    ([], []) => Ok(said()),
                    // Nothing to bring together, and nothing to get out of order.
                    (left, []) => Ok(Some(Value::Array(left.to_vec()))),
                    (left, right) => {
                        merge_items(element, items, left, right).map(|list| Some(Value::Array(list)))
                    }
                }
            }
        };
    }
    // Of a value whose form is not known, the configuration says which it is to have.
    if matches!(shape, Shape::Deduced)
        && config.is_some_and(|config| !config.is_object() && !config.is_null())
    {
        return Ok(said());
    }
    let (left, right) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
    if left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
        return Ok(said());
    }
    let Some(right) = right.filter(|right| !right.is_empty()) else {
        return Ok(left.map(|left| Value::Object(left.clone())));
    };
    let mut merged = Map::new();
    for (name, value) in left.into_iter().flatten() {
        // What nobody speaks of is not looked at.
        let kept = match (right.get(name), shape.member(name)) {
            (Some(said), Some((inner, _))) => walk(inner, Some(value), Some(said))?,
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

/// Brings two lists together. Items of both are in the order of the configuration; those of the live object alone stay
/// where they are between them.
fn merge_items(
    element: Inner<'_>,
    items: Items<'_>,
    live: &[Value],
    config: &[Value],
) -> Result<Vec<Value>, NoKey> {
    let shape = element.shape();
    let left = steps(element, items, live)?;
    let right = steps(element, items, config)?;
    if let Some(again) = right.iter().enumerate().find(|(index, step)| right[..*index].contains(step)) {
        return Err(NoKey(format!("duplicate entries for key {}", again.1)));
    }
    let place = |steps: &[Element<'_>], step: &Element<'_>| steps.iter().position(|other| other == step);
    // Where each item of one list is in the other.
    let in_right: Vec<Option<usize>> = left.iter().map(|step| place(&right, step)).collect();
    let in_left: Vec<Option<usize>> = right.iter().map(|step| place(&left, step)).collect();
    // An item that the live list has twice is replaced, not merged.
    let repeated = |index: usize| left.iter().filter(|step| **step == left[index]).count() > 1;
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
            // It comes later, in another place.
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

fn steps<'a>(element: Inner<'_>, items: Items<'_>, list: &'a [Value]) -> Result<Vec<Element<'a>>, NoKey> {
    let step = |(index, item)| {
        items.step(element, item).map_err(|NoKey(words)| NoKey(format!("element {index}: {words}")))
    };
    list.iter().enumerate().map(step).collect()
}
