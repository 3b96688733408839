//! The tree of workspaces. Workspace ids are never reused, and workspaces are never moved.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use atoll_meta::id::is_workspace_id;
use atoll_meta::{FieldError, FieldPath, Status};
use atoll_store::{Key, key};
use atoll_watch::Scope;
use bytes::Bytes;

use crate::Registry;
use crate::bootstrap::ROOT;
use crate::catalog::ATOLL;
use crate::row::{ObjectRef, Row};

/// Maximum number of ancestors of a workspace, including root.
const MAX_DEPTH: usize = 64;

/// The owner of each workspace id, updated with every write. An id belongs to one Workspace object: an object
/// with the id of another one, or with an invalid id, represents no workspace.
#[derive(Default)]
pub struct WorkspaceTree {
    ids: RwLock<WorkspaceIds>,
}

#[derive(Default)]
struct WorkspaceIds {
    /// The key of the Workspace object that owns an id. The key contains the parent workspace.
    owners: HashMap<String, Key>,
    /// The id of the Workspace object under a key.
    ids: HashMap<Key, String>,
}

impl WorkspaceTree {
    /// Handles a write.
    pub(crate) fn changed(&self, key: &Key, parts: &key::Parts<'_>, value: Option<&Bytes>) {
        if (parts.group, parts.resource) != (ATOLL, "workspaces") {
            return;
        }
        let object = value.and_then(|value| atoll_meta::json::parse(value).ok()).map(|parsed| parsed.value);
        let id = object.as_ref().and_then(|object| object["status"]["id"].as_str());
        let mut known = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        match id.filter(|id| is_workspace_id(id)) {
            Some(id) if known.owners.get(id).is_none_or(|owner| owner == key) => {
                known.owners.insert(id.to_string(), key.clone());
                known.ids.insert(key.clone(), id.to_string());
            }
            Some(id) => {
                tracing::error!(
                    key = &**key,
                    id,
                    "ignoring a Workspace whose status.id belongs to another Workspace"
                )
            }
            None if value.is_none() => {
                if let Some(id) = known.ids.remove(key) {
                    known.owners.remove(&id);
                }
            }
            None => {}
        }
    }

    /// Whether the Workspace object under `key` owns an id.
    pub fn is_owner(&self, id: &str, key: &Key) -> bool {
        self.known().owners.get(id) == Some(key)
    }

    /// A workspace and all its ancestors, nearest first.
    pub fn ancestry(&self, workspace: &str) -> Vec<String> {
        let known = self.known();
        let mut ancestry = vec![workspace.to_string()];
        let mut last = workspace;
        while let Some(parts) = known.owners.get(last).and_then(Key::parts) {
            // A cycle would never end.
            if ancestry.len() > known.owners.len() {
                break;
            }
            ancestry.push(parts.workspace.to_string());
            last = parts.workspace;
            if last == ROOT {
                break;
            }
        }
        ancestry
    }

    /// The path from a workspace to a descendant, such as `org:team`; empty if they are the same, `None` if
    /// it is not a descendant or is unknown.
    pub fn path(&self, from: &str, workspace: &str) -> Option<String> {
        let known = self.known();
        let (mut names, mut last) = (Vec::new(), workspace);
        while last != from {
            if names.len() == known.owners.len() {
                return None;
            }
            let parts = known.owners.get(last).filter(|_| last != ROOT)?.parts()?;
            names.push(parts.name);
            last = parts.workspace;
        }
        names.reverse();
        Some(names.join(":"))
    }

    fn known(&self) -> RwLockReadGuard<'_, WorkspaceIds> {
        self.ids.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// A workspace and all its ancestors, nearest first.
    pub fn ancestry(&self, workspace: &str) -> Vec<String> {
        self.placements.workspaces.ancestry(workspace)
    }

    /// The top-level ancestor of a workspace, which represents the tenant. For root, it is root itself.
    pub fn tenant_of(&self, workspace: &str) -> String {
        let mut ancestry = self.ancestry(workspace);
        ancestry.pop_if(|last| last == ROOT);
        ancestry.pop().unwrap_or_else(|| ROOT.to_string())
    }

    /// Refuses a workspace that is nested too deeply: limits apply to all ancestors, and every request walks
    /// up to the root.
    pub(crate) fn check_depth(&self, row: &Row, object_ref: &ObjectRef<'_>) -> Result<(), Status> {
        if self.ancestry(object_ref.workspace).len() < MAX_DEPTH {
            return Ok(());
        }
        let message = format!("workspaces cannot be nested more than {MAX_DEPTH} deep");
        let error = FieldError::forbidden(&FieldPath::new("metadata").child("name"), message);
        Err(Status::invalid(ATOLL, &row.kind, object_ref.name, vec![error]))
    }

    /// The path of a workspace, such as `root:org:team`; the id if it is unknown.
    pub fn workspace_path(&self, workspace: &str) -> String {
        match self.placements.workspaces.path(ROOT, workspace).as_deref() {
            Some("") => ROOT.to_string(),
            Some(path) => format!("{ROOT}:{path}"),
            None => workspace.to_string(),
        }
    }

    /// Refuses a new Cluster if a workspace above has a Cluster of the same name: that one can be used here
    /// too, and existing placements by name must not change their target. A Cluster in a workspace below does
    /// not matter, because placements contain uids. The returned guard reserves the name until the Cluster is
    /// written.
    pub(crate) async fn reserve_cluster_name(
        &self,
        row: &Row,
        object_ref: ObjectRef<'_>,
    ) -> Result<tokio::sync::MutexGuard<'_, ()>, Status> {
        let held = self.naming.lock().await;
        let line = self.ancestry(object_ref.workspace);
        let everywhere = Scope::new(ATOLL, "clusters", None, None);
        for other in self.snapshot().list(&everywhere, None).filter(|other| other.name() == object_ref.name) {
            let Some(parts) = other.key.parts().filter(|parts| parts.workspace != object_ref.workspace)
            else {
                continue;
            };
            if !line.iter().any(|above| above == parts.workspace) {
                continue;
            }
            let above = self.cluster(object_ref.workspace, object_ref.name, "");
            let serves = above.is_some_and(|above| self.cluster_serves(object_ref.workspace, &above));
            let here = if serves { " and can be used here as well" } else { "" };
            let message = format!(
                "a cluster of this name belongs to another workspace, above this one{here}; choose another name"
            );
            let path = FieldPath::new("metadata").child("name");
            let error = FieldError::invalid(&path, object_ref.name, message);
            return Err(Status::invalid(ATOLL, &row.kind, object_ref.name, vec![error]));
        }
        Ok(held)
    }

    /// Whether a share of an object in `workspace` is on the Cluster of this name and uid that is registered
    /// in `home`. A share without a uid refers to the nearest Cluster of that name. A uid alone is no proof: a
    /// Cluster has shares only of its registering workspace and of those below it.
    pub fn is_share_on(&self, home: &str, name: &str, uid: &str, workspace: &str, share_uid: &str) -> bool {
        match share_uid {
            "" => self.registering_workspace_of(workspace, name).as_deref() == Some(home),
            known => known == uid && self.ancestry(workspace).iter().any(|above| above == home),
        }
    }

    /// The registering workspace of the Cluster to which a name refers in a workspace: the nearest one.
    pub fn registering_workspace_of(&self, workspace: &str, name: &str) -> Option<String> {
        let snapshot = self.snapshot();
        let has =
            |workspace: &String| snapshot.get(&Key::object(ATOLL, "clusters", workspace, "", name)).is_some();
        self.ancestry(workspace).into_iter().find(has)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ancestors_end_at_the_root() {
        let tree = WorkspaceTree::default();
        let note = |parent: &str, name: &str, id: Option<&str>| {
            let key = Key::object(ATOLL, "workspaces", parent, "", name);
            let value = id.map(|id| Bytes::from(format!(r#"{{"status":{{"id":"{id}"}}}}"#)));
            tree.changed(&key, &key.parts().unwrap(), value.as_ref());
        };
        let [one, two, three] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbb2", "cccccccccccccc3"];
        note(ROOT, "a", Some(one));
        note(one, "b", Some(two));
        assert_eq!(tree.ancestry(two), [two, one, ROOT]);
        assert_eq!(tree.path(ROOT, two).as_deref(), Some("a:b"));
        assert_eq!(tree.ancestry(ROOT), [ROOT]);
        assert_eq!(tree.ancestry(three), [three], "its parent is unknown");
        assert_eq!(tree.path(one, two).as_deref(), Some("b"));
        assert_eq!(tree.path(two, two).as_deref(), Some(""));
        assert_eq!((tree.path(two, one), tree.path(ROOT, three)), (None, None));
        note(one, "b", None);
        assert_eq!(tree.ancestry(two), [two]);
    }

    #[tokio::test]
    async fn a_cluster_has_shares_of_workspaces_below_it() {
        let [org, team, other] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbb2", "cccccccccccccc3"];
        let workspace = |parent: &str, name: &str, id: &str| {
            let object = json!({ "metadata": { "name": name }, "status": { "id": id } });
            (Key::object(ATOLL, "workspaces", parent, "", name), object)
        };
        let cluster = json!({ "metadata": { "name": "east", "uid": "1" } });
        let registry = crate::testing::registry(&[
            workspace(ROOT, "org", org),
            workspace(org, "team", team),
            workspace(ROOT, "other", other),
            (Key::object(ATOLL, "clusters", org, "", "east"), cluster),
        ])
        .await;
        for (workspace, share_uid, expected) in [
            (org, "1", true),
            (team, "1", true),
            (team, "", true),
            (team, "2", false),
            (other, "1", false),
            (other, "", false),
            (ROOT, "1", false),
        ] {
            let is_on = registry.is_share_on(org, "east", "1", workspace, share_uid);
            assert_eq!(is_on, expected, "{workspace} {share_uid:?}");
        }
    }

    #[test]
    fn a_cycle_of_workspaces_ends() {
        let tree = WorkspaceTree::default();
        let [one, two] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbb2"];
        for (parent, id) in [(one, two), (two, one)] {
            let key = Key::object(ATOLL, "workspaces", parent, "", "a");
            let value = Bytes::from(format!(r#"{{"status":{{"id":"{id}"}}}}"#));
            tree.changed(&key, &key.parts().unwrap(), Some(&value));
        }
        assert_eq!(tree.path(ROOT, one), None);
        assert_eq!(tree.path(two, one).as_deref(), Some("a"));
        let line = tree.ancestry(one);
        assert!(line.iter().any(|above| above == two) && !line.iter().any(|above| above == ROOT), "{line:?}");
    }

    #[test]
    fn an_id_belongs_to_one_workspace() {
        let tree = WorkspaceTree::default();
        let key = |parent: &str, name: &str| Key::object(ATOLL, "workspaces", parent, "", name);
        let note = |key: &Key, id: Option<&str>| {
            let value = id.map(|id| Bytes::from(format!(r#"{{"status":{{"id":"{id}"}}}}"#)));
            tree.changed(key, &key.parts().unwrap(), value.as_ref());
        };
        let id = "aaaaaaaaaaaaaaa";
        let (first, second) = (key(ROOT, "a"), key(ROOT, "b"));
        note(&first, Some(id));
        note(&second, Some(id));
        assert!(tree.is_owner(id, &first) && !tree.is_owner(id, &second));
        note(&second, None);
        assert!(tree.is_owner(id, &first), "deleting the other object does not release the id");
        for reserved in
            [ROOT, "", "a", "AAAAAAAAAAAAAAA", "aaaaaaaaaaaaaaaa", "2aaaaaaaaaaaaaa", "aaaaaaaaaaaaaa/"]
        {
            note(&second, Some(reserved));
            assert!(!tree.is_owner(reserved, &second), "{reserved:?}");
        }
    }
}
