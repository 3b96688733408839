//! Reads the status of Clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atoll_fleet::{ClusterView, node_shapes};
use atoll_meta::views::{TaintView, items, text};
use atoll_placement::cluster::{CapacityReport, Classes, ClusterState, resource_name};
use atoll_placement::node::{NodeShape, Taint};
use atoll_placement::resources::Resources;
use serde_json::Value;

/// Most node shapes that count. Heartbeats contain fewer.
const MAX_SHAPES: usize = 64;
/// Most versions of a group that a heartbeat contains.
const MAX_VERSIONS: usize = 16;
/// Most namespaces with quotas that count, and resources of each. Heartbeats contain no more.
const MAX_QUOTAS: usize = 500;
const MAX_QUOTA_RESOURCES: usize = 64;

/// Returns the state of a Cluster that is registered in the workspace with this path.
pub fn state(cluster: &Value, path: &str) -> ClusterState {
    let (apis, missing_rights) = apis(&cluster["status"]);
    let (versions, classes) = (versions(&cluster["status"]), classes(cluster));
    ClusterState { apis, versions, missing_rights, classes, ..ClusterState::of(cluster, path) }
}

/// Returns the capacity that a Cluster has reported; `None` before its first heartbeat.
pub fn capacity(cluster: &Value) -> Option<CapacityReport> {
    let status = &cluster["status"];
    status["free"].as_array()?;
    let bound = status["bound"].as_object().into_iter().flatten();
    Some(CapacityReport {
        nodes: node_shapes::read(cluster).into_iter().take(MAX_SHAPES).map(shape).collect(),
        is_cut: is_cut(status, "nodes"),
        quotas: quotas(status),
        bound: bound.filter_map(|(uid, count)| Some((Arc::from(uid.as_str()), count.as_i64()?))).collect(),
    })
}

/// Amounts that ResourceQuotas of the cluster leave, in the units of the ledger.
fn quotas(status: &Value) -> BTreeMap<(Arc<str>, Arc<str>), BTreeMap<String, i64>> {
    let rows = items(&status["quotas"]).iter().take(MAX_QUOTAS).filter_map(|row| {
        let read = Resources::of(&row["left"]);
        let names = row["left"].as_object().into_iter().flatten().take(MAX_QUOTA_RESOURCES);
        let left: BTreeMap<String, i64> = names.map(|(name, _)| (name.clone(), read.amount(name))).collect();
        Some(((text(&row["workspace"])?.into(), text(&row["namespace"])?.into()), left))
    });
    rows.collect()
}

/// A node shape in the units of the ledger.
pub fn shape(shape: node_shapes::NodeShape) -> NodeShape {
    NodeShape {
        count: shape.nodes.max(0),
        labels: shape.labels,
        taints: shape.taints.iter().map(|taint| Taint::of(TaintView::of(taint))).collect(),
        free: Resources::of(&Value::Object(shape.resources)),
    }
}

/// Whether the report is cut: it omits some entries of this field.
fn is_cut(status: &Value, what: &str) -> bool {
    status["cut"][what].as_i64().unwrap_or(0) > 0
}

/// The resources that a cluster serves, if they are known, and those that the syncer may not write.
fn apis(status: &Value) -> (Option<BTreeSet<String>>, BTreeSet<String>) {
    let names = |field: &str| {
        let groups = items(&status["apis"]).iter();
        let names = groups.flat_map(|row| {
            let group = row["group"].as_str().unwrap_or_default();
            items(&row[field]).iter().filter_map(text).map(move |name| resource_name(group, name))
        });
        names.collect::<BTreeSet<String>>()
    };
    let refused = names("refused");
    let is_known = status["apis"].is_array() && !is_cut(status, "apis");
    (is_known.then(|| names("resources").union(&refused).cloned().collect()), refused)
}

/// The served versions of each API group of which all are known.
fn versions(status: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let of_group = |row: &Value| {
        let versions: BTreeSet<String> =
            items(&row["versions"]).iter().filter_map(text).map(str::to_string).collect();
        let is_known = !versions.is_empty() && versions.len() < MAX_VERSIONS;
        is_known.then(|| (row["group"].as_str().unwrap_or_default().to_string(), versions))
    };
    items(&status["apis"]).iter().filter_map(of_group).collect()
}

/// The classes of a cluster, if all of them are known. A storage class that an override of the cluster replaces is
/// there if its replacement is.
fn classes(cluster: &Value) -> Option<Classes> {
    let status = &cluster["status"];
    let names = |field: &str| {
        let names = status["classes"][field].as_array()?;
        Some(names.iter().filter_map(text).map(str::to_string).collect::<BTreeSet<String>>())
    };
    if is_cut(status, "classes") {
        return None;
    }
    let mut storage = names("storage")?;
    for row in items(ClusterView::of(cluster).overrides()) {
        let replaced = row["storageClass"].as_object().into_iter().flatten();
        let served = replaced.filter(|(_, to)| to.as_str().is_some_and(|to| storage.contains(to)));
        let served: Vec<String> = served.map(|(from, _)| from.clone()).collect();
        storage.extend(served);
    }
    Some(Classes {
        priority: names("priority")?,
        storage,
        runtime: names("runtime")?,
        ingress: names("ingress")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_of_nodes_are_read() {
        assert_eq!(capacity(&json!({ "status": {} })), None);
        let taint = json!({ "key": "gpu", "value": "true", "effect": "NoSchedule" });
        let nested = json!({
            "nodes": 2, "labels": { "zone": "a" }, "taints": [taint],
            "resources": { "cpu": "3900m", "memory": "1Gi", "pods": "107" },
        });
        let flat = json!({ "nodes": 3, "cpu": "2", "memory": "1Gi", "pods": 10 });
        let status = json!({ "free": [nested, flat], "bound": { "1": 3 }, "cut": { "nodes": 1 } });
        let report = capacity(&json!({ "status": status })).expect("it has reported");
        let counts: Vec<(i64, i64, i64)> =
            report.nodes.iter().map(|shape| (shape.count, shape.free.milli_cpu, shape.free.pods)).collect();
        assert_eq!(counts, [(2, 3900, 107), (3, 2000, 10)]);
        assert_eq!((report.nodes[0].taints.len(), report.nodes[0].labels.len()), (1, 1));
        assert_eq!((report.bound.get("1"), report.is_cut), (Some(&3), true));
    }

    #[test]
    fn quotas_are_read_in_the_units_of_the_ledger() {
        let row = json!({ "workspace": "w", "namespace": "n", "left": { "cpu": "1500m", "pods": "0" } });
        let status = json!({ "free": [], "quotas": [row, { "left": { "cpu": "1" } }] });
        let report = capacity(&json!({ "status": status })).expect("it has reported");
        let left = report.quotas.get(&("w".into(), "n".into())).expect("it has a quota");
        assert_eq!((left.get("cpu"), left.get("pods"), report.quotas.len()), (Some(&1500), Some(&0), 1));
    }

    #[test]
    fn unknown_and_incomplete_lists_filter_nothing() {
        let apis = json!([{ "group": "apps", "resources": ["deployments"], "refused": ["daemonsets"] }]);
        let classes = json!({ "priority": ["high"], "storage": [], "runtime": [], "ingress": [] });
        let read = |status: Value| state(&json!({ "status": status }), "root");
        let known = read(json!({ "apis": apis, "classes": classes }));
        let versions = json!([
            { "group": "apps", "versions": ["v1"] }, { "group": "example.com", "versions": [] },
            { "group": "cut.io", "versions": (0..16).map(|at| format!("v{at}")).collect::<Vec<_>>() },
        ]);
        let with_versions = read(json!({ "apis": versions }));
        assert_eq!(with_versions.versions.keys().collect::<Vec<_>>(), ["apps"]);
        let served = ["daemonsets.apps", "deployments.apps"].map(String::from);
        assert_eq!(known.apis, Some(BTreeSet::from(served)));
        assert_eq!(known.missing_rights, BTreeSet::from(["daemonsets.apps".to_string()]));
        assert_eq!(known.classes.map(|classes| classes.priority.len()), Some(1));
        let cut = read(json!({ "apis": apis, "classes": classes, "cut": { "apis": 1, "classes": 1 } }));
        assert_eq!((cut.apis, cut.classes), (None, None));
        let partial = read(json!({ "classes": { "priority": [] } }));
        assert_eq!((partial.apis, partial.classes), (None, None));
    }
}
