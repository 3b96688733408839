//! Reports of clusters about the pods of objects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_fleet::placed_condition::DEADLINE_EXCEEDED;
use atoll_informer::{Cache, Change, Clock, Key};
use atoll_meta::views::condition;
use atoll_placement::demand::{CurrentShare, Work};
use serde_json::Value;

use crate::kinds::Kinds;
use crate::{Keys, serving, workloads};

/// Seconds for which the scheduler of a cluster must find no node before pods are moved elsewhere.
const STUCK_SECONDS: i64 = 15;

/// The reports about the objects that the scheduler places.
pub struct Reports {
    pub cache: Arc<Cache>,
    by_object: usize,
    /// Queue keys of objects whose next step depends on reports.
    awaited: Mutex<Keys>,
    /// Since when pods find no node, in seconds, by uid of the object and of the cluster.
    stuck: Mutex<HashMap<(String, String), i64>>,
}

/// The pods of one share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedPods {
    /// Available pods, or ready ones where a kind does not know availability.
    pub ready: i64,
    /// Pods that exist.
    pub running: i64,
    pub unschedulable: i64,
    /// Pods that a DaemonSet is to have.
    pub desired: i64,
    /// Pods with the latest template of the object below.
    pub updated: i64,
    /// Generation of the object above that was applied.
    pub generation: i64,
    /// Whether the counts are about what was applied last.
    pub is_observed: bool,
    /// Whether the object below has an earlier template.
    pub is_held: bool,
    /// Whether the object was applied there.
    pub is_applied: bool,
    /// Whether new Pods do not become available within `progressDeadlineSeconds`.
    pub is_stalled: bool,
    /// `spec.replicas` of the object there.
    pub asked: i64,
}

impl Reports {
    pub fn new(cache: Arc<Cache>) -> Reports {
        let by_object = cache.index(by_object);
        Reports { cache, by_object, awaited: Mutex::default(), stuck: Mutex::default() }
    }

    /// Handles a changed report. Returns the queue keys of objects that are to be decided about again.
    pub fn changed(&self, change: &Change, kinds: &Kinds, clock: &dyn Clock) -> Vec<Key> {
        let record = change.object();
        let resource = &record["spec"]["resource"];
        if resource["resource"] == "services" && resource["group"] == "" {
            let known = |record: &Option<Arc<Value>>| record.as_deref().map(ready_endpoints);
            return match known(&change.old) == known(&change.new) {
                true => Vec::new(),
                false => self.awaited_in(&change.key.workspace, &change.key.namespace),
            };
        }
        self.workload_changed(change, kinds, clock).into_iter().collect()
    }

    /// The queue keys of objects in a namespace whose next step depends on reports.
    pub fn awaited_in(&self, workspace: &str, namespace: &str) -> Vec<Key> {
        serving::in_namespace(&self.awaited(), workspace, namespace)
    }

    fn workload_changed(&self, change: &Change, kinds: &Kinds, clock: &dyn Clock) -> Option<Key> {
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
        (is_stuck || self.awaited().contains(&key)).then_some(key)
    }

    /// Sets whether the next step of an object depends on its reports.
    pub fn set_awaited(&self, key: &Key, is_awaited: bool) {
        let mut awaited = self.awaited();
        match is_awaited {
            true => drop(awaited.insert(key.clone())),
            false => drop(awaited.remove(key)),
        }
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

    /// Fills in what is reported about a share. Returns when to look again at pods that find no node.
    pub fn fill(
        &self,
        share: &mut CurrentShare,
        found: ReportedPods,
        work: Work,
        of: (&str, i64),
    ) -> Option<i64> {
        let (uid, now) = of;
        // Pods with ordinals beyond the share still run, and no other cluster may run them meanwhile.
        let is_shrinking = work == Work::Ordinals && share.replicas.is_some_and(|most| found.running > most);
        share.ready = if is_shrinking { found.running } else { found.ready };
        if found.unschedulable == 0 {
            return None;
        }
        let since = self.stuck().get(&(uid.to_string(), share.uid.to_string())).copied().unwrap_or(now);
        let due = since.saturating_add(STUCK_SECONDS);
        if now < due {
            return Some(due);
        }
        share.unschedulable = found.unschedulable;
        None
    }

    fn awaited(&self) -> MutexGuard<'_, Keys> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<(String, String), i64>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Index of reports by their object.
fn by_object(record: &Value) -> Vec<String> {
    let uid = record["spec"]["uid"].as_str();
    uid.map(|uid| object_key(&Key::of(record).workspace, uid)).into_iter().collect()
}

/// Reports in one workspace never count for an object of another one.
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
    let asked = report["replicas"].as_i64().or(number(&["replicas"])).unwrap_or(0);
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
        is_stalled: condition(report, "Progressing").is_some_and(|found| found.reason() == DEADLINE_EXCEEDED),
        asked: asked.max(0),
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
