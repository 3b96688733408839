//! Changed workloads, which determine the objects that may select their Pods.
//!
//! Thousands of objects may select the same Pods, and a listener of a cache delays all other listeners. So a
//! listener only records index keys, and a worker finds the objects, less often the more there are.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atoll_informer::Key;

/// Pause of a namespace after each object that was found: a multiple of the time that examining an object takes.
const PAUSE: Duration = Duration::from_micros(200);
/// Most index keys that are recorded for a namespace.
const MAX_KEYS: usize = 4096;

#[derive(Default)]
pub struct ChangedWorkloads {
    namespaces: Mutex<HashMap<Key, ChangedNamespace>>,
}

#[derive(Default)]
struct ChangedNamespace {
    /// Index keys of objects to find.
    index_keys: HashSet<String>,
    /// Whether there are too many index keys, so that all objects of the namespace are examined.
    is_all: bool,
    paused_until: Option<Instant>,
}

/// The objects of a namespace to examine.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// Objects are due after a pause.
    Later(Duration),
    /// The objects with these index keys.
    With(HashSet<String>),
    All,
}

impl ChangedWorkloads {
    /// Records the index keys of a changed workload in a namespace.
    pub fn add(&self, namespace: &Key, index_keys: Vec<String>) {
        let mut namespaces = self.namespaces();
        let changed = namespaces.entry(namespace.clone()).or_default();
        if !changed.is_all {
            changed.index_keys.extend(index_keys);
        }
        if changed.index_keys.len() > MAX_KEYS {
            (changed.is_all, changed.index_keys) = (true, HashSet::new());
        }
    }

    /// Takes the objects of a namespace that are due.
    pub fn take(&self, namespace: &Key, now: Instant) -> Due {
        let mut namespaces = self.namespaces();
        let Some(changed) = namespaces.get_mut(namespace) else { return Due::Nothing };
        if let Some(left) = changed.paused_until.and_then(|until| until.checked_duration_since(now))
            && !left.is_zero()
        {
            return Due::Later(left);
        }
        let changed = namespaces.remove(namespace).unwrap_or_default();
        match (changed.is_all, changed.index_keys.is_empty()) {
            (true, _) => Due::All,
            (false, true) => Due::Nothing,
            (false, false) => Due::With(changed.index_keys),
        }
    }

    /// Pauses a namespace after `found` objects were found. Returns the length of the pause, after which its record is
    /// dropped.
    pub fn pause(&self, namespace: &Key, found: usize, now: Instant) -> Duration {
        let pause = PAUSE * u32::try_from(found).unwrap_or(u32::MAX).min(1_000_000);
        self.namespaces().entry(namespace.clone()).or_default().paused_until = Some(now + pause);
        pause
    }

    fn namespaces(&self) -> MutexGuard<'_, HashMap<Key, ChangedNamespace>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_paused_by_the_number_of_objects() {
        let (changed, namespace, now) = (ChangedWorkloads::default(), Key::new("w", "n", ""), Instant::now());
        assert_eq!(changed.take(&namespace, now), Due::Nothing);
        changed.add(&namespace, vec!["a".into(), "b".into()]);
        changed.add(&namespace, vec!["a".into()]);
        assert_eq!(changed.take(&namespace, now), Due::With(["a", "b"].map(String::from).into()));
        let pause = changed.pause(&namespace, 1000, now);
        assert_eq!(pause, Duration::from_millis(200));
        changed.add(&namespace, vec!["c".into()]);
        assert_eq!(changed.take(&namespace, now + pause / 2), Due::Later(pause / 2));
        assert_eq!(changed.take(&namespace, now + pause), Due::With(["c".to_string()].into()));
        assert!(changed.namespaces().is_empty());
        changed.add(&namespace, (0..=MAX_KEYS).map(|number| number.to_string()).collect());
        changed.add(&namespace, vec!["c".into()]);
        assert_eq!(changed.take(&namespace, now), Due::All);
    }
}
