//! A workspace that is being deleted goes in order: its children, what it holds, then itself.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_client::{Client, PatchType};
use atoll_informer::{Key, Look, Next, Queue, Resource, Sight, Tree, World, follow};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::WORKSPACE;
use crate::emptying::{Remaining, empty, is_layered};
use crate::resources::Served;

const FINALIZER: &str = "atoll.dev/contents";
/// Workspaces that are emptied together: enough for their writes to share commits.
const AT_ONCE: usize = 64;

/// A Workspace object: the id of the workspace that it stands for, that of its parent, and its name.
struct Target {
    id: String,
    parent: String,
    name: String,
}

impl Target {
    fn of(workspace: &Value) -> Option<Target> {
        Some(Target {
            id: workspace["status"]["id"].as_str()?.to_string(),
            parent: object::annotation(workspace, WORKSPACE)?.to_string(),
            name: object::name(workspace).to_string(),
        })
    }

    fn key(&self) -> Key {
        Key::new(&self.parent, "", &self.name)
    }
}

fn workspaces() -> Resource {
    Resource {
        group: "atoll.dev".into(),
        version: "v1alpha1".into(),
        plural: "workspaces".into(),
        kind: "Workspace".into(),
        namespaced: false,
    }
}

/// Keeps the tree up to date, and empties what is being deleted if that `is_on`.
pub async fn run(client: Client, tree: Arc<Tree>, is_on: bool) {
    let (world, queue) = (World::all(client, tree.clone()), Queue::new());
    let controller =
        Arc::new(Controller { world: world.clone(), workspaces: workspaces(), served: Served::default() });
    // Those that are being deleted, by id.
    let mut going: HashMap<String, Key> = HashMap::new();
    let following = follow(&world, Look::everywhere(&controller.workspaces), |sight| match sight {
        Sight::There(workspace) => {
            let Some(target) = Target::of(&workspace) else { return };
            tree.insert(&target.id, &target.parent, &target.name);
            if !tree.is_of(&target.id, &target.parent, &target.name) {
                return;
            }
            if is_on && object::is_being_deleted(&workspace) {
                queue.add(target.key());
                going.insert(target.id.clone(), target.key());
            }
        }
        Sight::Gone(workspace) => {
            let Some(target) = Target::of(&workspace) else { return };
            if !tree.is_of(&target.id, &target.parent, &target.name) {
                return;
            }
            tree.remove(&target.id);
            going.remove(&target.id);
            // A parent that waited for this child may go on.
            if let Some(parent) = going.get(&target.parent) {
                queue.add(parent.clone());
            }
        }
        Sight::All(..) => {}
    });
    let working = queue.work("workspaces", AT_ONCE, |key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    });
    tokio::join!(following, working);
}

struct Controller {
    world: World,
    workspaces: Resource,
    served: Served,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        match self.delete(key).await {
            Err(status) if status.reason() == "NotFound" => Ok(Next::Done),
            outcome => outcome,
        }
    }

    async fn delete(&self, key: &Key) -> Result<Next, Status> {
        let workspace = self.world.get(&self.workspaces, key).await?;
        let (Some(id), true) = (workspace["status"]["id"].as_str(), object::is_being_deleted(&workspace))
        else {
            return Ok(Next::Done);
        };
        let children = self.world.list(&self.workspaces, id, "", true).await?;
        if !children.is_empty() {
            for child in children.iter().filter(|child| !object::is_being_deleted(child)) {
                let child = self.world.path(&self.workspaces, &Key::new(id, "", object::name(child)))?;
                ignore_missing(self.world.client().delete(&child).await)?;
            }
            let count = children.len();
            self.report(key, &format!("waiting for {count} child workspaces to go")).await?;
            return Ok(Next::Again);
        }
        let remaining = self.empty(id).await?;
        if !remaining.is_empty() {
            let named = |plural: &str, group: &str| match group {
                "" => plural.to_string(),
                group => format!("{plural}.{group}"),
            };
            self.report(key, &remaining.content(named)).await?;
            return Ok(Next::Again);
        }
        // What was said meanwhile has made it another one.
        let workspace = self.world.get(&self.workspaces, key).await?;
        let kept: Vec<&str> = object::finalizers(&workspace).filter(|name| *name != FINALIZER).collect();
        let patch = json!({ "metadata": {
            "resourceVersion": object::resource_version(&workspace),
            "finalizers": if kept.is_empty() { Value::Null } else { json!(kept) },
        }});
        self.world.patch(&self.workspaces, key, "", &patch).await.map(|_| Next::Done)
    }

    /// First what lies in namespaces, then the namespaces and all else.
    async fn empty(&self, id: &str) -> Result<Remaining, Status> {
        let served = self.served.of(&self.world, id).await?;
        let others =
            |resource: &&Resource| resource.plural != "workspaces" && resource.plural != "namespaces";
        let (inside, outside): (Vec<&Resource>, Vec<&Resource>) =
            served.resources.iter().filter(others).partition(|resource| resource.namespaced);
        let mut remaining = Remaining::default();
        for resource in inside {
            remaining.count(resource, &empty(&self.world, resource, id, "").await?);
        }
        if !remaining.is_empty() {
            return Ok(remaining);
        }
        for resource in outside {
            remaining.count(resource, &empty(&self.world, resource, id, "").await?);
        }
        // Namespaces go through their own controller, which finds them empty.
        for resource in served.resources.iter().filter(|resource| resource.plural == "namespaces") {
            match self.namespaces(id, resource).await? {
                0 => {}
                left => remaining.add(resource, left),
            }
        }
        Ok(remaining)
    }

    async fn namespaces(&self, id: &str, resource: &Resource) -> Result<usize, Status> {
        let mut left = 0;
        let all = self.world.list(resource, id, "", true).await?;
        for item in all.iter().filter(|item| !is_layered(item)) {
            if !object::is_being_deleted(item) {
                let own = self.world.path(resource, &Key::new(id, "", object::name(item)))?;
                match self.world.client().delete(&own).await {
                    // Namespaces that never go are taken away with the workspace.
                    Err(status) if status.reason() == "Forbidden" => continue,
                    outcome => ignore_missing(outcome)?,
                }
            }
            left += 1;
        }
        Ok(left)
    }

    /// Says on the Workspace what it waits for.
    async fn report(&self, key: &Key, message: &str) -> Result<(), Status> {
        let patch = json!({ "status": { "message": message } });
        let path = format!("{}/status", self.world.path(&self.workspaces, key)?);
        ignore_missing(self.world.client().patch(&path, PatchType::Merge, &patch).await)
    }
}

fn ignore_missing(outcome: Result<Value, Status>) -> Result<(), Status> {
    match outcome {
        Err(status) if status.reason() == "NotFound" => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}
