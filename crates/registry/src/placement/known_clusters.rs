//! The registered Clusters in a small form, which is made once for each write: requests of all workspaces below read
//! them, and a Cluster can be large.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use atoll_fleet::cluster::ClusterView;
use atoll_store::key;
use bytes::Bytes;
use serde_json::Value;

use crate::catalog::ATOLL;

/// Clusters by workspace and name, updated with every write.
#[derive(Default)]
pub(super) struct KnownClusters {
    clusters: RwLock<HashMap<String, BTreeMap<String, Arc<Value>>>>,
}

impl KnownClusters {
    pub fn changed(&self, parts: &key::Parts<'_>, value: Option<&Bytes>) {
        if (parts.group, parts.resource) != (ATOLL, "clusters") {
            return;
        }
        let small = value.and_then(|value| {
            let cluster = atoll_meta::json::parse(value).ok()?.value;
            Some(Arc::new(ClusterView::of(&cluster).placement_fields()))
        });
        let mut clusters = self.clusters.write().unwrap_or_else(PoisonError::into_inner);
        match small {
            Some(small) => {
                let known = clusters.entry(parts.workspace.to_owned()).or_default();
                known.insert(parts.name.to_owned(), small);
            }
            None => {
                let Some(known) = clusters.get_mut(parts.workspace) else { return };
                known.remove(parts.name);
                if known.is_empty() {
                    clusters.remove(parts.workspace);
                }
            }
        }
    }

    pub fn get(&self, workspace: &str, name: &str) -> Option<Arc<Value>> {
        self.clusters().get(workspace)?.get(name).cloned()
    }

    /// Returns at most `most` Clusters of a workspace that `is_wanted`, by name.
    pub fn list(&self, workspace: &str, most: usize, is_wanted: impl Fn(&str) -> bool) -> Vec<Arc<Value>> {
        let clusters = self.clusters();
        let known = clusters.get(workspace).into_iter().flatten();
        known.filter(|(name, _)| is_wanted(name)).take(most).map(|(_, cluster)| cluster.clone()).collect()
    }

    pub fn contains(&self, workspace: &str, name: &str) -> bool {
        self.clusters().get(workspace).is_some_and(|known| known.contains_key(name))
    }

    fn clusters(&self) -> RwLockReadGuard<'_, HashMap<String, BTreeMap<String, Arc<Value>>>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use atoll_store::Key;
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_are_kept_in_a_small_form() {
        let known = KnownClusters::default();
        let note = |workspace: &str, name: &str, value: Option<Value>| {
            let key = Key::object(ATOLL, "clusters", workspace, "", name);
            let value = value.map(|value| Bytes::from(value.to_string()));
            known.changed(&key.parts().unwrap(), value.as_ref());
        };
        let annotations: BTreeMap<String, String> =
            (0..1000).map(|number| (format!("a{number}"), String::new())).collect();
        let metadata =
            json!({ "name": "east", "uid": "u", "annotations": annotations, "labels": { "tier": "gold" } });
        note(
            "w",
            "east",
            Some(json!({
                "metadata": metadata,
                "spec": { "access": "manage", "overrides": [1] },
                "status": { "region": "north", "free": [] },
            })),
        );
        note("w", "west", Some(json!({ "metadata": { "name": "west" } })));
        // Policies select Clusters by labels, and spread over regions.
        let expected = json!({
            "metadata": { "name": "east", "uid": "u", "labels": { "tier": "gold" } },
            "spec": { "access": "manage" },
            "status": { "region": "north" },
        });
        assert_eq!(known.get("w", "east").as_deref(), Some(&expected));
        assert!(known.get("w", "north").is_none() && known.get("v", "east").is_none());
        assert_eq!(known.list("w", 5, |name| name != "east").len(), 1);
        assert_eq!(known.list("w", 1, |_| true), [Arc::new(expected)]);
        note("w", "east", None);
        note("w", "west", None);
        assert!(known.list("w", 5, |_| true).is_empty() && known.clusters().is_empty());
    }
}
