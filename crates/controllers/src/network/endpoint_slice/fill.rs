//! Distributes endpoints with the same ports over as few slices, and with as few writes, as possible.

// upstream: staging/src/k8s.io/endpointslice/reconciler.go

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use atoll_meta::object;
use serde_json::Value;

use super::reconcile::{is_reserved, labels};
use crate::network::slice_writes::{Writes, identity, is_same_state};

/// Maximum number of endpoints in a slice.
pub const CAPACITY: usize = 100;

/// Desired endpoints without duplicates, in insertion order.
#[derive(Default)]
pub struct Endpoints {
    waiting: Vec<Option<Value>>,
    places: HashMap<String, usize>,
    next: usize,
}

impl Endpoints {
    /// Adds an endpoint. Ignores endpoints without an address.
    pub fn insert(&mut self, endpoint: Value) {
        if endpoint["addresses"].as_array().is_none_or(Vec::is_empty) {
            return;
        }
        let place = *self.places.entry(identity(&endpoint)).or_insert(self.waiting.len());
        match self.waiting.get_mut(place) {
            Some(same) => *same = Some(endpoint),
            None => self.waiting.push(Some(endpoint)),
        }
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    /// Removes and returns the endpoint with the same identity as `existing`.
    fn take(&mut self, existing: &Value) -> Option<Value> {
        let place = self.places.remove(&identity(existing))?;
        self.waiting[place].take()
    }

    fn pop(&mut self) -> Option<Value> {
        while self.next < self.waiting.len() {
            self.next += 1;
            if let Some(endpoint) = self.waiting[self.next - 1].take() {
                self.places.remove(&identity(&endpoint));
                return Some(endpoint);
            }
        }
        None
    }

    fn fill(&mut self, slice: &mut Value) {
        let Some(endpoints) = slice["endpoints"].as_array_mut() else { return };
        while endpoints.len() < CAPACITY
            && let Some(endpoint) = self.pop()
        {
            endpoints.push(endpoint);
        }
    }
}

pub fn fill(
    service: &Value,
    existing: &[Arc<Value>],
    mut wanted: Endpoints,
    new: impl Fn() -> Value,
) -> Writes {
    let mut filled = Writes::default();
    let mut unchanged: Vec<&Arc<Value>> = Vec::new();
    let wanted_labels = labels(service);
    for slice in existing {
        let old = slice["endpoints"].as_array().map_or(&[][..], Vec::as_slice);
        let mut changed = false;
        let mut kept = Vec::with_capacity(old.len());
        for endpoint in old {
            if let Some(new) = wanted.take(endpoint) {
                changed |= !is_same_state(&new, endpoint);
                kept.push(new);
            }
        }
        changed |= kept.len() != old.len();
        if changed && kept.is_empty() {
            filled.delete.push(slice.clone());
        } else if changed || !has_labels_of(slice, service) {
            let mut copy = slice.as_ref().clone();
            if changed {
                copy["endpoints"] = kept.into();
            }
            object::metadata_mut(&mut copy).insert("labels".into(), wanted_labels.clone().into());
            filled.update.push(copy);
        } else {
            unchanged.push(slice);
        }
    }
    // Fill the fullest slices first.
    filled.update.sort_by_key(|slice| std::cmp::Reverse(count(slice)));
    for slice in &mut filled.update {
        wanted.fill(slice);
    }
    while wanted.len() > 0 {
        match slice_to_fill(&unchanged, wanted.len()) {
            Some(place) => {
                let mut slice = unchanged.swap_remove(place).as_ref().clone();
                if slice["endpoints"].is_null() {
                    slice["endpoints"] = Vec::<Value>::new().into();
                }
                wanted.fill(&mut slice);
                filled.update.push(slice);
            }
            None => {
                let mut slice = new();
                wanted.fill(&mut slice);
                filled.create.push(slice);
            }
        }
    }
    filled
}

/// Returns the slice that `more` endpoints fill best, if they fit into one slice.
fn slice_to_fill(slices: &[&Arc<Value>], more: usize) -> Option<usize> {
    if more >= CAPACITY {
        return None;
    }
    let left = |slice: &Value| CAPACITY.checked_sub(more + count(slice)).filter(|left| *left < CAPACITY);
    let fitting = slices.iter().enumerate().filter_map(|(place, slice)| Some((left(slice)?, place)));
    fitting.min().map(|(_, place)| place)
}

fn count(slice: &Value) -> usize {
    slice["endpoints"].as_array().map_or(0, Vec::len)
}

fn has_labels_of(slice: &Value, service: &Value) -> bool {
    let own = |object| -> BTreeSet<(&str, &str)> {
        object::labels(object).filter(|(label, _)| !is_reserved(label)).collect()
    };
    own(slice) == own(service)
}
