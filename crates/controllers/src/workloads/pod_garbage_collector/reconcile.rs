//! Computes the pods to delete from pods and nodes.

// upstream: pkg/controller/podgc/gc_controller.go

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use atoll_informer::Key;
use atoll_meta::object;
use atoll_meta::time::Timestamp;
use atoll_meta::views::{ConditionView, NodeView, PodView};
use serde_json::{Value, json};

use crate::shared::pods;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const DISRUPTION: &str = "DisruptionTarget";

/// Reason of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Terminated,
    OutOfService,
    Orphaned,
    UnscheduledTerminating,
}

#[derive(Clone, Debug)]
pub struct Removal {
    pub pod: Arc<Value>,
    pub reason: Reason,
}

/// Returns surplus finished pods: evicted ones first, then the oldest. Zero means no limit.
pub fn surplus_terminated(pods: &[Arc<Value>], threshold: usize) -> Vec<Removal> {
    if threshold == 0 {
        return Vec::new();
    }
    let mut by_workspace: BTreeMap<Arc<str>, Vec<&Arc<Value>>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !matches!(pods::phase(pod), "Pending" | "Running" | "Unknown")) {
        by_workspace.entry(Key::of(pod).workspace).or_default().push(pod);
    }
    let mut removals = Vec::new();
    for mut ended in by_workspace.into_values() {
        let surplus = ended.len().saturating_sub(threshold);
        if surplus == 0 {
            continue;
        }
        let is_evicted =
            |pod: &Value| pods::phase(pod) == "Failed" && PodView::of(pod).reason() == Some("Evicted");
        ended.sort_by(|one, other| {
            let key = |pod: &'_ Value| !is_evicted(pod);
            let created = |pod: &Value| object::creation_timestamp(pod).map(String::from);
            key(one)
                .cmp(&key(other))
                .then_with(|| created(one).cmp(&created(other)))
                .then_with(|| object::name(one).cmp(object::name(other)))
        });
        removals.extend(
            ended
                .into_iter()
                .take(surplus)
                .map(|pod| Removal { pod: pod.clone(), reason: Reason::Terminated }),
        );
    }
    removals
}

/// Returns terminating pods on nodes that are not ready and have the out-of-service taint.
pub fn out_of_service(pods: &[Arc<Value>], node: impl Fn(&Key) -> Option<Arc<Value>>) -> Vec<Removal> {
    let is_lost = |pod: &&Arc<Value>| {
        object::is_being_deleted(pod)
            && node_of(pod).and_then(|key| node(&key)).is_some_and(|node| is_out_of_service(&node))
    };
    removals(pods.iter().filter(is_lost), Reason::OutOfService)
}

/// Returns pods on deleted nodes.
pub fn orphaned(pods: &[Arc<Value>], gone: &[Key]) -> Vec<Removal> {
    let is_orphaned = |pod: &&Arc<Value>| node_of(pod).is_some_and(|key| gone.contains(&key));
    removals(pods.iter().filter(is_orphaned), Reason::Orphaned)
}

/// Returns terminating pods without a node.
pub fn unscheduled_terminating(pods: &[Arc<Value>]) -> Vec<Removal> {
    let is_stuck = |pod: &&Arc<Value>| object::is_being_deleted(pod) && node_of(pod).is_none();
    removals(pods.iter().filter(is_stuck), Reason::UnscheduledTerminating)
}

fn removals<'a>(pods: impl Iterator<Item = &'a Arc<Value>>, reason: Reason) -> Vec<Removal> {
    pods.map(|pod| Removal { pod: pod.clone(), reason }).collect()
}

/// Records since when nodes are missing that pods refer to. Removes and returns those whose quarantine is
/// over.
pub fn quarantine(
    missing: &mut HashMap<Key, Timestamp>,
    pods: &[Arc<Value>],
    exists: impl Fn(&Key) -> bool,
    quarantine_period: Duration,
    now: Timestamp,
) -> Vec<Key> {
    let named: HashSet<Key> = pods.iter().filter_map(|pod| node_of(pod)).collect();
    missing.retain(|key, _| named.contains(key) && !exists(key));
    for key in named.into_iter().filter(|key| !exists(key)) {
        missing.entry(key).or_insert(now);
    }
    let seconds = i64::try_from(quarantine_period.as_secs()).unwrap_or(i64::MAX);
    let is_due = |since: &Timestamp| since.seconds.saturating_add(seconds) <= now.seconds;
    let due: Vec<Key> =
        missing.iter().filter(|(_, since)| is_due(since)).map(|(key, _)| key.clone()).collect();
    for key in &due {
        missing.remove(key);
    }
    due
}

/// Returns the status patch that marks a pod as failed; `None` if it has already finished.
pub fn failed_status_patch(pod: &Value, because_of_node: bool, now: Timestamp) -> Option<Value> {
    if pods::is_terminal(pod) {
        return None;
    }
    let mut status = json!({"phase": "Failed"});
    let generation = object::generation(pod);
    if generation > 0 {
        status["observedGeneration"] = generation.into();
    }
    if because_of_node {
        let target = PodView::of(pod).condition(DISRUPTION).filter(|own| own.is_true());
        let since = target.and_then(ConditionView::last_transition_time).map(String::from);
        let mut condition = json!({
            "type": DISRUPTION,
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": since.unwrap_or_else(|| now.to_time()),
        });
        if generation > 0 {
            condition["observedGeneration"] = generation.into();
        }
        status["conditions"] = json!([condition]);
    }
    Some(json!({"metadata": {"uid": object::uid(pod)}, "status": status}))
}

fn node_of(pod: &Value) -> Option<Key> {
    let name = PodView::of(pod).node_name()?;
    Some(Key::of(pod).in_workspace(name))
}

fn is_out_of_service(node: &Value) -> bool {
    let node = NodeView::of(node);
    !node.is_ready() && node.taints().any(|taint| taint.key() == OUT_OF_SERVICE)
}

#[cfg(test)]
mod tests {
    use atoll_meta::time;

    use super::*;

    const QUARANTINE: Duration = Duration::from_secs(40);

    /// Builds a pod from attributes: `phase=`, `node=`, `created=` (a minute), `evicted`, `going`.
    fn pod(name: &str, attributes: &str) -> Arc<Value> {
        let mut pod = json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "status": {"phase": "Running"}});
        for attribute in attributes.split_whitespace() {
            match attribute.split_once('=').unwrap_or((attribute, "")) {
                ("phase", phase) => pod["status"]["phase"] = phase.into(),
                ("node", node) => pod["spec"]["nodeName"] = node.into(),
                ("created", minute) => {
                    object::set_creation_timestamp(&mut pod, &format!("2026-11-15T08:{minute}:00Z"));
                }
                ("evicted", _) => pod["status"]["reason"] = "Evicted".into(),
                ("going", _) => object::set_deletion_timestamp(&mut pod, "2026-11-15T08:00:00Z"),
                other => panic!("{other:?}"),
            }
        }
        Arc::new(pod)
    }

    fn names(removals: &[Removal]) -> Vec<&str> {
        removals.iter().map(|removal| object::name(&removal.pod)).collect()
    }

    #[test]
    fn oldest_finished_pods_are_deleted_first() {
        let pods = [
            pod("c", "phase=Succeeded created=03"),
            pod("b", "phase=Failed created=02"),
            pod("a", "phase=Failed created=02"),
            pod("e", "phase=Failed evicted created=09"),
            pod("r", "phase=Running created=01"),
            pod("p", "phase=Pending created=01"),
            pod("u", "phase=Unknown created=01"),
        ];
        for (threshold, wanted) in
            [(4, vec![]), (3, vec!["e"]), (2, vec!["e", "a"]), (1, vec!["e", "a", "b"]), (0, vec![])]
        {
            assert_eq!(names(&surplus_terminated(&pods, threshold)), wanted, "{threshold}");
        }
    }

    #[test]
    fn stuck_pods_are_deleted() {
        let pods = [
            pod("stuck", "going phase=Pending"),
            pod("waiting", "phase=Pending"),
            pod("lost", "going node=lost"),
            pod("there", "node=lost"),
            pod("busy", "going node=busy"),
            pod("orphan", "node=gone phase=Running"),
        ];
        assert_eq!(names(&unscheduled_terminating(&pods)), ["stuck"]);
        let node = |ready: &str, taint: &str| {
            json!({
                "spec": {"taints": [{"key": taint}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        let found = |key: &Key| match &*key.name {
            "lost" => Some(Arc::new(node("False", OUT_OF_SERVICE))),
            "busy" => Some(Arc::new(node("True", OUT_OF_SERVICE))),
            _ => None,
        };
        assert_eq!(names(&out_of_service(&pods, found)), ["lost"]);
        assert_eq!(names(&orphaned(&pods, &[Key::new("", "", "gone")])), ["orphan"]);
    }

    #[test]
    fn missing_nodes_are_quarantined() {
        let pods = [pod("a", "node=x"), pod("b", "node=y"), pod("c", "")];
        let mut missing = HashMap::new();
        let at = |second: i64| Timestamp::new(second, 0);
        let x = |key: &Key| &*key.name == "x";
        let y = Key::new("", "", "y");
        assert!(quarantine(&mut missing, &pods, x, QUARANTINE, at(0)).is_empty());
        assert!(quarantine(&mut missing, &pods, x, QUARANTINE, at(39)).is_empty());
        assert_eq!(quarantine(&mut missing, &pods, x, QUARANTINE, at(40)), [y]);
        assert!(
            quarantine(&mut missing, &pods, x, QUARANTINE, at(41)).is_empty(),
            "the quarantine starts again"
        );
        assert!(quarantine(&mut missing, &pods, |_| true, QUARANTINE, at(60)).is_empty());
        assert!(missing.is_empty(), "the node exists again");
    }

    #[test]
    fn pods_are_marked_failed_before_deletion() {
        let now = time::parse("2026-11-15T08:30:00Z").unwrap();
        let plain = json!({"metadata": {"uid": "a"}, "status": {"phase": "Failed"}});
        assert_eq!(failed_status_patch(&pod("a", ""), false, now), Some(plain));
        assert_eq!(failed_status_patch(&pod("a", "phase=Succeeded"), true, now), None);
        let patch = failed_status_patch(&pod("a", ""), true, now).expect("the pod runs");
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "lastTransitionTime": "2026-11-15T08:30:00Z",
        });
        assert_eq!(patch["status"]["conditions"], json!([condition]));
    }
}
