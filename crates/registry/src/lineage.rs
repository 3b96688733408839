//! Which workspace is below which: ids of workspaces are never used again, and none is ever moved.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_meta::{FieldError, FieldPath, Status};
use atoll_store::{Key, key};
use atoll_watch::Scope;
use bytes::Bytes;

use crate::Registry;
use crate::bootstrap::ROOT;
use crate::catalog::ATOLL;
use crate::row::{Place, Row};

/// Kept up to date with every write.
#[derive(Default)]
pub struct Lineage {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The one above, by id.
    parents: HashMap<String, String>,
    /// Its own name, by id.
    names: HashMap<String, String>,
    /// The id of what is under a key.
    ids: HashMap<Key, String>,
}

impl Lineage {
    /// Takes notice of a write.
    pub(crate) fn changed(&self, key: &Key, parts: &key::Parts<'_>, value: Option<&Bytes>) {
        if (parts.group, parts.resource) != (ATOLL, "workspaces") {
            return;
        }
        let object = value.and_then(|value| atoll_meta::json::parse(value).ok()).map(|parsed| parsed.value);
        let id =
            object.as_ref().and_then(|object| object["status"]["id"].as_str()).filter(|id| !id.is_empty());
        let mut known = self.known();
        match id {
            Some(id) => {
                known.parents.insert(id.to_string(), parts.workspace.to_string());
                known.names.insert(id.to_string(), parts.name.to_string());
                known.ids.insert(key.clone(), id.to_string());
            }
            None if value.is_none() => {
                if let Some(id) = known.ids.remove(key) {
                    known.parents.remove(&id);
                    known.names.remove(&id);
                }
            }
            None => {}
        }
    }

    /// A workspace and all above it, the nearest first.
    pub fn line(&self, workspace: &str) -> Vec<String> {
        let known = self.known();
        let mut line = vec![workspace.to_string()];
        let mut last = workspace;
        while let Some(parent) = known.parents.get(last) {
            line.push(parent.clone());
            last = parent;
            if last == ROOT {
                break;
            }
        }
        line
    }

    /// The path of a workspace, such as `root:org:team`; `None` while it, or one above it, is not known.
    pub fn path(&self, workspace: &str) -> Option<String> {
        let known = self.known();
        let mut names = Vec::new();
        let mut current = workspace;
        while current != ROOT {
            names.push(known.names.get(current)?.as_str());
            current = known.parents.get(current)?;
        }
        names.push(ROOT);
        names.reverse();
        Some(names.join(":"))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// A workspace and all above it, the nearest first.
    pub fn line(&self, workspace: &str) -> Vec<String> {
        self.placements.lineage.line(workspace)
    }

    /// Refuses a new Cluster whose name another one has that serves the same workspaces: a placement names one cluster, and
    /// what is on it must not be taken for what is on another. Held until the Cluster is written, nobody else can take the name.
    pub(crate) async fn name_cluster(
        &self,
        row: &Row,
        place: &Place<'_>,
    ) -> Result<Option<tokio::sync::MutexGuard<'_, ()>>, Status> {
        if (row.group.as_str(), row.resource.as_str()) != (ATOLL, "clusters") {
            return Ok(None);
        }
        let held = self.naming.lock().await;
        let line = self.line(place.workspace);
        let everywhere = Scope::new(ATOLL, "clusters", None, None);
        for other in self.snapshot().list(&everywhere, None).filter(|other| other.name() == place.name) {
            let Some(parts) = other.key.parts().filter(|parts| parts.workspace != place.workspace) else {
                continue;
            };
            let where_it_is = if line.iter().any(|above| above == parts.workspace) {
                "a workspace above has a cluster of this name, which can be used here as well"
            } else if self.line(parts.workspace).iter().any(|above| above == place.workspace) {
                "a workspace below has a cluster of this name, and what is placed on that would go to this one as well"
            } else {
                continue;
            };
            let message = format!("{where_it_is}; choose another name");
            let path = FieldPath::new("metadata").child("name");
            let error = FieldError::invalid(&path, place.name, message);
            return Err(Status::invalid(ATOLL, &row.kind, place.name, vec![error]));
        }
        Ok(Some(held))
    }

    /// How much is on a cluster that is registered in a workspace, or was and has not gone yet.
    pub fn count_placed(&self, workspace: &str, cluster: &str) -> usize {
        let is_there = |key: &Key| {
            let parts = key.parts();
            parts.and_then(|parts| self.home_of_cluster(parts.workspace, cluster)).as_deref()
                == Some(workspace)
        };
        self.placements.on(cluster).iter().filter(|key| is_there(key)).count()
    }

    /// The workspace whose Cluster a name means in another one: the nearest that has one.
    pub fn home_of_cluster(&self, workspace: &str, name: &str) -> Option<String> {
        let snapshot = self.snapshot();
        let has =
            |workspace: &String| snapshot.get(&Key::object(ATOLL, "clusters", workspace, "", name)).is_some();
        self.line(workspace).into_iter().find(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_leads_to_the_root() {
        let lineage = Lineage::default();
        let note = |parent: &str, name: &str, id: Option<&str>| {
            let key = Key::object(ATOLL, "workspaces", parent, "", name);
            let value = id.map(|id| Bytes::from(format!(r#"{{"status":{{"id":"{id}"}}}}"#)));
            lineage.changed(&key, &key.parts().unwrap(), value.as_ref());
        };
        note(ROOT, "a", Some("1"));
        note("1", "b", Some("2"));
        assert_eq!(lineage.line("2"), ["2", "1", ROOT]);
        assert_eq!(lineage.line(ROOT), [ROOT]);
        assert_eq!(lineage.path("2").as_deref(), Some("root:a:b"));
        assert_eq!((lineage.path(ROOT).as_deref(), lineage.path("3")), (Some(ROOT), None));
        assert_eq!(lineage.line("3"), ["3"], "nobody knows what is above it");
        note("1", "b", None);
        assert_eq!(lineage.line("2"), ["2"]);
    }
}
