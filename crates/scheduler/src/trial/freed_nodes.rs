//! The node shapes that a cluster would report after pods have left it.

use atoll_fleet::node_shapes::{self, NodeShape};
use atoll_placement::demand::Needs;
use atoll_placement::resources::Resources;
use serde_json::{Value, json};

use crate::report::shape;

/// Returns `status.free` of a Cluster without some of the pods with these needs. Which nodes they ran on is not known: they
/// leave all nodes that they may run on evenly.
pub fn freed(cluster: &Value, needs: &Needs, pods: i64) -> Value {
    let shapes = node_shapes::read(cluster);
    let allows = |row: &NodeShape| needs.node.allow(&shape(row.clone()));
    let nodes: i64 = shapes.iter().filter(|row| allows(row)).map(|row| row.nodes.max(0)).sum();
    if nodes == 0 {
        return cluster["status"]["free"].clone();
    }
    let (each, mut rest) = (pods / nodes, pods % nodes);
    let mut rows: Vec<Value> = Vec::with_capacity(shapes.len() + 1);
    for shape in &shapes {
        if !allows(shape) {
            rows.push(row(shape, shape.nodes, &needs.requests, 0));
            continue;
        }
        let more = rest.min(shape.nodes.max(0));
        rest -= more;
        for (nodes, pods) in [(more, each + 1), (shape.nodes - more, each)] {
            if nodes > 0 {
                rows.push(row(shape, nodes, &needs.requests, pods));
            }
        }
    }
    rows.into()
}

/// Nodes of a shape, each with the requests of `pods` pods free in addition.
fn row(shape: &NodeShape, nodes: i64, requests: &Resources, pods: i64) -> Value {
    let mut free = Resources::of(&Value::Object(shape.resources.clone()));
    free.add(requests, pods);
    let mut resources = shape.resources.clone();
    for (name, value) in &mut resources {
        let amount = free.amount(name);
        *value = if name == "cpu" { format!("{amount}m").into() } else { amount.into() };
    }
    json!({ "nodes": nodes, "labels": shape.labels, "taints": shape.taints, "resources": resources })
}

#[cfg(test)]
mod tests {
    use atoll_placement::demand::Demand;

    use super::*;

    #[test]
    fn pods_leave_all_nodes_evenly() {
        let taint = json!({ "key": "gpu", "effect": "NoSchedule" });
        let shape = |nodes: i64, cpu: &str, taints: Value| json!({ "nodes": nodes, "labels": {}, "taints": taints, "resources": { "cpu": cpu, "pods": "10" } });
        let free = json!([shape(3, "1", json!([])), shape(2, "9", json!([taint]))]);
        let requests = json!({ "requests": { "cpu": "500m" } });
        let template = json!({ "spec": { "containers": [{ "name": "main", "resources": requests }] } });
        let object = json!({ "metadata": { "uid": "u" }, "spec": { "template": template } });
        let demand = Demand::of(("w", "root"), ("apps", "deployments"), &object);
        let cluster = json!({ "status": { "free": free } });
        let found = freed(&cluster, &demand.needs, 4);
        let rows: Vec<(&Value, &Value, &Value)> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (&row["nodes"], &row["resources"]["cpu"], &row["resources"]["pods"]))
            .collect();
        let expected = [
            (json!(1), json!("2000m"), json!(12)),
            (json!(2), json!("1500m"), json!(11)),
            (json!(2), json!("9000m"), json!(10)),
        ];
        assert_eq!(rows, expected.each_ref().map(|(nodes, cpu, pods)| (nodes, cpu, pods)));
        assert_eq!(freed(&json!({ "status": { "free": [] } }), &demand.needs, 4), json!([]));
    }
}
