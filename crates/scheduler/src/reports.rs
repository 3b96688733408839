//! Reports of clusters about the pods of objects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_fleet::placed_condition::DEADLINE_EXCEEDED;
use atoll_informer::{Cache, Change, Clock, Key};
use atoll_meta::views::condition;
use atoll_placement::demand::{CurrentShare, Work};
use serde_json::Value;

use crate::kinds::Kinds;
use crate::{Keys, workloads};

/// Seconds for which the scheduler of a cluster must find no node before pods are moved elsewhere.
const STUCK_SECONDS: i64 = 15;

type AwaitedKeys = HashMap<(Arc<str>, Arc<str>), Keys>;

/// The reports about the objects that the scheduler places.
pub struct Reports {
    pub cache: Arc<Cache>,
    by_object: usize,
    /// Queue keys of objects whose next step depends on reports, by workspace and namespace.
    awaited: Mutex<AwaitedKeys>,
    /// The time, in seconds, since which pods find no node, by uid of the object and of the cluster.
    stuck: Mutex<HashMap<(String, String), i64>>,
}

/// The pods of one share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedPods {
    /// Available pods, or ready ones where a kind does not know availability.
    pub ready: i64,
    /// Number of existing pods.
    pub running: i64,
    pub unschedulable: i64,
    /// Pods that a DaemonSet is to have.
    pub desired: i64,
    /// Number of pods with the latest template of the object below.
    pub updated: i64,
    /// Generation of the object above that was applied.
    pub generation: i64,
    /// Whether the counts are about the generation that was applied last.
    pub is_observed: bool,
    /// Whether the object below has an earlier template.
    pub is_held: bool,
    /// Whether the report confirms that a generation of the object was applied.
    pub is_applied: bool,
    /// Whether the object is applied there; also known for kinds without a generation.
    pub is_present: bool,
    /// Whether the cluster refuses the object.
    pub is_refused: bool,
    /// Whether new Pods do not become available within `progressDeadlineSeconds`.
    pub is_stalled: bool,
    /// `spec.replicas` of the object there.
    pub asked: i64,
    /// `spec.replicas` of the object there; `None` if the syncer does not report it.
    pub applied: Option<i64>,
}

impl ReportedPods {
    /// Whether the report is about a larger share than the present one, so that some of its pods may be
    /// terminating.
    pub fn is_of_more(&self, replicas: i64) -> bool {
        self.is_applied && self.applied.is_some_and(|applied| applied > replicas)
    }

    /// Pods of a share that find no node. If the report is about a larger share, as many are about to end as the share
    /// has fewer, and Pods without a node end first.
    fn unschedulable_of(&self, replicas: Option<i64>) -> i64 {
        let more =
            self.applied.zip(replicas).map_or(0, |(applied, replicas)| applied.saturating_sub(replicas));
        self.unschedulable.saturating_sub(more.max(0)).max(0)
    }
}

impl Reports {
    pub fn new(cache: Arc<Cache>) -> Reports {
        let by_object = cache.index(by_object);
        Reports { cache, by_object, awaited: Mutex::default(), stuck: Mutex::default() }
    }

    /// Handles a changed report about a Service. Returns the queue keys of objects that are to be decided about again.
    pub fn service_changed(&self, change: &Change) -> Vec<Key> {
        let known = |record: &Option<Arc<Value>>| record.as_deref().map(ready_endpoints);
        match known(&change.old) == known(&change.new) {
            true => Vec::new(),
            false => self.awaited_in(&change.key.workspace, &change.key.namespace),
        }
    }

    /// The queue keys of objects in a namespace whose next step depends on reports.
    pub fn awaited_in(&self, workspace: &Arc<str>, namespace: &Arc<str>) -> Vec<Key> {
        let awaited = self.awaited();
        awaited.get(&(workspace.clone(), namespace.clone())).into_iter().flatten().cloned().collect()
    }

    /// Handles a changed report about another object. Returns its queue key if it is to be decided about again.
    pub fn workload_changed(&self, change: &Change, kinds: &Kinds, clock: &dyn Clock) -> Option<Key> {
        let [before, now] =
            [&change.old, &change.new].map(|record| record.as_deref().map(pods).unwrap_or_default());
        if before == now {
            return None;
        }
        let record = change.object();
        let text = |field: &str| record["spec"][field].as_str().unwrap_or_default();
        let is_stuck = before.unschedulable != now.unschedulable;
        if is_stuck {
            let of = (text("uid").to_string(), text("clusterUID").to_string());
            let mut stuck = self.stuck();
            match now.unschedulable {
                0 => drop(stuck.remove(&of)),
                _ => drop(stuck.entry(of).or_insert_with(|| clock.seconds())),
            }
        }
        let resource = &record["spec"]["resource"];
        let name = |field: &str| resource[field].as_str().unwrap_or_default();
        let kind = kinds.position(&change.key.workspace, (name("group"), name("resource")))?;
        let at = Key::new(&change.key.workspace, text("namespace"), text("name"));
        let key = workloads::queue_key(kind, &at);
        (is_stuck || self.is_awaited(&key)).then_some(key)
    }

    /// Sets whether the next step of an object depends on its reports.
    pub fn set_awaited(&self, key: &Key, is_awaited: bool) {
        let Some(of) = namespace_of(key) else { return };
        let mut awaited = self.awaited();
        match is_awaited {
            true => drop(awaited.entry(of).or_default().insert(key.clone())),
            false => {
                if let Some(keys) = awaited.get_mut(&of) {
                    keys.remove(key);
                    if keys.is_empty() {
                        awaited.remove(&of);
                    }
                }
            }
        }
    }

    fn is_awaited(&self, key: &Key) -> bool {
        namespace_of(key).is_some_and(|of| self.awaited().get(&of).is_some_and(|keys| keys.contains(key)))
    }

    /// The reported pods of an object by uid of the cluster.
    pub fn of(&self, workspace: &str, uid: &str) -> HashMap<String, ReportedPods> {
        let records = self.cache.by_index(self.by_object, &object_key(workspace, uid));
        let read = |record: &Arc<Value>| {
            let cluster = record["spec"]["clusterUID"].as_str()?;
            Some((cluster.to_string(), pods(record)))
        };
        records.iter().filter_map(read).collect()
    }

    /// The ready endpoints of a Service by uid of the cluster; `None` where they are not known.
    pub fn endpoints(&self, workspace: &str, uid: &str) -> HashMap<String, Option<i64>> {
        let records = self.cache.by_index(self.by_object, &object_key(workspace, uid));
        let read = |record: &Arc<Value>| {
            let cluster = record["spec"]["clusterUID"].as_str()?;
            Some((cluster.to_string(), ready_endpoints(record)))
        };
        records.iter().filter_map(read).collect()
    }

    /// Adds a report to a share. Returns the time at which pods without a node are checked again.
    pub fn fill(
        &self,
        share: &mut CurrentShare,
        found: ReportedPods,
        work: Work,
        of: (&str, i64),
    ) -> Option<i64> {
        let (uid, now) = of;
        // Pods with ordinals beyond the share still run, and must not run on another cluster at the same time.
        let is_shrinking = work == Work::Ordinals && share.replicas.is_some_and(|most| found.running > most);
        share.ready = match (is_shrinking, found.applied) {
            (true, _) => found.running,
            // A share that has just grown has at most the replicas that the object there asks for.
            (false, Some(applied)) if work == Work::Replicas => found.ready.min(applied),
            (false, _) => found.ready,
        };
        share.is_applied = found.is_present;
        if found.unschedulable == 0 {
            return None;
        }
        let since = self.stuck().get(&(uid.to_string(), share.uid.to_string())).copied().unwrap_or(now);
        let (is_stuck, due) = stuck_since(since, now);
        if is_stuck {
            share.unschedulable = found.unschedulable_of(share.replicas);
        }
        Some(due)
    }

    fn awaited(&self) -> MutexGuard<'_, AwaitedKeys> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<(String, String), i64>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Workspace and namespace of the object with a queue key.
fn namespace_of(key: &Key) -> Option<(Arc<str>, Arc<str>)> {
    workloads::target(key).map(|(_, at)| (at.workspace, at.namespace))
}

/// Whether a report is about a Service.
pub fn is_about_service(record: &Value) -> bool {
    let resource = &record["spec"]["resource"];
    resource["resource"] == "services" && resource["group"] == ""
}

/// Whether pods without a node since a time are to move, and when to check again: the capacity report of the
/// cluster may be older than the report about its pods.
fn stuck_since(since: i64, now: i64) -> (bool, i64) {
    let due = since.saturating_add(STUCK_SECONDS);
    if now < due { (false, due) } else { (true, now.saturating_add(STUCK_SECONDS)) }
}

/// Index of reports by their object.
fn by_object(record: &Value) -> Vec<String> {
    let uid = record["spec"]["uid"].as_str();
    uid.map(|uid| object_key(&Key::of(record).workspace, uid)).into_iter().collect()
}

/// A report in one workspace never counts for an object of another one.
fn object_key(workspace: &str, uid: &str) -> String {
    format!("{workspace}/{uid}")
}

/// Reads the ready endpoints of a Service; `None` if they are not known, or some are left out.
fn ready_endpoints(record: &Value) -> Option<i64> {
    let endpoints = &record["status"]["endpoints"];
    endpoints["ready"].as_i64().filter(|_| endpoints["cut"].as_i64().unwrap_or(0) == 0)
}

/// Reads the pods of a report.
fn pods(record: &Value) -> ReportedPods {
    let report = &record["status"];
    let counted = |field: &str| report["pods"][field].as_i64();
    let status = &report["status"];
    let number = |fields: &[&str]| fields.iter().find_map(|field| status[*field].as_i64());
    // A field that is 0 is omitted.
    let available = number(&["availableReplicas", "numberAvailable"]);
    let ready = available.or(number(&["readyReplicas", "numberReady", "ready"])).or(counted("ready"));
    let ready =
        if status.is_object() && available.is_none() && has_availability(record) { Some(0) } else { ready };
    let running = counted("total").or(number(&["replicas"])).unwrap_or(0);
    // Older syncers do not report it.
    let applied = report["replicas"].as_i64();
    let asked = applied.or(number(&["replicas"])).unwrap_or(0);
    let generation = report["generation"].as_i64().unwrap_or(0);
    ReportedPods {
        desired: number(&["desiredNumberScheduled"]).unwrap_or(0).max(0),
        updated: number(&["updatedReplicas", "updatedNumberScheduled"]).unwrap_or(0).max(0),
        generation,
        is_observed: report["observed"] == true,
        is_held: report["held"] == true,
        ready: ready.unwrap_or(0).max(0),
        running: running.max(0),
        unschedulable: counted("unschedulable").unwrap_or(0).max(0),
        is_applied: report["state"] == "Applied" && generation > 0,
        is_present: report["state"] == "Applied",
        is_refused: report["state"] == "Refused" || report["state"] == "Conflict",
        is_stalled: condition(report, "Progressing").is_some_and(|found| found.reason() == DEADLINE_EXCEEDED),
        asked: asked.max(0),
        applied,
    }
}

/// Whether the status of a kind counts available pods.
fn has_availability(record: &Value) -> bool {
    let resource = record["spec"]["resource"]["resource"].as_str().unwrap_or_default();
    !matches!(resource, "jobs" | "cronjobs")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_without_a_node_are_looked_at_until_they_have_one() {
        for (now, expected) in
            [(100, (false, 115)), (114, (false, 115)), (115, (true, 130)), (500, (true, 515))]
        {
            assert_eq!(stuck_since(100, now), expected);
        }
    }

    #[test]
    fn reports_about_larger_shares_are_outdated() {
        for (status, share, expected) in [
            (json!({ "state": "Applied", "generation": 1, "replicas": 2 }), 1, true),
            (json!({ "state": "Applied", "generation": 1, "replicas": 1 }), 1, false),
            (json!({ "state": "Applied", "generation": 1, "replicas": 1 }), 2, false),
            // An object that cannot be applied is not waited for, and older syncers do not report it.
            (json!({ "state": "Invalid", "generation": 1, "replicas": 2 }), 1, false),
            (json!({ "state": "Applied", "generation": 1, "status": { "replicas": 2 } }), 1, false),
        ] {
            let record = json!({ "spec": { "resource": { "resource": "deployments" } }, "status": status });
            assert_eq!(pods(&record).is_of_more(share), expected, "{record}");
        }
    }

    #[test]
    fn pods_that_are_about_to_end_are_not_stuck() {
        let found =
            ReportedPods { unschedulable: 2, applied: Some(4), is_applied: true, ..ReportedPods::default() };
        for (share, expected) in
            [(Some(4), 2), (Some(3), 1), (Some(2), 0), (Some(1), 0), (Some(6), 2), (None, 2)]
        {
            assert_eq!(found.unschedulable_of(share), expected, "{share:?}");
        }
        assert_eq!(ReportedPods { applied: None, ..found }.unschedulable_of(Some(2)), 2);
    }

    #[test]
    fn pods_are_available_ones_where_the_kind_counts_them() {
        for (resource, status, expected) in [
            ("deployments", json!({ "status": { "replicas": 3, "readyReplicas": 3 } }), (0, 3, 0)),
            ("deployments", json!({ "status": { "replicas": 3, "availableReplicas": 2 } }), (2, 3, 0)),
            ("daemonsets", json!({ "status": { "numberAvailable": 4, "numberReady": 5 } }), (4, 0, 0)),
            ("jobs", json!({ "status": { "ready": 1 } }), (1, 0, 0)),
            ("deployments", json!({ "pods": { "total": 5, "ready": 1, "unschedulable": 2 } }), (1, 5, 2)),
            ("deployments", json!({ "status": null }), (0, 0, 0)),
        ] {
            let record = json!({ "spec": { "resource": { "resource": resource } }, "status": status });
            let found = pods(&record);
            assert_eq!((found.ready, found.running, found.unschedulable), expected, "{record}");
        }
    }
}
