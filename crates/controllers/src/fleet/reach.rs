//! Which clusters a workspace can use, and whether what they last said still counts.

use std::sync::Arc;

use atoll_fleet::placed::Health;
use atoll_informer::{Cache, Key, World};
use atoll_meta::object;
use serde_json::Value;

use crate::conditions;

/// What a cluster says while it is `Flapping` is as current as what others say.
const CURRENT: &str = "Flapping";

pub struct Reach {
    pub clusters: Arc<Cache>,
    pub world: World,
}

impl Reach {
    /// The names of all clusters that serve a workspace, those that take new work first.
    pub fn names(&self, workspace: &str) -> Vec<String> {
        let mut found: Vec<Arc<Value>> = Vec::new();
        for id in self.world.ancestry(workspace) {
            found.extend(self.clusters.list(&id, ""));
        }
        found.sort_by_key(|cluster| !is_schedulable(cluster));
        found.iter().map(|cluster| object::name(cluster).to_string()).collect()
    }

    /// How the cluster of this name and uid is; without a uid, the nearest of that name.
    pub fn health(&self, workspace: &str, name: &str, uid: &str) -> Health {
        let line = self.world.ancestry(workspace);
        let is_meant = |cluster: &Arc<Value>| uid.is_empty() || object::uid(cluster) == uid;
        let found = line.iter().find_map(|id| self.clusters.get(&Key::new(id, "", name)).filter(is_meant));
        found.map_or(Health::Missing, |cluster| health(&cluster))
    }
}

/// What counts of a cluster for the status of objects in it: a change of anything else is no reason to look at them again.
pub fn health(cluster: &Value) -> Health {
    match conditions::find(cluster, "Ready") {
        Some(ready) if ready["status"] != "True" && ready["reason"] != CURRENT => {
            let text = |field: &str| ready[field].as_str().unwrap_or_default();
            Health::NotReady(format!("the cluster is not ready: {}: {}", text("reason"), text("message")))
        }
        // Where nobody judges clusters, what they say counts.
        _ => Health::Ready,
    }
}

fn is_schedulable(cluster: &Value) -> bool {
    conditions::find(cluster, "Schedulable").is_none_or(|one| one["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_heard_now_counts() {
        let cluster = |status: &str, reason: &str| {
            json!({ "status": { "conditions": [
                { "type": "Ready", "status": status, "reason": reason, "message": "m" },
            ] } })
        };
        let not_ready = |reason: &str| Health::NotReady(format!("the cluster is not ready: {reason}: m"));
        for (cluster, expected) in [
            (json!({}), Health::Ready),
            (cluster("True", "Synced"), Health::Ready),
            (cluster("False", "Flapping"), Health::Ready),
            (cluster("False", "SyncerSilent"), not_ready("SyncerSilent")),
            (cluster("Unknown", "NeverHeardOf"), not_ready("NeverHeardOf")),
        ] {
            assert_eq!(health(&cluster), expected, "{cluster}");
        }
    }
}
