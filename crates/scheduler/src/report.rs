//! Reads what a Cluster reports about its capacity.

use std::sync::Arc;

use atoll_meta::views::{TaintView, items};
use atoll_placement::cluster::CapacityReport;
use atoll_placement::node::{NodeShape, Taint};
use atoll_placement::resources::Resources;
use serde_json::Value;

/// Returns the report of a Cluster; `None` before its first heartbeat.
pub fn read(cluster: &Value) -> Option<CapacityReport> {
    let status = &cluster["status"];
    let rows = status["free"].as_array()?;
    let bound = status["bound"].as_object().into_iter().flatten();
    Some(CapacityReport {
        nodes: rows.iter().map(shape).collect(),
        is_cut: status["cut"]["nodes"].as_i64().unwrap_or(0) > 0,
        bound: bound.filter_map(|(uid, count)| Some((Arc::from(uid.as_str()), count.as_i64()?))).collect(),
        ..CapacityReport::default()
    })
}

/// Reads a group of nodes. Older syncers report quantities beside the number of nodes.
fn shape(row: &Value) -> NodeShape {
    if !row["resources"].is_object() {
        return NodeShape::of(row);
    }
    let labels = row["labels"].as_object().into_iter().flatten();
    NodeShape {
        count: row["nodes"].as_i64().unwrap_or(1).max(0),
        labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into()))).collect(),
        taints: items(&row["taints"]).iter().map(|taint| Taint::of(TaintView::of(taint))).collect(),
        free: Resources::of(&row["resources"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_of_nodes_are_read() {
        assert_eq!(read(&json!({ "status": {} })), None);
        let taint = json!({ "key": "gpu", "value": "true", "effect": "NoSchedule" });
        let nested = json!({
            "nodes": 2, "labels": { "zone": "a" }, "taints": [taint],
            "resources": { "cpu": "3900m", "memory": "1Gi", "pods": "107" },
        });
        let flat = json!({ "nodes": 3, "cpu": "2", "memory": "1Gi", "pods": 10 });
        let status = json!({ "free": [nested, flat], "bound": { "1": 3 }, "cut": { "nodes": 1 } });
        let report = read(&json!({ "status": status })).expect("it has reported");
        let counts: Vec<(i64, i64, i64)> =
            report.nodes.iter().map(|shape| (shape.count, shape.free.milli_cpu, shape.free.pods)).collect();
        assert_eq!(counts, [(2, 3900, 107), (3, 2000, 10)]);
        assert_eq!((report.nodes[0].taints.len(), report.nodes[0].labels.len()), (1, 1));
        assert_eq!((report.bound.get("1"), report.is_cut), (Some(&3), true));
    }
}
