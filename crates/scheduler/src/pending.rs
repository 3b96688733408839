//! Objects that could not be placed, until an event that may help.
//!
//! ```text
//!   Cluster changed: terms ─► objects of the workspaces that it serves
//!                    room  ─► those of them that had no room on it ────┐
//!   shares taken away      ─► those that had no room on their clusters ─┴─► queue
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::{Key, Queue};
use atoll_placement::decide::PlacementDecision;
use tokio::sync::Notify;

/// The least time between two attempts because of changes elsewhere. Many changes at once, such as the
/// deletion of many objects, are one reason to try again.
const PAUSE: Duration = Duration::from_millis(200);

/// Pending objects by queue key.
#[derive(Default)]
pub struct Pending {
    objects: Mutex<HashMap<Key, PendingObject>>,
    due: Mutex<Due>,
    /// Changes that the ledger has not seen: an object that is decided about meanwhile is tried again.
    unseen: Mutex<Due>,
    wake: Notify,
}

#[derive(Clone, Default)]
struct PendingObject {
    /// The reason that was last reported; `None` if none was.
    message: Option<String>,
    /// Uids of the clusters on which more room may help; `None` if it is not known what helps.
    rooms: Option<HashSet<Arc<str>>>,
}

/// Changes that may help pending objects.
#[derive(Default)]
struct Due {
    /// Objects to try again whatever has changed.
    objects: HashSet<Key>,
    /// Whether something has changed while nothing was pending.
    is_any: bool,
    /// Ids of workspaces whose Clusters have changed: their objects, and those of workspaces below, may fit now.
    workspaces: HashSet<Arc<str>>,
    /// Uids of clusters with more room.
    rooms: HashSet<Arc<str>>,
}

impl Pending {
    /// Adds an object. Returns whether its reason is a new one.
    pub fn insert(&self, key: Key, message: &str) -> bool {
        let known = self.objects().entry(key).or_default().message.replace(message.to_string());
        known.is_none_or(|known| known != message)
    }

    /// Records which clusters have too little room for an object, as a decision says.
    pub fn set_rooms(&self, key: &Key, decision: &PlacementDecision) {
        let refusals = decision.refusals.iter().chain(&decision.left_out);
        let rooms: HashSet<Arc<str>> = refusals
            .clone()
            .filter(|refusal| refusal.may_depend_on_room())
            .map(|refusal| refusal.uid.clone())
            .collect();
        if refusals.count() == 0 {
            if let Some(object) = self.objects().get_mut(key) {
                object.rooms = None;
            }
            return;
        }
        self.objects().entry(key.clone()).or_default().rooms = Some(rooms.clone());
        let is_late = {
            let unseen = lock(&self.unseen);
            unseen.is_any || !unseen.workspaces.is_empty() || !unseen.rooms.is_disjoint(&rooms)
        };
        if is_late {
            lock(&self.due).objects.insert(key.clone());
            self.wake.notify_one();
        }
    }

    /// Reports that the ledger is about to see all changes so far.
    pub fn forget_unseen(&self) {
        *lock(&self.unseen) = Due::default();
    }

    /// Keys of all pending objects. They are sorted, so that decisions about them are always made in the same order.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.objects().keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// Whether nothing is pending, so that a change helps nothing but what is being decided about now.
    pub fn needs_nothing(&self) -> bool {
        let is_empty = self.objects().is_empty();
        if is_empty {
            lock(&self.unseen).is_any = true;
        }
        is_empty
    }

    /// A copy that is woken on its own.
    pub fn copy(&self) -> Pending {
        Pending { objects: Mutex::new(self.objects().clone()), ..Pending::default() }
    }

    pub fn remove(&self, key: &Key) {
        self.objects().remove(key);
    }

    /// Reports that a Cluster that is registered in a workspace has changed otherwise than by its room.
    pub fn retry_below(&self, workspace: &Arc<str>) {
        for due in [&self.due, &self.unseen] {
            lock(due).workspaces.insert(workspace.clone());
        }
        self.wake.notify_one();
    }

    /// Reports that clusters have more room.
    pub fn retry_on(&self, clusters: &[Arc<str>]) {
        if clusters.is_empty() {
            return;
        }
        for due in [&self.due, &self.unseen] {
            lock(due).rooms.extend(clusters.iter().cloned());
        }
        self.wake.notify_one();
    }

    /// Takes the keys of the objects that the changes since the last call may help, in order. `is_below` is whether a workspace
    /// is another one or below it.
    pub fn take_due(&self, is_below: impl Fn(&str, &str) -> bool) -> Vec<Key> {
        let Due { objects, workspaces, rooms, .. } = std::mem::take(&mut *lock(&self.due));
        let mut served: HashMap<Arc<str>, bool> = HashMap::new();
        let mut keys: Vec<Key> = objects.iter().cloned().collect();
        for (key, object) in self.objects().iter().filter(|(key, _)| !objects.contains(*key)) {
            let waits_for_room = match &object.rooms {
                Some(own) => !own.is_disjoint(&rooms),
                None => !rooms.is_empty(),
            };
            let is_served = || workspaces.iter().any(|above| is_below(&key.workspace, above));
            if waits_for_room || *served.entry(key.workspace.clone()).or_insert_with(is_served) {
                keys.push(key.clone());
            }
        }
        keys.sort_unstable();
        keys
    }

    /// Adds pending objects to the queue after each event that may help, for as long as it is polled.
    pub async fn wake(&self, queue: &Queue, is_below: impl Fn(&str, &str) -> bool) {
        loop {
            self.wake.notified().await;
            self.take_due(&is_below).into_iter().for_each(|key| queue.add(key));
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<Key, PendingObject>> {
        lock(&self.objects)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use atoll_placement::decide::Refusal;

    use super::*;

    #[test]
    fn a_reason_is_told_once() {
        let (pending, key) = (Pending::default(), Key::new("w", "2/n", "web"));
        pending.set_rooms(&key, &decision(&[("east", "Cordoned")]));
        assert!(pending.insert(key.clone(), "east is cordoned"));
        assert!(!pending.insert(key.clone(), "east is cordoned"));
        assert!(pending.insert(key.clone(), "east is full"));
        pending.remove(&key);
        assert!(pending.insert(key, "east is full"));
    }

    fn decision(refusals: &[(&str, &'static str)]) -> PlacementDecision {
        let refusal = |(uid, code): &(&str, &'static str)| Refusal {
            name: (*uid).into(),
            uid: (*uid).into(),
            code,
            text: String::new(),
        };
        PlacementDecision { refusals: refusals.iter().map(refusal).collect(), ..PlacementDecision::default() }
    }

    #[test]
    fn objects_are_tried_again_when_a_change_may_help() {
        let pending = Pending::default();
        for (workspace, name, refusals) in [
            ("root", "full", &[("east", "NoRoom"), ("west", "Cordoned")][..]),
            ("team", "closed", &[("east", "Tainted"), ("west", "Cordoned")]),
            ("team", "beside", &[("east", "NotChosen"), ("west", "QuotaReached")]),
            ("other", "unknown", &[]),
        ] {
            let key = Key::new(workspace, "2/n", name);
            pending.insert(key.clone(), "it waits");
            pending.set_rooms(&key, &decision(refusals));
        }
        let is_below =
            |workspace: &str, above: &str| workspace == above || (above == "root" && workspace == "team");
        let due = || -> Vec<String> {
            let mut names: Vec<String> =
                pending.take_due(is_below).iter().map(|key| key.name.to_string()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(due(), [""; 0]);
        pending.retry_on(&["east".into()]);
        assert_eq!(due(), ["beside", "full", "unknown"]);
        pending.retry_on(&["west".into()]);
        assert_eq!(due(), ["beside", "unknown"]);
        pending.retry_on(&["north".into()]);
        assert_eq!(due(), ["unknown"]);
        pending.retry_below(&"root".into());
        assert_eq!(due(), ["beside", "closed", "full"]);
        pending.retry_below(&"team".into());
        assert_eq!(due(), ["beside", "closed"]);
        assert_eq!(due(), [""; 0], "each change counts once");
        // A change while an object is decided about, which the decision does not see.
        let full = Key::new("root", "2/n", "full");
        pending.forget_unseen();
        pending.retry_on(&["east".into()]);
        assert_eq!(due(), ["beside", "full", "unknown"]);
        pending.set_rooms(&full, &decision(&[("east", "NoRoom")]));
        assert_eq!(due(), ["full"]);
        pending.forget_unseen();
        pending.set_rooms(&full, &decision(&[("east", "NoRoom")]));
        assert_eq!(due(), [""; 0]);
    }
}
