//! Reads Clusters.

use std::collections::BTreeMap;

use atoll_fleet::ClusterView;
use atoll_meta::object;
use atoll_meta::time;
use atoll_meta::views::{ConditionView, items, text};
use serde_json::Value;

use super::{CapacityReport, ClusterState, REGION, Readiness, ZONE};
use crate::node::{NodeShape, Taint};
use crate::resources::Resources;

impl ClusterState {
    /// Reads a Cluster that is registered in the workspace with this path. What a Cluster does not say
    /// (served resources, missing rights, classes) is left unknown.
    pub fn of(cluster: &Value, workspace: &str) -> ClusterState {
        let view = ClusterView::of(cluster);
        ClusterState {
            name: object::name(cluster).into(),
            uid: object::uid(cluster).into(),
            workspace: workspace.into(),
            registered: seconds(object::creation_timestamp(cluster)),
            labels: labels(cluster),
            taints: view.taints().map(Taint::of).collect(),
            readiness: readiness(view.condition("Ready")),
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
    let mut labels: BTreeMap<String, String> =
        object::labels(cluster).map(|(key, value)| (key.to_string(), value.to_string())).collect();
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

/// Returns amounts by resource in the units of the ledger. Zero is an amount too.
fn amounts(quantities: &Value) -> BTreeMap<String, i64> {
    let read = Resources::of(quantities);
    let names = quantities.as_object().into_iter().flatten();
    names.map(|(name, _)| (name.clone(), read.amount(name))).collect()
}
