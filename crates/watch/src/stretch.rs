//! Objects one after the other, read bit by bit.
//!
//! A long list is sent in pieces while others send the same one. To hold its objects one by one, everybody would count
//! the references to each, and the cores would pass the counts to and fro; so what is held is the snapshot that they are in.

use std::ops::Bound;
use std::sync::Arc;

use atoll_store::Key;

use crate::object::Object;
use crate::snapshot::{Scope, Snapshot};

/// A sequence of objects, of which those that were passed are no longer shown.
#[derive(Clone)]
pub struct Stretch(Kind);

#[derive(Clone)]
enum Kind {
    Within {
        snapshot: Arc<Snapshot>,
        start: Bound<Key>,
        end: Bound<Key>,
        /// How many it shows at most.
        most: usize,
    },
    Gathered {
        objects: Arc<[Arc<Object>]>,
        passed: usize,
    },
}

impl Stretch {
    /// The objects of `scope` behind `after`, at most so many; `None` if they have to be gathered, because some may be
    /// of the shared layer and are made for each reader.
    pub fn within(
        snapshot: &Arc<Snapshot>,
        scope: &Scope,
        after: Option<&str>,
        most: usize,
    ) -> Option<Stretch> {
        if snapshot.is_layered_within(scope) {
            return None;
        }
        let (start, end) = (scope.start(after), scope.end());
        Some(Stretch(Kind::Within { snapshot: snapshot.clone(), start, end, most }))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        let (gathered, within) = match &self.0 {
            Kind::Gathered { objects, passed } => (&objects[*passed..], None),
            Kind::Within { snapshot, start, end, most } => {
                let stored = snapshot.stored(start.clone(), end.clone());
                (&[][..], Some(stored.filter(|object| !object.is_tombstone()).take(*most)))
            }
        };
        gathered.iter().chain(within.into_iter().flatten())
    }

    /// Leaves out the next `count` objects from now on, the last of which is under `last`.
    pub fn pass(&mut self, count: usize, last: &Key) {
        match &mut self.0 {
            Kind::Gathered { passed, .. } => *passed += count,
            Kind::Within { start, most, .. } => {
                *start = Bound::Excluded(last.clone());
                *most = most.saturating_sub(count);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl From<Vec<Arc<Object>>> for Stretch {
    fn from(objects: Vec<Arc<Object>>) -> Self {
        Stretch(Kind::Gathered { objects: objects.into(), passed: 0 })
    }
}
