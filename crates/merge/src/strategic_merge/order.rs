//! The order of merged lists, and the directive `$setElementOrder`.
//!
//! Elements of the patch are in the order of the patch, others keep their order; the two are interleaved by
//! the old order as far as possible.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::list::{List, Source, element_kind, merge_list};
use super::print::{Kind, list_text};
use super::shape::{Shape, Strategy};
use super::{DIRECTIVE, Merge, SET_ORDER, no_merge_key, unmergeable, without_directives, wrong_kind};
use crate::PatchError;

const INVALID: PatchError = PatchError::InvalidDirective("invalid patch format of setElementOrder list");

/// The identity of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementIdentity {
    /// The element has no merge key.
    Missing,
    /// Go cannot compare the element.
    Incomparable,
    /// ID; equal elements have equal IDs.
    Known(usize),
}

/// Assigns IDs to scalars, equal ones to equal values.
#[derive(Default)]
pub(super) struct Identities<'v> {
    numbers: HashMap<Scalar<'v>, usize>,
}

#[derive(PartialEq, Eq, Hash)]
enum Scalar<'v> {
    Null,
    Bool(bool),
    Integer(i64),
    Float(u64),
    Text(&'v str),
}

impl<'v> Scalar<'v> {
    fn of(value: &'v Value) -> Option<Scalar<'v>> {
        Some(match value {
            Value::Null => Scalar::Null,
            Value::Bool(set) => Scalar::Bool(*set),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Scalar::Integer(integer),
                // Go considers both zeros equal.
                (None, float) => Scalar::Float((float.unwrap_or_default() + 0.0).to_bits()),
            },
            Value::String(text) => Scalar::Text(text),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

impl<'v> Identities<'v> {
    pub fn of(&mut self, value: &'v Value) -> ElementIdentity {
        let Some(scalar) = Scalar::of(value) else { return ElementIdentity::Incomparable };
        let next = self.numbers.len();
        ElementIdentity::Known(*self.numbers.entry(scalar).or_insert(next))
    }

    /// Returns the identity of a map's merge key.
    pub fn of_key(&mut self, element: &'v Value, key: &str) -> ElementIdentity {
        element.get(key).map_or(ElementIdentity::Missing, |value| self.of(value))
    }

    /// Returns the ID of a known value.
    pub fn find(&self, value: &Value) -> Option<usize> {
        self.numbers.get(&Scalar::of(value)?).copied()
    }

    pub fn count(&self) -> usize {
        self.numbers.len()
    }
}

/// Returns the first index of each ID.
pub(super) fn positions(list: &[ElementIdentity], count: usize) -> Vec<Option<usize>> {
    let mut positions = vec![None; count];
    for (position, identity) in list.iter().enumerate() {
        if let ElementIdentity::Known(number) = identity {
            positions[*number].get_or_insert(position);
        }
    }
    positions
}

/// Arranges elements by the order of both lists.
pub(super) fn arrange(
    merged: Vec<(usize, Value)>,
    patch_order: &[ElementIdentity],
    server: &[ElementIdentity],
    count: usize,
) -> Vec<Value> {
    let (patch_order, server) = (positions(patch_order, count), positions(server, count));
    let (mut named, others): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|(number, _)| patch_order[*number].is_some());
    named.sort_by_key(|(number, _)| patch_order[*number]);
    let others = in_order(others, &server);
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    for (number, value) in others {
        // An element without a position in the old order comes after all elements of the patch.
        while let Some((_, value)) = named.next_if(|(next, _)| match (server[number], server[*next]) {
            (Some(position), Some(next)) => position >= next,
            _ => true,
        }) {
            arranged.push(value);
        }
        arranged.push(value);
    }
    arranged.extend(named.map(|(_, value)| value));
    arranged
}

/// Sorts by position. Elements without one are placed as Go's sort happens to do: before the elements sorted
/// so far.
fn in_order(elements: Vec<(usize, Value)>, positions: &[Option<usize>]) -> Vec<(usize, Value)> {
    let mut placed = Vec::with_capacity(elements.len());
    // Each with the smallest position so far.
    let mut unplaced = Vec::new();
    let mut least = None;
    for (number, value) in elements {
        match positions[number] {
            Some(position) => {
                least = Some(least.map_or(position, |least: usize| least.min(position)));
                placed.push((position, number, value));
            }
            None => unplaced.push((least, number, value)),
        }
    }
    placed.sort_by_key(|(position, ..)| *position);
    // Later elements have smaller positions, so they come first.
    let mut unplaced = unplaced.into_iter().rev().peekable();
    let mut sorted = Vec::with_capacity(placed.len() + unplaced.len());
    for (position, number, value) in placed {
        while let Some((_, number, value)) = unplaced.next_if(|(least, ..)| *least == Some(position)) {
            sorted.push((number, value));
        }
        sorted.push((number, value));
    }
    sorted.extend(unplaced.map(|(_, number, value)| (number, value)));
    sorted
}

/// Merges the lists with `$setElementOrder`, and removes them and the directives from the patch.
pub(super) fn apply_orders(
    merge: Merge<'_>,
    shape: Shape,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive).unwrap_or_default();
        let Value::Array(order) = order else { return Err(wrong_kind(Kind::List, &order)) };
        let field = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let field = field.ok_or(INVALID)?;
        let merged = ordered(merge, shape, field, &order, original.get_mut(field), patch.get_mut(field))?;
        if let Some(merged) = merged {
            original.insert(field.to_owned(), Value::Array(merged));
            patch.remove(field);
        }
    }
    Ok(())
}

/// Returns the merged list in the requested order, or `None` if neither side has it.
fn ordered(
    merge: Merge<'_>,
    shape: Shape,
    field: &str,
    order: &[Value],
    mut original: Option<&mut Value>,
    mut patch: Option<&mut Value>,
) -> Result<Option<Vec<Value>>, PatchError> {
    if let Some(side) = [&original, &patch].into_iter().flatten().find(|side| !side.is_array()) {
        return Err(wrong_kind(Kind::List, side));
    }
    let field = shape.list_field(merge.types, field)?;
    let key = field.merge_key;
    check_order(elements(&patch), order, key)?;
    let kind = element_kind(elements(&original), elements(&patch));
    // Only the identities of the elements are needed after merging.
    let identity = |element: &Value| match key {
        "" => element.clone(),
        key => element.get(key).cloned().unwrap_or_default(),
    };
    let old: Vec<Value> = elements(&original).iter().map(identity).collect();
    let keyless = elements(&original).iter().find_map(|element| match element {
        Value::Object(fields) if !fields.contains_key(key) => Some(no_merge_key(fields, key)),
        _ => None,
    });
    let mut server: Vec<Source> = (0..old.len()).map(Source::Original).collect();
    let merged = match (&mut original, &mut patch) {
        (None, None) => return Ok(None),
        (Some(original), None) => original.take(),
        (None, Some(patch)) => without_directives(patch).unwrap_or_default(),
        (Some(Value::Array(original)), Some(Value::Array(patch))) if field.strategy == Strategy::Merge => {
            let list = List { elements: field.shape, merge_key: key, deletes: false };
            server = merge_list(merge, &list, original, patch)?;
            Value::Array(std::mem::take(original))
        }
        (Some(_), Some(_)) => Value::Array(elements(&patch).to_vec()),
    };
    let Value::Array(merged) = merged else { return Ok(None) };

    let mut identities = Identities::default();
    let patch_order: Vec<ElementIdentity> = match key {
        "" => order.iter().map(|element| identities.of(element)).collect(),
        key => order.iter().map(|element| identities.of_key(element, key)).collect(),
    };
    let server = server.into_iter().map(|source| match source {
        Source::Original(index) => identities.of(&old[index]),
        Source::Patch(index) => identities.of_key(&elements(&patch)[index], key),
    });
    let server: Vec<ElementIdentity> = server.collect();
    let known = number(&mut identities, &merged, order, &patch_order, key)?;
    if kind? == Kind::Map {
        order.iter().try_for_each(|element| key_of(element, key).map(drop))?;
        if let Some(error) = keyless {
            return Err(error);
        }
    }
    let count = identities.count();
    drop(identities);
    let merged = known.into_iter().zip(merged).collect();
    Ok(Some(arrange(merged, &patch_order, &server, count)))
}

fn elements<'v>(side: &'v Option<&mut Value>) -> &'v [Value] {
    side.as_deref().and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the IDs of merged elements, each of which is looked up in the order.
fn number<'v>(
    identities: &mut Identities<'v>,
    merged: &'v [Value],
    order: &[Value],
    patch_order: &[ElementIdentity],
    key: &str,
) -> Result<Vec<usize>, PatchError> {
    if key.is_empty() {
        if patch_order.contains(&ElementIdentity::Incomparable) {
            return Err(PatchError::Incomparable);
        }
        let numbers = merged.iter().map(|element| match identities.of(element) {
            ElementIdentity::Known(number) => Ok(number),
            _ => Err(PatchError::Incomparable),
        });
        return numbers.collect();
    }
    let positions = positions(patch_order, identities.count());
    // The lookup ends at the first match.
    let unlike = order.iter().position(|element| !element.is_object()).unwrap_or(order.len());
    let numbers = merged.iter().map(|element| {
        let Value::Object(fields) = element else { return Err(wrong_kind(Kind::Map, element)) };
        let number = match identities.of_key(element, key) {
            ElementIdentity::Known(number) => number,
            ElementIdentity::Missing => return Err(no_merge_key(fields, key)),
            ElementIdentity::Incomparable => return Err(PatchError::Incomparable),
        };
        let position = positions.get(number).copied().flatten().unwrap_or(order.len());
        if unlike < position {
            return Err(unmergeable(format!("value for key {unlike} is not a map")));
        }
        Ok(number)
    });
    numbers.collect()
}

/// Checks that the elements of the patch are in the requested order.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let deleted = |element: &Value| element.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    if let Some(element) = patch.iter().find(|element| !key.is_empty() && !element.is_object()) {
        return Err(wrong_kind(Kind::Map, element));
    }
    let mut rest = order.iter();
    for element in patch.iter().filter(|element| key.is_empty() || !deleted(element)) {
        if element.get(DIRECTIVE).is_some() && rest.len() > 0 {
            continue;
        }
        loop {
            let Some(next) = rest.next() else { return Err(out_of_order(patch, order)) };
            if same(element, next, key)? {
                break;
            }
        }
    }
    Ok(())
}

fn out_of_order(patch: &[Value], order: &[Value]) -> PatchError {
    let (patch, order) = (list_text(patch), list_text(order));
    unmergeable(format!("The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"))
}

fn same(left: &Value, right: &Value, key: &str) -> Result<bool, PatchError> {
    let (left, right) = match key {
        "" => (left, right),
        _ if !right.is_object() => return Err(wrong_kind(Kind::Map, right)),
        key => (key_of(left, key)?, key_of(right, key)?),
    };
    match (Scalar::of(left), Scalar::of(right)) {
        (Some(left), Some(right)) => Ok(left == right),
        (None, None) if Kind::of(left) == Kind::of(right) => Err(PatchError::Incomparable),
        _ => Ok(false),
    }
}

fn key_of<'v>(element: &'v Value, key: &str) -> Result<&'v Value, PatchError> {
    let Value::Object(fields) = element else { return Err(wrong_kind(Kind::Map, element)) };
    fields.get(key).ok_or_else(|| no_merge_key(fields, key))
}
