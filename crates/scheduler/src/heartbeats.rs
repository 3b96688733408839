//! Late heartbeats: clusters that are still Ready, and may not be for long.
//!
//! ```text
//!   a share is to be replaced soon ─► request ─► list of Leases ─► late clusters ─► wait for them, or replace it
//! ```
//!
//! When the control plane is cut off, clusters become unready one after the other. Whether the first of them is lost
//! alone depends on the others, so that their Leases are read just before its shares are replaced, and only then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::{ClusterView, marks};
use atoll_informer::{Change, Key, resources};
use atoll_meta::{object, time};
use serde_json::Value;
use tokio::sync::Notify;

use crate::Scheduler;

/// Seconds for which a list of Leases tells which heartbeats are late.
const RECENT_SECONDS: i64 = 5;
/// Time for listing the Leases of a workspace.
const LIST_TIME: Duration = Duration::from_secs(5);
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
    /// When Leases are to be listed next, in seconds, by id of the workspace.
    requests: BTreeMap<Arc<str>, i64>,
    /// When they were last listed.
    listed: HashMap<Arc<str>, i64>,
    /// Clusters whose heartbeats were late then.
    late: HashSet<Key>,
    /// Clusters that are Ready although their last heartbeat reported a problem.
    troubled: HashSet<Key>,
}

impl Heartbeats {
    /// Lets the Leases of workspaces, by id, be listed at a time in seconds.
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

    /// The clusters of workspaces, by id, that may become unready soon; `None` if that is not known at this time.
    pub fn late(&self, workspaces: &[Arc<str>], now: i64) -> Option<HashSet<Key>> {
        let state = self.state();
        let is_recent = |workspace: &Arc<str>| {
            state.listed.get(workspace).is_some_and(|at| (*at..=at + RECENT_SECONDS).contains(&now))
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
    fn listed(&self, workspace: &Arc<str>, late: HashSet<Key>, now: i64) {
        let mut state = self.state();
        // A workspace is listed again before the next loss there.
        state.listed.retain(|_, at| at.saturating_add(RECENT_SECONDS) >= now);
        let State { listed, late: known, .. } = &mut *state;
        known.retain(|key| key.workspace != *workspace && listed.contains_key(&key.workspace));
        known.extend(late);
        listed.insert(workspace.clone(), now);
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

/// Lists Leases as they are requested, for as long as it is polled.
pub async fn run(scheduler: &Scheduler) {
    let (heartbeats, clock) = (&scheduler.heartbeats, &scheduler.writer.clock);
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
                for workspace in heartbeats.take(now) {
                    list(scheduler, &workspace).await;
                }
            }
        }
    }
}

async fn list(scheduler: &Scheduler, workspace: &Arc<str>) {
    let (api, clock) = (&scheduler.api, &scheduler.writer.clock);
    let mut late = HashSet::new();
    if scheduler.clusters.list(workspace, "").is_empty() {
        return scheduler.heartbeats.listed(workspace, late, clock.seconds());
    }
    let read = |page: Vec<Value>| {
        let now = clock.seconds();
        let names = page.iter().filter_map(cluster_of).filter(|(_, lease)| is_late(lease, now));
        let keys = names.map(|(name, _)| Key::new(workspace, "", name));
        // Leases of other names and of Clusters that do not exist may be of any number.
        late.extend(keys.filter(|key| scheduler.clusters.get(key).is_some()));
    };
    let listing = api.list_pages(&resources::LEASES, workspace, marks::SYSTEM_NAMESPACE, false, read);
    match tokio::time::timeout(LIST_TIME, listing).await {
        Ok(Ok(())) => scheduler.heartbeats.listed(workspace, late, clock.seconds()),
        Ok(Err(status)) => tracing::debug!(%status, %workspace, "cannot list the Leases of clusters"),
        Err(_) => tracing::debug!(%workspace, "the Leases of clusters were not listed in time"),
    }
}

/// The name of the cluster that a Lease belongs to.
fn cluster_of(lease: &Value) -> Option<(&str, &Value)> {
    let name = object::label(lease, marks::CLUSTER)?;
    (object::name(lease) == marks::heartbeat(name)).then_some((name, lease))
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
    fn leases_belong_to_the_cluster_in_their_name() {
        let lease = |name: &str, cluster: &str| json!({ "metadata": { "name": name, "labels": { "atoll.dev/cluster": cluster } } });
        for (lease, expected) in [
            (lease("cluster-east", "east"), Some("east")),
            (lease("cluster-west", "east"), None),
            (json!({ "metadata": { "name": "cluster-east" } }), None),
        ] {
            assert_eq!(cluster_of(&lease).map(|(name, _)| name), expected, "{lease}");
        }
    }

    #[test]
    fn lists_count_for_a_while() {
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
        heartbeats.listed(&one, HashSet::from([key("one", "a")]), 100);
        assert_eq!((late(&[&one], 105), late(&[&one], 106)), (Some("a".into()), None));
        assert_eq!(late(&[&one, &other], 100), None);
        heartbeats.listed(&other, HashSet::from([key("other", "b")]), 104);
        assert_eq!(late(&[&one, &other], 104), Some("a b".into()));
        heartbeats.listed(&one, HashSet::new(), 104);
        assert_eq!(late(&[&one, &other], 104), Some("b".into()));
        // Requests wait for the earliest time that was asked for.
        heartbeats.request([one.clone()], 130);
        heartbeats.request([one.clone(), other.clone()], 120);
        heartbeats.request([one.clone()], 140);
        assert_eq!((heartbeats.due(), heartbeats.take(119).len()), (Some(120), 0));
        assert_eq!((heartbeats.take(120), heartbeats.due()), (vec![one, other], None));
    }
}
