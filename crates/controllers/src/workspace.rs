//! A workspace that is being deleted goes in order: its children, what it holds, then itself.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_client::{Client, PatchType, WatchEvent};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::emptying::{Remaining, empty};
use crate::resources::{Resource, Served};
use crate::retry::{Outcome, Queue};
use crate::{WORKSPACE, watching};
use atoll_informer::Tree;

const FINALIZER: &str = "atoll.dev/contents";
const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
/// Workspaces that are emptied together: enough for their writes to share commits.
const AT_ONCE: usize = 64;

/// A Workspace object: the id of the workspace that it stands for, that of its parent, and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    id: String,
    parent: String,
    name: String,
}

/// Keeps the tree up to date, and empties what is being deleted if that `is_on`.
pub async fn run(client: Client, tree: Arc<Tree>, is_on: bool) {
    let shared = Arc::new(Shared { client: client.clone(), tree: tree.clone(), served: Served::default() });
    let queue = Queue::start(AT_ONCE, move |target: Target| {
        let shared = shared.clone();
        async move { shared.delete(&target).await }
    });
    let path = format!("/clusters/*{WORKSPACES}?watch=true&allowWatchBookmarks=true");
    let mut deleting: HashMap<String, Target> = HashMap::new();
    watching::forever(&client, &path, "workspaces", |event| match event {
        WatchEvent::Added(workspace) | WatchEvent::Modified(workspace) => {
            let Some(target) = target(&workspace) else { return };
            tree.insert(&target.id, &target.parent, &target.name);
            if is_on && object::is_being_deleted(&workspace) {
                deleting.insert(target.id.clone(), target.clone());
                queue.add(target);
            }
        }
        WatchEvent::Deleted(workspace) => {
            let Some(target) = target(&workspace) else { return };
            tree.remove(&target.id);
            deleting.remove(&target.id);
            // A parent that waited for this child may go on.
            if let Some(parent) = deleting.get(&target.parent) {
                queue.add(parent.clone());
            }
        }
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
    })
    .await;
}

fn target(workspace: &Value) -> Option<Target> {
    Some(Target {
        id: workspace["status"]["id"].as_str()?.to_string(),
        parent: object::annotation(workspace, WORKSPACE)?.to_string(),
        name: object::name(workspace).to_string(),
    })
}

struct Shared {
    client: Client,
    tree: Arc<Tree>,
    served: Served,
}

impl Shared {
    async fn delete(&self, target: &Target) -> Outcome {
        let Some(path) = self.tree.path(&target.id) else { return Outcome::Done };
        match self.try_delete(target, &path).await {
            Ok(outcome) => outcome,
            Err(status) if status.reason() == "NotFound" => Outcome::Done,
            Err(status) => {
                tracing::warn!(%status, workspace = path, "a workspace could not be emptied; trying again");
                Outcome::Again
            }
        }
    }

    async fn try_delete(&self, target: &Target, path: &str) -> Result<Outcome, Status> {
        let own = format!("/clusters/{}{WORKSPACES}/{}", parent_path(path), target.name);
        let children = self.client.get(&format!("/clusters/{path}{WORKSPACES}")).await?;
        let children = children["items"].as_array().cloned().unwrap_or_default();
        if !children.is_empty() {
            for child in children.iter().filter(|child| !object::is_being_deleted(child)) {
                let child = format!("/clusters/{path}{WORKSPACES}/{}", object::name(child));
                ignore_missing(self.client.delete(&child).await)?;
            }
            let count = children.len();
            self.report(&own, &format!("waiting for {count} child workspaces to go")).await?;
            return Ok(Outcome::Again);
        }
        let remaining = self.empty(path).await?;
        if !remaining.is_empty() {
            self.report(&own, &remaining.content_message()).await?;
            return Ok(Outcome::Again);
        }
        let workspace = self.client.get(&own).await?;
        let kept: Vec<&str> = object::finalizers(&workspace).filter(|name| *name != FINALIZER).collect();
        let patch = json!({ "metadata": {
            "resourceVersion": object::resource_version(&workspace),
            "finalizers": if kept.is_empty() { Value::Null } else { json!(kept) },
        }});
        match self.client.patch(&own, PatchType::Merge, &patch).await {
            Err(status) if status.reason() == "Conflict" => Ok(Outcome::Again),
            outcome => ignore_missing(outcome).map(|_| Outcome::Done),
        }
    }

    /// First what lies in namespaces, then the namespaces and all else.
    async fn empty(&self, path: &str) -> Result<Remaining, Status> {
        let resources = self.served.of(&self.client, path).await?;
        let others = |resource: &&Resource| resource.name != "workspaces" && resource.name != "namespaces";
        let (inside, outside): (Vec<_>, Vec<_>) =
            resources.iter().filter(others).cloned().partition(|resource| resource.namespaced);
        let remaining = empty(&self.client, path, None, &inside).await?;
        if !remaining.is_empty() {
            return Ok(remaining);
        }
        let mut remaining = empty(&self.client, path, None, &outside).await?;
        let namespaces: Vec<Resource> =
            resources.iter().filter(|resource| resource.name == "namespaces").cloned().collect();
        // Namespaces go through their own controller, which finds them empty.
        let left = self.namespaces(path, &namespaces).await?;
        if left > 0 {
            remaining.objects.insert("namespaces".into(), left);
        }
        Ok(remaining)
    }

    async fn namespaces(&self, path: &str, resources: &[Resource]) -> Result<usize, Status> {
        let mut left = 0;
        for resource in resources {
            let list =
                self.client.get(&format!("/clusters/{path}{}/{}", resource.base, resource.name)).await?;
            let items = list["items"].as_array().into_iter().flatten();
            for item in items.filter(|item| !crate::emptying::is_layered(item)) {
                let own = crate::emptying::object_path(path, resource, item);
                if !object::is_being_deleted(item) {
                    match self.client.delete(&own).await {
                        // Namespaces that never go are taken away with the workspace.
                        Err(status) if status.reason() == "Forbidden" => continue,
                        outcome => ignore_missing(outcome)?,
                    }
                }
                left += 1;
            }
        }
        Ok(left)
    }

    /// Says on the Workspace what it waits for.
    async fn report(&self, own: &str, message: &str) -> Result<(), Status> {
        let patch = json!({ "status": { "message": message } });
        ignore_missing(self.client.patch(&format!("{own}/status"), PatchType::Merge, &patch).await)
    }
}

fn parent_path(path: &str) -> &str {
    path.rsplit_once(':').map_or("root", |(parent, _)| parent)
}

fn ignore_missing(outcome: Result<Value, Status>) -> Result<(), Status> {
    match outcome {
        Err(status) if status.reason() == "NotFound" => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}
