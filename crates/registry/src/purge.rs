//! Removes everything that is stored under the id of a deleted workspace.

use std::collections::HashSet;

use atoll_meta::Status;
use atoll_store::{Condition, Key, Write, WriteError};
use atoll_watch::Facts;

use crate::catalog::ATOLL;
use crate::{Registry, unavailable};

impl Registry {
    /// Removes every key of a workspace. Its objects are gone by now; tombstones and copies of bootstrap
    /// objects remain, which are no longer visible.
    ///
    /// If the finalizer was removed by hand, objects and child workspaces may remain: they are removed too,
    /// and so are keys of definitions, dialects and other profiles. Only the id in the key matters.
    async fn purge(&self, workspace: &str, seen: &mut HashSet<String>) -> Result<(), Status> {
        // A cycle of workspaces would never end.
        if workspace.is_empty() || !seen.insert(workspace.to_string()) {
            return Ok(());
        }
        for key in self.snapshot().keys_of_workspace(workspace) {
            let is_child =
                key.parts().is_some_and(|parts| (parts.group, parts.resource) == (ATOLL, "workspaces"));
            if is_child && let Some(id) = self.child(&key) {
                Box::pin(self.purge(&id, seen)).await?;
            }
            self.remove(key).await?;
        }
        Ok(())
    }

    /// Removes every key of the workspace that a Workspace object owns. The id of another object is not
    /// touched.
    pub(crate) async fn purge_child(&self, key: &Key) -> Result<(), Status> {
        match self.child(key) {
            Some(id) => self.purge(&id, &mut HashSet::new()).await,
            None => Ok(()),
        }
    }

    /// The id that a Workspace object owns.
    fn child(&self, key: &Key) -> Option<String> {
        let id = self.snapshot().get(key).map(|child| child.field("status.id").to_string());
        id.filter(|id| self.placements.workspaces.is_owner(id, key))
    }

    /// Removes a key; succeeds if it does not exist.
    pub(crate) async fn remove(&self, key: Key) -> Result<(), Status> {
        let hint = Some(Facts::none() as atoll_store::WriteHint);
        let write = Write { key, expect: Condition::Present, value: None, guards: Vec::new(), hint };
        match self.store.write(write).await {
            Ok(_) | Err(WriteError::Unmet { .. }) => Ok(()),
            Err(WriteError::Unavailable(cause)) => Err(unavailable(&cause)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{keys, registry};

    fn workspace(parent: &str, name: &str, id: &str) -> (Key, Value) {
        let object =
            json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "status": { "id": id } });
        (Key::object(ATOLL, "workspaces", parent, "", name), object)
    }

    #[tokio::test]
    async fn all_keys_of_a_workspace_are_removed() {
        let [one, two, three] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb", "ccccccccccccccc"];
        let mut objects = vec![workspace("root", "a", one), workspace(one, "b", two)];
        for id in [one, two, three] {
            for key in [
                Key::custom("fleet.example.com", "clusters", id, "", "left"),
                Key::custom("example.com", "widgets", id, "default", "left"),
                Key::object("", "configmaps", id, "default", "left"),
                Key::object("apps", "deployments", id, "default", "left"),
                Key::object("internal.atoll.dev", "nodeports", id, "", "30000"),
            ] {
                objects.push((key, json!({ "apiVersion": "v1", "kind": "Any" })));
            }
        }
        let registry = registry(&objects).await;
        let kept = keys(&registry, three);
        assert_eq!(kept.len(), 5);
        registry.purge_child(&Key::object(ATOLL, "workspaces", "root", "", "a")).await.unwrap();
        registry.cache.wait_for(registry.store.revision().await.unwrap()).await;
        assert!(keys(&registry, one).is_empty() && keys(&registry, two).is_empty());
        assert_eq!(keys(&registry, three), kept, "other workspaces are not changed");
    }

    #[tokio::test]
    async fn a_cycle_of_workspaces_is_purged() {
        let [one, two] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb"];
        let registry = registry(&[workspace(two, "a", one), workspace(one, "b", two)]).await;
        registry.purge_child(&Key::object(ATOLL, "workspaces", two, "", "a")).await.unwrap();
        registry.cache.wait_for(registry.store.revision().await.unwrap()).await;
        assert!(keys(&registry, one).is_empty() && keys(&registry, two).is_empty());
    }
}
