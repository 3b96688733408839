//! A cursor over a sequence of objects.
//!
//! A long list is sent in pieces, often to many clients at once. Holding each object would make the cores
//! contend for the reference counts, so the cursor holds the snapshot that contains the objects.

use std::ops::Bound;
use std::sync::Arc;

use atoll_store::Key;

use crate::object::Object;
use crate::snapshot::{Scope, Snapshot};

/// A sequence of objects, without those that were already passed.
#[derive(Clone)]
pub struct ObjectCursor(Source);

#[derive(Clone)]
enum Source {
    Snapshot {
        snapshot: Arc<Snapshot>,
        start: Bound<Key>,
        end: Bound<Key>,
        /// Maximum number of remaining objects.
        limit: usize,
    },
    Collected {
        objects: Arc<[Arc<Object>]>,
        passed: usize,
    },
}

impl ObjectCursor {
    /// The objects of `scope` after `after`, at most `limit`; `None` if they must be collected first, because
    /// some may be in the bootstrap layer and are created for each reader.
    pub fn within(
        snapshot: &Arc<Snapshot>,
        scope: &Scope,
        after: Option<&str>,
        limit: usize,
    ) -> Option<ObjectCursor> {
        if snapshot.is_layered_within(scope) {
            return None;
        }
        let (start, end) = (scope.start(after), scope.end());
        Some(ObjectCursor(Source::Snapshot { snapshot: snapshot.clone(), start, end, limit }))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        let (collected, within) = match &self.0 {
            Source::Collected { objects, passed } => (&objects[*passed..], None),
            Source::Snapshot { snapshot, start, end, limit } => {
                let stored = snapshot.stored(start.clone(), end.clone());
                (&[][..], Some(stored.filter(|object| !object.is_tombstone()).take(*limit)))
            }
        };
        collected.iter().chain(within.into_iter().flatten())
    }

    /// Skips the next `count` objects, the last of which is under `last`.
    pub fn advance(&mut self, count: usize, last: &Key) {
        match &mut self.0 {
            Source::Collected { passed, .. } => *passed += count,
            Source::Snapshot { start, limit, .. } => {
                *start = Bound::Excluded(last.clone());
                *limit = limit.saturating_sub(count);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl From<Vec<Arc<Object>>> for ObjectCursor {
    fn from(objects: Vec<Arc<Object>>) -> Self {
        ObjectCursor(Source::Collected { objects: objects.into(), passed: 0 })
    }
}
