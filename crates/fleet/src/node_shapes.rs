//! Node shapes: the free capacity of a cluster as groups of similar nodes.
//!
//! Heartbeats contain the free amounts in `free`, as control planes have always read them, and labels and
//! taints of the same groups in `freeNodes`. The status of a Cluster has both in one list.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A group of nodes with equal labels, equal taints and at least these free resources each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeShape {
    /// Number of nodes.
    pub nodes: i64,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Value>,
    /// Free amount per node, by resource.
    pub resources: Map<String, Value>,
}

/// Reads the node shapes of a Cluster, also those from an older control plane.
pub fn read(cluster: &Value) -> Vec<NodeShape> {
    let rows = cluster["status"]["free"].as_array().into_iter().flatten();
    rows.filter_map(NodeShape::read).collect()
}

impl NodeShape {
    fn read(row: &Value) -> Option<NodeShape> {
        let nested = row.get("resources").and_then(Value::as_object);
        let mut resources = nested.or(row.as_object())?.clone();
        if nested.is_none() {
            resources.remove("nodes");
        }
        let labels = row["labels"].as_object().into_iter().flatten();
        let taints = if nested.is_some() { row["taints"].as_array().cloned() } else { None };
        Some(NodeShape {
            nodes: row["nodes"].as_i64()?,
            labels: labels
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())))
                .collect(),
            taints: taints.unwrap_or_default(),
            resources,
        })
    }
}

/// Returns the node shapes of a heartbeat: rows of free amounts, and labels and taints of the same groups,
/// which an older syncer does not send.
pub fn of_heartbeat(free: &[Value], groups: &[Value]) -> Value {
    let groups = groups.iter().map(Some).chain(std::iter::repeat(None));
    let rows = free.iter().zip(groups).filter_map(|(row, group)| {
        let mut resources = row.as_object()?.clone();
        let nodes = resources.remove("nodes")?;
        let field = |name: &str| group.and_then(|group| group.get(name)).cloned();
        let labels = field("labels").unwrap_or_else(|| json!({}));
        let taints = field("taints").unwrap_or_else(|| json!([]));
        Some(json!({ "nodes": nodes, "labels": labels, "taints": taints, "resources": resources }))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_older_and_newer_syncers_are_read() {
        let free = [json!({ "cpu": "2", "memory": "4Gi", "pods": 10, "nodes": 3 }), json!({ "cpu": "1" })];
        let taints = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
        let groups = [json!({ "labels": { "zone": "a" }, "taints": taints })];
        let resources = json!({ "cpu": "2", "memory": "4Gi", "pods": 10 });
        let shape = |labels: Value, taints: Value| json!([{ "nodes": 3, "labels": labels, "taints": taints, "resources": resources }]);
        assert_eq!(of_heartbeat(&free, &groups), shape(json!({ "zone": "a" }), taints.clone()));
        assert_eq!(of_heartbeat(&free, &[]), shape(json!({}), json!([])));

        let cluster = |free: Value| json!({ "status": { "free": free } });
        let plain =
            NodeShape { nodes: 3, resources: resources.as_object().unwrap().clone(), ..NodeShape::default() };
        assert_eq!(read(&cluster(json!([free[0]]))), [plain.clone()]);
        let labelled = NodeShape {
            labels: [("zone".to_string(), "a".to_string())].into(),
            taints: taints.as_array().unwrap().clone(),
            ..plain
        };
        assert_eq!(read(&cluster(of_heartbeat(&free, &groups))), [labelled]);
        assert_eq!(read(&json!({})), []);
    }
}
