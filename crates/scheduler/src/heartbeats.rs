//! Late heartbeats: clusters that are still Ready, but may become unready soon.
//!
//! ```text
//!   a share is to be replaced soon ─► request ─► Leases ─► late clusters ─► wait for them, or replace it
//! ```
//!
//! When the control plane is cut off, clusters become unready one after the other. Whether the first of them
//! was lost alone depends on the others, so their Leases are read just before its shares would be replaced, and
//! only then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::{ClusterView, marks};
use atoll_informer::{Change, Key, resources};
use atoll_meta::time;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::Scheduler;

/// Seconds for which the result of reading Leases is valid.
const RECENT_SECONDS: i64 = 5;
/// Time for reading the Leases of a workspace.
const READ_TIME: Duration = Duration::from_secs(5);
/// The duration of a Lease without any, in seconds, and the longest one that counts.
const LEASE_SECONDS: i64 = 30;
const LONGEST_LEASE_SECONDS: i64 = 600;

#[derive(Default)]
pub struct Heartbeats {
    state: Mutex<State>,
    requested: Notify,
}

#[derive(Default)]
struct State {
    /// When Leases are to be read next, in seconds, by id of the workspace.
    requests: BTreeMap<Arc<str>, i64>,
    /// When they were last read.
    read: HashMap<Arc<str>, i64>,
    /// Clusters whose heartbeats were late then.
    late: HashSet<Key>,
    /// Clusters that are Ready although their last heartbeat reported a problem.
    troubled: HashSet<Key>,
}

impl Heartbeats {
    /// Lets the Leases of workspaces, by id, be read at a time in seconds.
    pub fn request(&self, workspaces: impl IntoIterator<Item = Arc<str>>, at: i64) {
        let mut state = self.state();
        for workspace in workspaces {
            let due = state.requests.entry(workspace).or_insert(i64::MAX);
            if at < *due {
                *due = at;
                self.requested.notify_one();
            }
        }
    }

    /// The clusters of workspaces, by id, that may become unready soon; `None` if their Leases were not read
    /// recently.
    pub fn late(&self, workspaces: &[Arc<str>], now: i64) -> Option<HashSet<Key>> {
        let state = self.state();
        let is_recent = |workspace: &Arc<str>| {
            state.read.get(workspace).is_some_and(|at| (*at..=at + RECENT_SECONDS).contains(&now))
        };
        let is_known = workspaces.iter().all(is_recent);
        is_known.then(|| state.late.union(&state.troubled).cloned().collect())
    }

    /// Handles a changed Cluster.
    pub fn cluster_changed(&self, change: &Change) {
        let is_troubled = change.new.as_deref().is_some_and(|cluster| {
            let view = ClusterView::of(cluster);
            view.is_ready() && view.problem().is_some()
        });
        let mut state = self.state();
        match is_troubled {
            true => drop(state.troubled.insert(change.key.clone())),
            false => drop(state.troubled.remove(&change.key)),
        }
        if change.new.is_none() {
            state.late.remove(&change.key);
        }
    }

    /// Records the late clusters of a workspace at a time in seconds.
    fn set_late(&self, workspace: &Arc<str>, late: HashSet<Key>, now: i64) {
        let mut state = self.state();
        // The Leases are read again before the next loss there.
        state.read.retain(|_, at| at.saturating_add(RECENT_SECONDS) >= now);
        let State { read, late: known, .. } = &mut *state;
        known.retain(|key| key.workspace != *workspace && read.contains_key(&key.workspace));
        known.extend(late);
        read.insert(workspace.clone(), now);
    }

    /// The time of the next request.
    fn due(&self) -> Option<i64> {
        self.state().requests.values().min().copied()
    }

    /// Takes the requests that are due.
    fn take(&self, now: i64) -> Vec<Arc<str>> {
        let mut state = self.state();
        let due: Vec<Arc<str>> =
            state.requests.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        for workspace in &due {
            state.requests.remove(workspace);
        }
        due
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads requested Leases until it is dropped. Workspaces do not wait for each other.
pub async fn run(scheduler: Arc<Scheduler>) {
    let (heartbeats, clock) = (&scheduler.heartbeats, &scheduler.writer.clock);
    let mut reading = JoinSet::new();
    loop {
        let now = clock.seconds();
        match heartbeats.due() {
            None => heartbeats.requested.notified().await,
            Some(at) if now < at => {
                let left = Duration::from_secs(u64::try_from(at - now).unwrap_or(0));
                // A new request may be due earlier.
                let _ = tokio::time::timeout(left, heartbeats.requested.notified()).await;
            }
            Some(_) => {
                while reading.try_join_next().is_some() {}
                for workspace in heartbeats.take(now) {
                    reading.spawn(read(scheduler.clone(), workspace));
                }
            }
        }
    }
}

/// Reads the Lease of each Cluster of a workspace. A list would have all other Leases of the namespace, too, and a
/// tenant may create any number of them.
async fn read(scheduler: Arc<Scheduler>, workspace: Arc<str>) {
    let (api, clock) = (&scheduler.api, &scheduler.writer.clock);
    let reading = async {
        let mut late = HashSet::new();
        for cluster in scheduler.clusters.list(&workspace, "") {
            let key = Key::of(&cluster);
            let lease = Key::new(&workspace, marks::SYSTEM_NAMESPACE, &marks::heartbeat(&key.name));
            match api.get(&resources::LEASES, &lease).await {
                Ok(lease) if is_late(&lease, clock.seconds()) => drop(late.insert(key)),
                Err(status) if status.reason() != "NotFound" => return Err(status),
                _ => {}
            }
        }
        Ok(late)
    };
    match tokio::time::timeout(READ_TIME, reading).await {
        Ok(Ok(late)) => scheduler.heartbeats.set_late(&workspace, late, clock.seconds()),
        Ok(Err(status)) => tracing::debug!(%status, %workspace, "cannot read the Leases of clusters"),
        Err(_) => tracing::debug!(%workspace, "the Leases of clusters were not read in time"),
    }
}

/// Whether two of the three heartbeats within the duration of a Lease are missing. The syncer of a Lease without a
/// holder has announced that it stops.
fn is_late(lease: &Value, now: i64) -> bool {
    let spec = &lease["spec"];
    let has_holder = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
    let renewed = spec["renewTime"].as_str().and_then(|text| time::parse(text).ok());
    let lasts = spec["leaseDurationSeconds"].as_i64().unwrap_or(LEASE_SECONDS);
    let lasts = lasts.clamp(1, LONGEST_LEASE_SECONDS);
    has_holder
        && renewed.is_some_and(|time| (now.saturating_sub(time.seconds)).saturating_mul(3) >= lasts * 2)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn heartbeats_are_late_when_two_are_missing() {
        let spec = json!({
            "holderIdentity": "one", "leaseDurationSeconds": 30, "renewTime": "1970-01-01T00:01:40.000000Z",
        });
        for (change, now, expected) in [
            (json!({}), 119, false),
            (json!({}), 120, true),
            (json!({ "leaseDurationSeconds": 3 }), 101, false),
            (json!({ "leaseDurationSeconds": 3 }), 102, true),
            (json!({ "leaseDurationSeconds": i64::MAX }), 499, false),
            (json!({ "leaseDurationSeconds": i64::MAX }), 500, true),
            (json!({ "leaseDurationSeconds": null }), 120, true),
            (json!({ "holderIdentity": "" }), 500, false),
            (json!({ "renewTime": "yesterday" }), 500, false),
            (json!({ "renewTime": null }), 500, false),
        ] {
            let mut lease = json!({ "spec": spec });
            for (field, value) in change.as_object().unwrap() {
                lease["spec"][field] = value.clone();
            }
            assert_eq!(is_late(&lease, now), expected, "{lease} at {now}");
        }
    }

    #[test]
    fn leases_count_for_a_while() {
        let heartbeats = Heartbeats::default();
        let [one, other]: [Arc<str>; 2] = ["one", "other"].map(Arc::from);
        let key = |workspace: &str, name: &str| Key::new(workspace, "", name);
        let late = |of: &[&Arc<str>], now: i64| {
            let of: Vec<Arc<str>> = of.iter().map(|id| Arc::clone(id)).collect();
            let mut found: Vec<String> =
                heartbeats.late(&of, now)?.iter().map(|key| key.name.to_string()).collect();
            found.sort_unstable();
            Some(found.join(" "))
        };
        assert_eq!(late(&[&one], 100), None);
        heartbeats.set_late(&one, HashSet::from([key("one", "a")]), 100);
        assert_eq!((late(&[&one], 105), late(&[&one], 106)), (Some("a".into()), None));
        assert_eq!(late(&[&one, &other], 100), None);
        heartbeats.set_late(&other, HashSet::from([key("other", "b")]), 104);
        assert_eq!(late(&[&one, &other], 104), Some("a b".into()));
        heartbeats.set_late(&one, HashSet::new(), 104);
        assert_eq!(late(&[&one, &other], 104), Some("b".into()));
        // Requests wait for the earliest time that was asked for.
        heartbeats.request([one.clone()], 130);
        heartbeats.request([one.clone(), other.clone()], 120);
        heartbeats.request([one.clone()], 140);
        assert_eq!((heartbeats.due(), heartbeats.take(119).len()), (Some(120), 0));
        assert_eq!((heartbeats.take(120), heartbeats.due()), (vec![one, other], None));
    }
}
