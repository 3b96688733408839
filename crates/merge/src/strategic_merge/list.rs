//! Merging of lists: maps by their merge key, scalars by value.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go

use serde_json::Value;

use super::order::{ElementIdentity, Identities, arrange, positions};
use super::print::{Kind, list_text};
use super::shape::Shape;
use super::{DIRECTIVE, Merge, no_merge_key, unknown_directive, unmergeable};
use crate::PatchError;

/// Properties of a list that is merged.
pub(super) struct List {
    pub elements: Shape,
    pub merge_key: &'static str,
    /// Whether the patch lists scalars to delete.
    pub deletes: bool,
}

/// Merges the patch into the list. Returns what upstream then finds in the memory of the old list, by index:
/// deleting moves the rest forward and leaves room at the end for copies and for new elements.
pub(super) fn merge_list(
    merge: Merge<'_>,
    list: &List,
    original: &mut Vec<Value>,
    patch: &mut [Value],
) -> Result<Vec<Source>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(Vec::new());
    }
    let kind = element_kind(original, patch)?;
    if kind == Kind::Map {
        if list.merge_key.is_empty() {
            let elements = list.elements.go_kind();
            return Err(unmergeable(format!("cannot merge lists without merge key for {elements}")));
        }
        return merge_maps(merge, list, original, patch);
    }
    let order = (0..original.len()).map(Source::Original).collect();
    if list.deletes {
        delete_scalars(original, patch);
    } else {
        merge_scalars(original, patch);
    }
    Ok(order)
}

/// Returns the kind of the elements of both lists, which must be equal. At least one element is required.
pub(super) fn element_kind(original: &[Value], patch: &[Value]) -> Result<Kind, PatchError> {
    let mut kinds = original.iter().chain(patch).map(Kind::of);
    let first = kinds.next().ok_or_else(|| unmergeable("no elements in any of the given slices"))?;
    match first {
        Kind::Null => return Err(PatchError::Incomparable),
        Kind::List => return Err(PatchError::ListOfLists),
        _ => {}
    }
    if kinds.all(|kind| kind == first) {
        return Ok(first);
    }
    let (original, patch) = (list_text(original), list_text(patch));
    Err(unmergeable(format!("list element types are not identical: [{original} {patch}]")))
}

fn delete_scalars(original: &mut Vec<Value>, unwanted: &[Value]) {
    let mut identities = Identities::default();
    for value in unwanted {
        identities.of(value);
    }
    let kept: Vec<bool> = original.iter().map(|value| identities.find(value).is_none()).collect();
    let mut kept = kept.into_iter();
    original.retain(|_| kept.next().unwrap_or(true));
}

/// Merges scalars without duplicates.
fn merge_scalars(original: &mut Vec<Value>, patch: &[Value]) {
    let mut identities = Identities::default();
    let server: Vec<ElementIdentity> = original.iter().map(|value| identities.of(value)).collect();
    let patched: Vec<ElementIdentity> = patch.iter().map(|value| identities.of(value)).collect();
    let mut seen = vec![false; identities.count()];
    drop(identities);
    let all = server.iter().zip(std::mem::take(original)).map(|(identity, value)| (*identity, value));
    let all = all.chain(patched.iter().zip(patch).map(|(identity, value)| (*identity, value.clone())));
    let merged = all.filter_map(|(identity, value)| {
        let ElementIdentity::Known(number) = identity else { return None };
        (!std::mem::replace(&mut seen[number], true)).then_some((number, value))
    });
    let merged: Vec<(usize, Value)> = merged.collect();
    *original = arrange(merged, &patched, &server, seen.len());
}

fn merge_maps(
    merge: Merge<'_>,
    list: &List,
    original: &mut Vec<Value>,
    patch: &mut [Value],
) -> Result<Vec<Source>, PatchError> {
    let key = list.merge_key;
    let mut identities = Identities::default();
    let before: Vec<ElementIdentity> =
        original.iter().map(|element| identities.of_key(element, key)).collect();
    let patched: Vec<ElementIdentity> = patch.iter().map(|element| identities.of_key(element, key)).collect();
    let count = identities.count();
    drop(identities);

    let Directives { ordinary, replaces, remaining, copies } =
        Directives::read(patch, &before, &patched, key)?;
    let mut order: Vec<Source> = remaining.iter().map(|&index| Source::Original(index)).collect();
    order.extend(copies.iter().rev().map(|&index| Source::Original(index)));
    let mut merged = Vec::with_capacity(original.len() + patch.len());
    if replaces {
        merged.extend(ordinary.iter().map(|&index| (patched[index], Source::Patch(index))));
        let server: Vec<ElementIdentity> = merged.iter().map(|(identity, _)| *identity).collect();
        *original = arrange(collect(merged, original, patch, key)?, &[], &server, count);
    } else {
        merged.extend(remaining.iter().map(|&index| (before[index], Source::Original(index))));
        let server: Vec<ElementIdentity> = merged.iter().map(|(identity, _)| *identity).collect();
        let mut positions = positions(&server, count);
        for &index in &ordinary {
            let number = match patched[index] {
                ElementIdentity::Known(number) => number,
                ElementIdentity::Missing => return Err(missing(&patch[index], key)),
                ElementIdentity::Incomparable => return Err(PatchError::Incomparable),
            };
            let Some(position) = positions[number] else {
                positions[number] = Some(merged.len());
                if let Some(room) = order.get_mut(merged.len()) {
                    *room = Source::Patch(index);
                }
                merged.push((patched[index], Source::Patch(index)));
                continue;
            };
            // A new element of the patch may occur there again.
            let (element, change) = match merged[position].1 {
                Source::Original(element) => (&mut original[element], &mut patch[index]),
                Source::Patch(element) => match patch.get_disjoint_mut([element, index]) {
                    Ok([element, change]) => (element, change),
                    Err(_) => continue,
                },
            };
            if let (Value::Object(element), Value::Object(change)) = (element, change) {
                merge.map(list.elements, element, change)?;
                // A null key removes itself.
                if !element.contains_key(key) {
                    merged[position].0 = ElementIdentity::Missing;
                }
            }
        }
        let patched: Vec<ElementIdentity> = ordinary.iter().map(|&index| patched[index]).collect();
        *original = arrange(collect(merged, original, patch, key)?, &patched, &server, count);
    }
    Ok(order)
}

/// The origin of an element of the merged list.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Original(usize),
    Patch(usize),
}

/// Collects the elements with the IDs of their keys. All elements need a key.
fn collect(
    merged: Vec<(ElementIdentity, Source)>,
    original: &mut [Value],
    patch: &[Value],
    key: &str,
) -> Result<Vec<(usize, Value)>, PatchError> {
    let elements = merged.into_iter().map(|(identity, source)| {
        let element = match source {
            Source::Original(index) => original[index].take(),
            Source::Patch(index) => patch[index].clone(),
        };
        match identity {
            ElementIdentity::Known(number) => Ok((number, element)),
            ElementIdentity::Missing => Err(missing(&element, key)),
            ElementIdentity::Incomparable => Err(PatchError::Incomparable),
        }
    });
    elements.collect()
}

fn missing(element: &Value, key: &str) -> PatchError {
    element.as_object().map_or(PatchError::Incomparable, |element| no_merge_key(element, key))
}

/// The directives among the elements of a patch.
struct Directives {
    /// Indices of the elements that are not directives.
    ordinary: Vec<usize>,
    /// Whether the whole list is replaced.
    replaces: bool,
    /// Indices of the old elements that are not deleted.
    remaining: Vec<usize>,
    /// Elements that deleting leaves after the remaining ones in upstream's memory, last first.
    copies: Vec<usize>,
}

impl Directives {
    fn read(
        patch: &[Value],
        before: &[ElementIdentity],
        patched: &[ElementIdentity],
        key: &str,
    ) -> Result<Directives, PatchError> {
        let mut directives = Directives {
            ordinary: Vec::with_capacity(patch.len()),
            replaces: false,
            remaining: Vec::new(),
            copies: Vec::new(),
        };
        let mut deletions = Deletions::default();
        for (index, element) in patch.iter().enumerate() {
            let Value::Object(element) = element else { continue };
            let Some(directive) = element.get(DIRECTIVE) else {
                directives.ordinary.push(index);
                continue;
            };
            match directive.as_str() {
                Some("delete") => match patched[index] {
                    ElementIdentity::Missing => return Err(no_merge_key(element, key)),
                    ElementIdentity::Known(number) => {
                        deletions.delete(before, number, &mut directives.copies)
                    }
                    ElementIdentity::Incomparable => {}
                },
                Some("replace") => directives.replaces = true,
                Some("merge") => {
                    return Err(unmergeable("merging lists cannot yet be specified in the patch"));
                }
                _ => return Err(unknown_directive(directive, element)),
            }
        }
        directives.remaining = (0..before.len()).filter(|&index| deletions.is_kept(index)).collect();
        Ok(directives)
    }
}

/// Deletion by key, in one pass over the list for any number of keys.
#[derive(Default)]
struct Deletions {
    /// Indices of the elements by the ID of their key; built on the first deletion.
    elements: Option<Vec<Vec<usize>>>,
    deleted: Vec<bool>,
    /// All elements after this index are deleted.
    last: usize,
}

impl Deletions {
    fn delete(&mut self, before: &[ElementIdentity], number: usize, copies: &mut Vec<usize>) {
        let elements = self.elements.get_or_insert_with(|| {
            self.deleted = vec![false; before.len()];
            self.last = before.len().saturating_sub(1);
            let mut elements = Vec::new();
            for (index, identity) in before.iter().enumerate() {
                if let ElementIdentity::Known(number) = identity {
                    if elements.len() <= *number {
                        elements.resize(number + 1, Vec::new());
                    }
                    elements[*number].push(index);
                }
            }
            elements
        });
        while self.last > 0 && self.deleted[self.last] {
            self.last -= 1;
        }
        for index in elements.get_mut(number).map(std::mem::take).unwrap_or_default() {
            self.deleted[index] = true;
            copies.push(self.last);
        }
    }

    fn is_kept(&self, index: usize) -> bool {
        !self.deleted.get(index).copied().unwrap_or(false)
    }
}
