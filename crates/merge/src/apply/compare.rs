//! What changes from one object to another.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::element::Element;
use super::owned::grouped;
use super::set::Set;
use super::shape::{Inner, Items, NoKey, Shape};

/// The paths that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// In the first object only.
    pub removed: Set<'a>,
    /// In the second object only, or with another value there.
    pub changed: Set<'a>,
}

/// What happened to a value as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Same,
    Removed,
    Changed,
}

type Side<'a> = Option<&'a Value>;

/// Compares two objects of one shape.
pub fn compare<'a>(shape: Shape<'_>, old: &'a Value, new: &'a Value) -> Result<Comparison<'a>, NoKey> {
    let mut comparison = Comparison::default();
    walk(shape, Some(old), Some(new), &mut comparison)?;
    Ok(comparison)
}

/// Compares two values, of which one may be absent. The result has the paths below; the value's own fate is returned.
fn walk<'a>(
    shape: Shape<'_>,
    old: Side<'a>,
    new: Side<'a>,
    below: &mut Comparison<'a>,
) -> Result<Own, NoKey> {
    if shape.is_atomic() {
        return Ok(leaf(old, new));
    }
    if let Shape::List { element, items } = shape {
        let (left, right) = (list(old), list(new));
        if left.is_empty() && right.is_empty() {
            return Ok(leaf(old, new));
        }
        compare_items(element, items, left, right, below)?;
        return Ok(presence(old, new));
    }
    let (left, right) = (map(old), map(new));
    if left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
        return Ok(leaf(old, new));
    }
    compare_members(shape, left, right, below)?;
    // A map that was something else before, or becomes it, has changed besides losing or getting its entries.
    let other = |side: Side<'_>| side.is_some_and(|value| !value.is_object() && !value.is_null());
    if other(old) || other(new) {
        return Ok(leaf(old, new));
    }
    Ok(presence(old, new))
}

fn presence(old: Side<'_>, new: Side<'_>) -> Own {
    match (old, new) {
        (None, _) => Own::Changed,
        (_, None) => Own::Removed,
        _ => Own::Same,
    }
}

fn leaf(old: Side<'_>, new: Side<'_>) -> Own {
    match (old, new) {
        (Some(old), Some(new)) if same(old, new) => Own::Same,
        (Some(_), None) => Own::Removed,
        _ => Own::Changed,
    }
}

/// Equality that does not care how a number is written.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    left == right || atoll_meta::json::compare(left, right).is_eq()
}

fn list(side: Side<'_>) -> &[Value] {
    side.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn map(side: Side<'_>) -> Option<&Map<String, Value>> {
    side.and_then(Value::as_object)
}

impl<'a> Comparison<'a> {
    /// Puts what was found below a step in its place.
    fn attach(&mut self, step: Element<'a>, own: Own, below: Comparison<'a>) {
        if own == Own::Removed || !below.removed.is_empty() {
            self.removed.push(step.clone(), own == Own::Removed, below.removed);
        }
        self.changed.push(step, own == Own::Changed, below.changed);
    }
}

fn compare_members<'a>(
    shape: Shape<'_>,
    left: Option<&'a Map<String, Value>>,
    right: Option<&'a Map<String, Value>>,
    out: &mut Comparison<'a>,
) -> Result<(), NoKey> {
    let mut left = left.into_iter().flatten().peekable();
    let mut right = right.into_iter().flatten().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(()),
        };
        let old = if order.is_le() { left.next() } else { None };
        let new = if order.is_ge() { right.next() } else { None };
        let Some((name, _)) = old.or(new) else { return Ok(()) };
        let Some((inner, _)) = shape.member(name) else { continue };
        let mut below = Comparison::default();
        let own = walk(inner, old.map(|old| old.1), new.map(|new| new.1), &mut below)?;
        out.attach(Element::Field(name), own, below);
    }
}

fn compare_items<'a>(
    element: Inner<'_>,
    items: Items<'_>,
    left: &'a [Value],
    right: &'a [Value],
    out: &mut Comparison<'a>,
) -> Result<(), NoKey> {
    let shape = element.shape();
    let mut left = grouped(element, items, left)?.into_iter().peekable();
    let mut right = grouped(element, items, right)?.into_iter().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(()),
        };
        let old = if order.is_le() { left.next() } else { None };
        let new = if order.is_ge() { right.next() } else { None };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut step = None;
        if let Some((element, items)) = old {
            (step, before) = (Some(element), items);
        }
        if let Some((element, items)) = new {
            (step, after) = (Some(element), items);
        }
        let Some(step) = step else { return Ok(()) };
        let mut below = Comparison::default();
        let first = |items: &[&'a Value]| items.first().copied();
        match (before.len(), after.len()) {
            (0 | 1, 0 | 1) => {
                let own = walk(shape, first(&before), first(&after), &mut below)?;
                out.attach(step, own, below);
            }
            // Items that cannot be told apart are one value.
            (2.., 2..) => {
                let equal =
                    before.len() == after.len() && before.iter().zip(&after).all(|(old, new)| same(old, new));
                out.attach(step, if equal { Own::Same } else { Own::Changed }, below);
            }
            (2.., _) => {
                let own = match first(&after) {
                    Some(item) => walk(shape, None, Some(item), &mut below)?,
                    None => Own::Same,
                };
                out.removed.push(step.clone(), true, below.removed);
                out.changed.push(step, own == Own::Changed, below.changed);
            }
            (_, _) => {
                let own = match first(&before) {
                    Some(item) => walk(shape, Some(item), None, &mut below)?,
                    None => Own::Same,
                };
                out.removed.push(step.clone(), own == Own::Removed, below.removed);
                out.changed.push(step, true, below.changed);
            }
        }
    }
}
