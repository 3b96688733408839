//! The number of objects that each policy matches and places, for its status.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::Key;
use atoll_placement::policy::Policy;
use tokio::sync::Notify;

/// The least time between two writes of a status: many objects that change at once are counted together.
const PAUSE: Duration = Duration::from_millis(500);

/// The objects of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Objects that the policy applies to.
    pub matched: i64,
    /// Those of them that it has placed.
    pub placed: i64,
}

#[derive(Default)]
pub struct Counts {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The uid of the policy of each object, and whether the policy has placed it.
    objects: HashMap<Key, (String, bool)>,
    policies: HashMap<String, Count>,
    /// Uids of policies whose count or definition has changed.
    changed: HashSet<String>,
}

impl Counts {
    /// Sets the policy that applies to an object, and whether it has placed the object.
    pub fn set(&self, key: &Key, policy: &Policy, is_placed: bool) {
        let mut state = self.state();
        if state.objects.get(key).is_some_and(|(uid, placed)| (uid, *placed) == (&policy.uid, is_placed)) {
            return;
        }
        state.remove(key);
        state.add(&policy.uid, 1, is_placed);
        state.objects.insert(key.clone(), (policy.uid.clone(), is_placed));
        self.changed.notify_one();
    }

    /// Forgets an object that no policy applies to.
    pub fn remove(&self, key: &Key) {
        if self.state().remove(key) {
            self.changed.notify_one();
        }
    }

    /// Reports that a policy is new or has changed, so that its status is to be written.
    pub fn policy_changed(&self, uid: &str) {
        self.state().changed.insert(uid.to_string());
        self.changed.notify_one();
    }

    /// Waits until counts have changed, and returns the uids of these policies.
    pub async fn next(&self) -> HashSet<String> {
        loop {
            self.changed.notified().await;
            tokio::time::sleep(PAUSE).await;
            let changed = std::mem::take(&mut self.state().changed);
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    pub fn of(&self, uid: &str) -> Count {
        self.state().policies.get(uid).copied().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, key: &Key) -> bool {
        let known = self.objects.remove(key);
        if let Some((uid, is_placed)) = &known {
            self.add(uid, -1, *is_placed);
        }
        known.is_some()
    }

    fn add(&mut self, uid: &str, step: i64, is_placed: bool) {
        let count = self.policies.entry(uid.to_string()).or_default();
        count.matched += step;
        count.placed += if is_placed { step } else { 0 };
        if *count == Count::default() {
            self.policies.remove(uid);
        }
        self.changed.insert(uid.to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_object_is_counted_for_one_policy() {
        let policy = |uid: &str| {
            let policy =
                json!({ "kind": "PlacementPolicy", "metadata": { "name": uid, "uid": uid }, "spec": {} });
            Policy::parse(&policy).expect("it is valid")
        };
        let (counts, one, other) = (Counts::default(), policy("1"), policy("2"));
        let (web, database) = (Key::new("w", "2/n", "web"), Key::new("w", "2/n", "database"));
        counts.set(&web, &one, false);
        counts.set(&database, &one, true);
        assert_eq!(counts.of("1"), Count { matched: 2, placed: 1 });
        counts.set(&web, &one, true);
        counts.set(&database, &other, true);
        assert_eq!(counts.of("1"), Count { matched: 1, placed: 1 });
        assert_eq!(counts.of("2"), Count { matched: 1, placed: 1 });
        counts.remove(&web);
        assert_eq!(counts.of("1"), Count::default());
    }
}
