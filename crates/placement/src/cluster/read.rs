//! Reads Clusters.

use std::collections::BTreeMap;

use atoll_fleet::ClusterView;
use atoll_fleet::cluster::{MAX_LABELS, MAX_TAINTS};
use atoll_meta::object;
use atoll_meta::time;
use atoll_meta::views::{ConditionView, items, text};
use serde_json::Value;

use super::{CapacityReport, ClusterState, REGION, Readiness, ZONE};
use crate::node::{NodeShape, Taint};
use crate::resources::Resources;

impl ClusterState {
    /// Reads a Cluster that is registered in the workspace with this path. Unreported served resources, missing
    /// rights and classes are left unknown.
    pub fn of(cluster: &Value, workspace: &str) -> ClusterState {
        let view = ClusterView::of(cluster);
        ClusterState {
            name: object::name(cluster).into(),
            uid: object::uid(cluster).into(),
            workspace: workspace.into(),
            registered: seconds(object::creation_timestamp(cluster)),
            labels: labels(cluster),
            taints: view.taints().take(MAX_TAINTS).map(Taint::of).collect(),
            readiness: readiness(view.condition("Ready")),
            has_failed: !items(&cluster["status"]["failures"]).is_empty(),
            is_cordoned: view.is_unschedulable(),
            is_fenced: view.is_fenced(),
            is_observed: view.is_observed(),
            is_paused: view.is_paused(),
            is_being_removed: object::is_being_deleted(cluster),
            workspaces: view
                .workspaces()
                .map(|paths| paths.iter().filter_map(Value::as_str).map(str::to_string).collect()),
            limits: amounts(&cluster["spec"]["limits"]),
            ..ClusterState::default()
        }
    }
}

impl CapacityReport {
    /// Reads the free capacity of a Cluster; `None` before its first heartbeat. Bound pods are reported
    /// elsewhere.
    pub fn of(cluster: &Value) -> Option<CapacityReport> {
        let rows = cluster["status"]["free"].as_array()?;
        Some(CapacityReport { nodes: rows.iter().map(NodeShape::of).collect(), ..CapacityReport::default() })
    }
}

fn seconds(text: Option<&str>) -> i64 {
    text.and_then(|text| time::parse(text).ok()).map_or(0, |time| time.seconds)
}

fn readiness(condition: Option<ConditionView<'_>>) -> Readiness {
    let Some(condition) = condition else { return Readiness::Unknown };
    let since = seconds(condition.last_transition_time());
    match condition.status() {
        "True" => Readiness::Ready { since },
        "False" => Readiness::NotReady { since, reason: condition.reason().to_string() },
        _ => Readiness::Unknown,
    }
}

fn labels(cluster: &Value) -> BTreeMap<String, String> {
    let own = object::labels(cluster).take(MAX_LABELS);
    let mut labels: BTreeMap<String, String> =
        own.map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let status = &cluster["status"];
    if let Some(region) = text(&status["region"]) {
        labels.entry(REGION.into()).or_insert_with(|| region.into());
    }
    // A cluster in several zones is in none of them as a whole.
    if let [zone] = items(&status["zones"])
        && let Some(zone) = zone.as_str()
    {
        labels.entry(ZONE.into()).or_insert_with(|| zone.into());
    }
    labels
}

/// Returns amounts by resource in the units of the ledger, including amounts of zero.
fn amounts(quantities: &Value) -> BTreeMap<String, i64> {
    let read = Resources::of(quantities);
    let names = quantities.as_object().into_iter().flatten();
    names.map(|(name, _)| (name.clone(), read.amount(name))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::Effect;

    #[test]
    fn clusters_are_read() {
        let cluster = json!({
            "metadata": {
                "name": "east", "uid": "u", "creationTimestamp": "1970-01-01T00:01:00Z",
                "labels": { "tier": "gold", "topology.kubernetes.io/region": "north" },
            },
            "spec": {
                "unschedulable": true, "workspaces": ["team"], "limits": { "cpu": "2500m", "memory": "1Gi", "pods": 0 },
                "taints": [{ "key": "k", "value": "v", "effect": "NoExecute" }],
            },
            "status": {
                "region": "south", "zones": ["a"], "failures": ["1970-01-01T00:02:00Z"],
                "conditions": [{ "type": "Ready", "status": "False", "reason": "TimedOut", "lastTransitionTime": "1970-01-01T00:02:00Z" }],
                "free": [
                    { "nodes": 2, "cpu": "1500m", "memory": "1Gi", "pods": 10, "nvidia.com/gpu": "1" },
                    { "cpu": "1", "labels": { "disk": "ssd" }, "taints": [{ "key": "t", "effect": "NoSchedule" }] },
                ],
            },
        });
        let state = ClusterState::of(&cluster, "root:org");
        assert_eq!(
            (&*state.name, &*state.uid, &*state.workspace, state.registered),
            ("east", "u", "root:org", 60)
        );
        let labels: Vec<(&str, &str)> =
            state.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(labels, [("tier", "gold"), (REGION, "north"), (ZONE, "a")]);
        assert_eq!(state.readiness, Readiness::NotReady { since: 120, reason: "TimedOut".into() });
        assert!(state.has_failed);
        assert!(state.is_cordoned && !state.is_fenced && !state.is_observed && !state.is_paused);
        assert_eq!(
            (state.taints[0].to_string(), state.taints[0].effect),
            ("k=v:NoExecute".into(), Effect::NoExecute)
        );
        let limits: Vec<(&str, i64)> =
            state.limits.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
        assert_eq!(limits, [("cpu", 2500), ("memory", 1 << 30), ("pods", 0)]);
        let report = CapacityReport::of(&cluster).unwrap();
        assert_eq!(report.nodes[0].count, 2);
        assert_eq!(
            report.nodes[0].free.amounts(),
            [("cpu", 1500), ("memory", 1 << 30), ("pods", 10), ("nvidia.com/gpu", 1)]
        );
        assert_eq!(report.nodes[1].labels.get("disk").map(String::as_str), Some("ssd"));
        assert_eq!(report.nodes[1].taints[0].to_string(), "t:NoSchedule");
        assert_eq!(report.nodes[1].free.amounts(), [("cpu", 1000)]);
        assert_eq!(report.total().milli_cpu, 4000);
    }

    #[test]
    fn unknown_state_is_left_open() {
        let state = ClusterState::of(&json!({ "metadata": { "name": "east" } }), "root");
        assert_eq!(
            (state.readiness, state.workspaces, state.apis, state.classes),
            (Readiness::Unknown, None, None, None)
        );
        assert_eq!(CapacityReport::of(&json!({})), None);
    }
}
