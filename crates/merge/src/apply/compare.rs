//! Comparison of two objects.

// upstream: sigs.k8s.io/structured-merge-diff/v6/typed/compare.go

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::element::Element;
use super::object_fields::grouped;
use super::path_set::Set;
use super::shape::{ItemType, ListIdentity, NoKey, Shape};

/// The paths that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// Paths in the old object only.
    pub removed: Set<'a>,
    /// Paths in the new object only, or with a different value there.
    pub changed: Set<'a>,
}

/// The change of a value itself, without its children.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnChange {
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

/// Compares two values, of which one may be absent. Adds the paths below the value to `out` and returns the
/// change of the value itself.
fn walk<'a>(
    shape: Shape<'_>,
    old: Side<'a>,
    new: Side<'a>,
    below: &mut Comparison<'a>,
) -> Result<OwnChange, NoKey> {
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
    // A change from or to another type is a change of the map itself, besides the change of its entries.
    let other = |side: Side<'_>| side.is_some_and(|value| !value.is_object() && !value.is_null());
    if other(old) || other(new) {
        return Ok(leaf(old, new));
    }
    Ok(presence(old, new))
}

fn presence(old: Side<'_>, new: Side<'_>) -> OwnChange {
    match (old, new) {
        (None, _) => OwnChange::Changed,
        (_, None) => OwnChange::Removed,
        _ => OwnChange::Same,
    }
}

fn leaf(old: Side<'_>, new: Side<'_>) -> OwnChange {
    match (old, new) {
        (Some(old), Some(new)) if same(old, new) => OwnChange::Same,
        (Some(_), None) => OwnChange::Removed,
        _ => OwnChange::Changed,
    }
}

/// Whether two values are equal, regardless of the notation of numbers.
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
    /// Adds the result for a child.
    fn attach(&mut self, step: Element<'a>, own: OwnChange, below: Comparison<'a>) {
        if own == OwnChange::Removed || !below.removed.is_empty() {
            self.removed.push(step.clone(), own == OwnChange::Removed, below.removed);
        }
        self.changed.push(step, own == OwnChange::Changed, below.changed);
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
    element: ItemType<'_>,
    items: ListIdentity<'_>,
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
            // Duplicate items are compared as one value.
            (2.., 2..) => {
                let equal =
                    before.len() == after.len() && before.iter().zip(&after).all(|(old, new)| same(old, new));
                out.attach(step, if equal { OwnChange::Same } else { OwnChange::Changed }, below);
            }
            (2.., _) => {
                let own = match first(&after) {
                    Some(item) => walk(shape, None, Some(item), &mut below)?,
                    None => OwnChange::Same,
                };
                out.removed.push(step.clone(), true, below.removed);
                out.changed.push(step, own == OwnChange::Changed, below.changed);
            }
            (_, _) => {
                let own = match first(&before) {
                    Some(item) => walk(shape, Some(item), None, &mut below)?,
                    None => OwnChange::Same,
                };
                out.removed.push(step.clone(), own == OwnChange::Removed, below.removed);
                out.changed.push(step, true, below.changed);
            }
        }
    }
}
