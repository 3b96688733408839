//! kcp's labels that name the clusters of an object.

use atoll_meta::object;
use atoll_registry::dialect::{Intent, IntentSource};
use serde_json::Value;

/// kcp: names the only cluster.
pub const CLUSTER: &str = "workloads.kcp.dev/cluster";
/// Later versions of kcp: each label with one of these prefixes and the value `Sync` names a cluster.
const STATES: [&str; 2] = ["state.workload.kcp.io/", "state.workload.kcp.dev/"];
const SYNC: &str = "Sync";

/// Returns every label of an object that names a cluster, with that name.
pub fn intents(object: &Value) -> Vec<Intent<'_>> {
    if let Some(cluster) = object::label(object, CLUSTER) {
        return vec![Intent { source: IntentSource::Label(CLUSTER), cluster }];
    }
    let states = object::labels(object).filter(|(_, value)| *value == SYNC);
    states
        .filter_map(|(label, _)| {
            let cluster = STATES.iter().find_map(|prefix| label.strip_prefix(prefix))?;
            Some(Intent { source: IntentSource::Label(label), cluster })
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
            let object = json!({ "metadata": { "labels": labels } });
            let expected: Vec<Intent<'_>> = expected
                .iter()
                .map(|(label, cluster)| Intent { source: IntentSource::Label(label), cluster })
                .collect();
            assert_eq!(intents(&object), expected);
        }
    }
}
