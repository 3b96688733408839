//! Namespaces in the cluster: which stands for which one above. Fixed once made, and said by the namespace itself.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_client::PatchType;
use atoll_fleet::{marks, namespaces};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::below::Below;

const NAMESPACES: &str = "/api/v1/namespaces";
/// Every cluster has it, and nobody can make it.
const DEFAULT: &str = "default";

/// Namespaces above by workspace and name, with the names of those below.
#[derive(Default)]
pub struct Spaces {
    known: Mutex<HashMap<(String, String), String>>,
}

/// Where objects of a namespace are to go.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    In(String),
    /// Nowhere: what is wrong, for people.
    Taken(String),
}

impl Spaces {
    /// Reads what namespaces in the cluster say of themselves.
    pub async fn load(&self, below: &Below, control_plane: &str) -> Result<(), Status> {
        let (mut found, mut token) = (HashMap::new(), String::new());
        loop {
            let page = below.list_metadata(&format!("{NAMESPACES}?limit=500&continue={token}")).await?;
            for namespace in page["items"].as_array().into_iter().flatten() {
                if let Some(origin) = origin(namespace, control_plane) {
                    found.insert(origin, object::name(namespace).to_string());
                }
            }
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_string();
            if token.is_empty() {
                *self.known() = found;
                return Ok(());
            }
        }
    }

    /// The namespace below, if it is known to be there.
    pub fn get(&self, workspace: &str, namespace: &str) -> Option<String> {
        self.known().get(&(workspace.to_string(), namespace.to_string())).cloned()
    }

    /// Workspaces that have a namespace there.
    pub fn workspaces(&self) -> HashSet<String> {
        self.known().keys().map(|(workspace, _)| workspace.clone()).collect()
    }

    /// It may be there no longer.
    pub fn forget(&self, workspace: &str, namespace: &str) {
        self.known().remove(&(workspace.to_string(), namespace.to_string()));
    }

    /// The namespace below, which is made if there is none.
    pub async fn ensure(
        &self,
        below: &Below,
        control_plane: &str,
        workspace: &str,
        namespace: &str,
        is_only_workspace: bool,
    ) -> Result<Place, Status> {
        if let Some(known) = self.get(workspace, namespace) {
            return Ok(Place::In(known));
        }
        let name = namespaces::below(control_plane, workspace, namespace, is_only_workspace);
        let path = format!("{NAMESPACES}/{name}");
        let found = match below.get(&path).await? {
            Some(found) => found,
            None => {
                let made = json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {
                        "name": name, "labels": { (marks::CONTROL_PLANE): control_plane },
                        "annotations": { (marks::NAMESPACE): locator(control_plane, workspace, namespace) },
                    },
                });
                below.create(&format!("{NAMESPACES}?fieldManager={}", marks::MANAGER), &made).await?
            }
        };
        if object::is_being_deleted(&found) {
            return Ok(Place::Taken(format!("namespace {name:?} is being deleted in the cluster")));
        }
        match verify(&found, control_plane, workspace, namespace) {
            Verdict::Ours => {}
            Verdict::Free => {
                let patch = json!({"metadata": {
                    "resourceVersion": object::resource_version(&found),
                    "annotations": { (marks::NAMESPACE): locator(control_plane, workspace, namespace) },
                }});
                let path = format!("{path}?fieldManager={}", marks::MANAGER);
                below.patch(&path, PatchType::Merge, &patch).await?;
            }
            Verdict::Taken(complaint) => return Ok(Place::Taken(complaint)),
        }
        self.known().insert((workspace.to_string(), namespace.to_string()), name.clone());
        Ok(Place::In(name))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(String, String), String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a namespace says of where it is from.
fn locator(control_plane: &str, workspace: &str, namespace: &str) -> String {
    namespaces::locator(control_plane, workspace, namespace)
}

/// The workspace and the name above, if it is of this control plane.
fn origin(found: &Value, control_plane: &str) -> Option<(String, String)> {
    let text = object::annotation(found, marks::NAMESPACE)?;
    let said: Value = serde_json::from_str(text).ok()?;
    let part = |field: &str| said[field].as_str();
    (part("controlPlane")? == control_plane)
        .then_some((part("workspace")?.to_string(), part("namespace")?.to_string()))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Ours,
    /// Nobody's, and anybody may use it.
    Free,
    Taken(String),
}

fn verify(found: &Value, control_plane: &str, workspace: &str, namespace: &str) -> Verdict {
    let name = object::name(found);
    if origin(found, control_plane) == Some((workspace.to_string(), namespace.to_string())) {
        return Verdict::Ours;
    }
    match object::annotation(found, marks::NAMESPACE) {
        None if name == DEFAULT => Verdict::Free,
        None => Verdict::Taken(format!(
            "namespace {name:?} exists in the cluster and was not made by Atoll; adopt it or rename one of the two"
        )),
        Some(_) => Verdict::Taken(format!("namespace {name:?} in the cluster stands for another one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_used_by_whom_it_names() {
        let namespace = |name: &str, said: Option<String>| {
            let mut found = json!({"metadata": {"name": name}});
            if let Some(said) = said {
                object::set_annotation(&mut found, marks::NAMESPACE, &said);
            }
            found
        };
        let ours = locator("cp", "w", "shop");
        assert_eq!(verify(&namespace("shop", Some(ours.clone())), "cp", "w", "shop"), Verdict::Ours);
        assert_eq!(verify(&namespace(DEFAULT, None), "cp", "w", DEFAULT), Verdict::Free);
        for (found, control_plane, workspace) in [
            (namespace("shop", None), "cp", "w"),
            (namespace("shop", Some(ours.clone())), "cp", "v"),
            (namespace("shop", Some(ours)), "other", "w"),
            (namespace("shop", Some("nonsense".into())), "cp", "w"),
            (namespace(DEFAULT, Some("nonsense".into())), "cp", "w"),
        ] {
            let verdict = verify(&found, control_plane, workspace, "shop");
            assert!(matches!(verdict, Verdict::Taken(_)), "{found} {verdict:?}");
        }
    }
}
