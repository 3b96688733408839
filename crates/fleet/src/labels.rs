//! Labels of other systems that name the clusters of an object.

use atoll_meta::object;
use serde_json::Value;

/// kcp: names the only cluster.
pub const CLUSTER: &str = "workloads.kcp.dev/cluster";
/// Later versions of kcp: each label with one of these prefixes and the value `Sync` names a cluster.
pub const STATES: [&str; 2] = ["state.workload.kcp.io/", "state.workload.kcp.dev/"];
pub const SYNC: &str = "Sync";

/// Returns every label of an object that names a cluster, with that name.
pub fn cluster_labels(object: &Value) -> Vec<(&str, &str)> {
    if let Some(name) = object::label(object, CLUSTER) {
        return vec![(CLUSTER, name)];
    }
    let states = object::labels(object).filter(|(_, value)| *value == SYNC);
    states
        .filter_map(|(label, _)| {
            let name = STATES.iter().find_map(|prefix| label.strip_prefix(prefix))?;
            Some((label, name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_name_clusters() {
        for (labels, expected) in [
            (json!({}), vec![]),
            (json!({ "app": "east" }), vec![]),
            (json!({ CLUSTER: "east" }), vec![(CLUSTER, "east")]),
            (
                json!({ "state.workload.kcp.io/east": "Sync", "state.workload.kcp.dev/west": "" }),
                vec![("state.workload.kcp.io/east", "east")],
            ),
        ] {
            assert_eq!(cluster_labels(&json!({ "metadata": { "labels": labels } })), expected);
        }
    }
}
