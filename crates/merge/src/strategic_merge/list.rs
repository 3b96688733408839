//! Merging two lists: maps by their merge key, scalars by value.

use serde_json::Value;

use super::order::{Identities, Identity, arrange, places};
use super::print::{Kind, list_text};
use super::shape::Shape;
use super::{DIRECTIVE, Merge, no_merge_key, unknown_directive, unmergeable};
use crate::PatchError;

/// What there is to know of a list that is merged.
pub(super) struct List {
    pub elements: Shape,
    pub merge_key: &'static str,
    /// Whether the patch lists scalars that shall go.
    pub deletes: bool,
}

/// Merges the patch into the list. Of use afterwards is also what upstream then finds where the old list was, by the
/// indices before: deleting moves the rest forward, and leaves room at the end for copies and for what is new.
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

/// What the elements of both lists are. They have to be alike, and there has to be one.
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

/// Every scalar once.
fn merge_scalars(original: &mut Vec<Value>, patch: &[Value]) {
    let mut identities = Identities::default();
    let server: Vec<Identity> = original.iter().map(|value| identities.of(value)).collect();
    let wanted: Vec<Identity> = patch.iter().map(|value| identities.of(value)).collect();
    let mut seen = vec![false; identities.count()];
    drop(identities);
    let all = server.iter().zip(std::mem::take(original)).map(|(identity, value)| (*identity, value));
    let all = all.chain(wanted.iter().zip(patch).map(|(identity, value)| (*identity, value.clone())));
    let merged = all.filter_map(|(identity, value)| {
        let Identity::Known(number) = identity else { return None };
        (!std::mem::replace(&mut seen[number], true)).then_some((number, value))
    });
    let merged: Vec<(usize, Value)> = merged.collect();
    *original = arrange(merged, &wanted, &server, seen.len());
}

fn merge_maps(
    merge: Merge<'_>,
    list: &List,
    original: &mut Vec<Value>,
    patch: &mut [Value],
) -> Result<Vec<Source>, PatchError> {
    let key = list.merge_key;
    let mut identities = Identities::default();
    let before: Vec<Identity> = original.iter().map(|element| identities.of_key(element, key)).collect();
    let wanted: Vec<Identity> = patch.iter().map(|element| identities.of_key(element, key)).collect();
    let count = identities.count();
    drop(identities);

    let Special { ordinary, replaces, remaining, copies } = Special::read(patch, &before, &wanted, key)?;
    let mut order: Vec<Source> = remaining.iter().map(|&index| Source::Original(index)).collect();
    order.extend(copies.iter().rev().map(|&index| Source::Original(index)));
    let mut merged = Vec::with_capacity(original.len() + patch.len());
    if replaces {
        merged.extend(ordinary.iter().map(|&index| (wanted[index], Source::Patch(index))));
        let server: Vec<Identity> = merged.iter().map(|(identity, _)| *identity).collect();
        *original = arrange(collect(merged, original, patch, key)?, &[], &server, count);
    } else {
        merged.extend(remaining.iter().map(|&index| (before[index], Source::Original(index))));
        let server: Vec<Identity> = merged.iter().map(|(identity, _)| *identity).collect();
        let mut places = places(&server, count);
        for &index in &ordinary {
            let number = match wanted[index] {
                Identity::Known(number) => number,
                Identity::Missing => return Err(missing(&patch[index], key)),
                Identity::Incomparable => return Err(PatchError::Incomparable),
            };
            let Some(place) = places[number] else {
                places[number] = Some(merged.len());
                if let Some(room) = order.get_mut(merged.len()) {
                    *room = Source::Patch(index);
                }
                merged.push((wanted[index], Source::Patch(index)));
                continue;
            };
            // What is new in the patch may come again there.
            let (element, change) = match merged[place].1 {
                Source::Original(element) => (&mut original[element], &mut patch[index]),
                Source::Patch(element) => match patch.get_disjoint_mut([element, index]) {
                    Ok([element, change]) => (element, change),
                    Err(_) => continue,
                },
            };
            if let (Value::Object(element), Value::Object(change)) = (element, change) {
                merge.map(list.elements, element, change)?;
                // Null is a key of its own, and takes itself away.
                if !element.contains_key(key) {
                    merged[place].0 = Identity::Missing;
                }
            }
        }
        let wanted: Vec<Identity> = ordinary.iter().map(|&index| wanted[index]).collect();
        *original = arrange(collect(merged, original, patch, key)?, &wanted, &server, count);
    }
    Ok(order)
}

/// Where an element of the merged list is.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Original(usize),
    Patch(usize),
}

/// Elements with the numbers of their keys. All need one.
fn collect(
    merged: Vec<(Identity, Source)>,
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
            Identity::Known(number) => Ok((number, element)),
            Identity::Missing => Err(missing(&element, key)),
            Identity::Incomparable => Err(PatchError::Incomparable),
        }
    });
    elements.collect()
}

fn missing(element: &Value, key: &str) -> PatchError {
    element.as_object().map_or(PatchError::Incomparable, |element| no_merge_key(element, key))
}

/// What the elements of a patch that are directives ask for.
struct Special {
    /// Indices of the elements that are none.
    ordinary: Vec<usize>,
    /// The whole list is replaced.
    replaces: bool,
    /// Indices of the elements that were there before and are not deleted.
    remaining: Vec<usize>,
    /// What deleting leaves behind the remaining ones in upstream's memory, last first.
    copies: Vec<usize>,
}

impl Special {
    fn read(
        patch: &[Value],
        before: &[Identity],
        wanted: &[Identity],
        key: &str,
    ) -> Result<Special, PatchError> {
        let mut special = Special {
            ordinary: Vec::with_capacity(patch.len()),
            replaces: false,
            remaining: Vec::new(),
            copies: Vec::new(),
        };
        let mut deletions = Deletions::default();
        for (index, element) in patch.iter().enumerate() {
            let Value::Object(element) = element else { continue };
            let Some(directive) = element.get(DIRECTIVE) else {
                special.ordinary.push(index);
                continue;
            };
            match directive.as_str() {
                Some("delete") => match wanted[index] {
                    Identity::Missing => return Err(no_merge_key(element, key)),
                    Identity::Known(number) => deletions.delete(before, number, &mut special.copies),
                    Identity::Incomparable => {}
                },
                Some("replace") => special.replaces = true,
                Some("merge") => {
                    return Err(unmergeable("merging lists cannot yet be specified in the patch"));
                }
                _ => return Err(unknown_directive(directive, element)),
            }
        }
        special.remaining = (0..before.len()).filter(|&index| deletions.spared(index)).collect();
        Ok(special)
    }
}

/// Deleting by key, in one pass over the list however many keys there are.
#[derive(Default)]
struct Deletions {
    /// Indices of the elements by the numbers of their keys; made with the first deletion.
    elements: Option<Vec<Vec<usize>>>,
    deleted: Vec<bool>,
    /// Behind this index everything is deleted.
    last: usize,
}

impl Deletions {
    fn delete(&mut self, before: &[Identity], number: usize, copies: &mut Vec<usize>) {
        let elements = self.elements.get_or_insert_with(|| {
            self.deleted = vec![false; before.len()];
            self.last = before.len().saturating_sub(1);
            let mut elements = Vec::new();
            for (index, identity) in before.iter().enumerate() {
                if let Identity::Known(number) = identity {
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

    fn spared(&self, index: usize) -> bool {
        !self.deleted.get(index).copied().unwrap_or(false)
    }
}
