//! How many objects each policy matches and places, for its status.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::Key;
use atoll_placement::policy::Selection;
use tokio::sync::Notify;

/// The least time between two writes of a status: many objects that change at once are counted together.
const PAUSE: Duration = Duration::from_millis(500);

/// The objects of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Objects that the policy matches.
    pub matched: i64,
    /// Objects that it applies to, because no other policy is more specific.
    pub applied: i64,
}

#[derive(Default)]
pub struct Counts {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Uids of the policies of an object; the first one applies.
    objects: HashMap<Key, Vec<String>>,
    policies: HashMap<String, Count>,
    /// Uids of policies whose count or definition has changed.
    changed: HashSet<String>,
}

impl Counts {
    /// Sets the policies of an object.
    pub fn set(&self, key: &Key, selection: &Selection<'_>) {
        let losers = selection.losers.iter().map(|loser| loser.policy);
        let uids: Vec<String> =
            selection.winner.into_iter().chain(losers).map(|policy| policy.uid.clone()).collect();
        let mut state = self.state();
        if state.objects.get(key).map_or(&[][..], Vec::as_slice) == uids {
            return;
        }
        state.count(key, uids);
        self.changed.notify_one();
    }

    /// Forgets an object.
    pub fn remove(&self, key: &Key) {
        let mut state = self.state();
        if state.objects.contains_key(key) {
            state.count(key, Vec::new());
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
    fn count(&mut self, key: &Key, uids: Vec<String>) {
        for (uids, step) in [(self.objects.remove(key).unwrap_or_default(), -1), (uids.clone(), 1)] {
            for (index, uid) in uids.into_iter().enumerate() {
                let count = self.policies.entry(uid.clone()).or_default();
                count.matched += step;
                count.applied += if index == 0 { step } else { 0 };
                if *count == Count::default() {
                    self.policies.remove(&uid);
                }
                self.changed.insert(uid);
            }
        }
        if !uids.is_empty() {
            self.objects.insert(key.clone(), uids);
        }
    }
}
