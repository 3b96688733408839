//! Deletes workspaces in order: children, content, then the Workspace object.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use atoll_client::{Client, PatchType};
use atoll_fleet::Placement;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_informer::{ApiScope, Key, ListWatch, ListWatchEvent, Next, Queue, Resource, Tree, list_and_watch};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::WORKSPACE;
use crate::deletion::content::{Remaining, delete_all, is_not_stored};
use crate::shared::deletable_resources::DeletableResources;

const FINALIZER: &str = "atoll.dev/contents";
/// Number of workspaces that are deleted concurrently: enough for their writes to share commits.
const WORKERS: usize = 64;

/// A Workspace object: its workspace id, that of its parent, and its name.
struct WorkspaceRef {
    id: String,
    parent: String,
    name: String,
}

impl WorkspaceRef {
    fn of(workspace: &Value) -> Option<WorkspaceRef> {
        Some(WorkspaceRef {
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

/// Keeps the workspace tree up to date, and deletes the content of deleted workspaces if `is_on`.
pub async fn run(client: Client, tree: Arc<Tree>, is_on: bool) {
    let (api, queue) = (ApiScope::all_workspaces(client, tree.clone()), Queue::new());
    let controller = Arc::new(Controller {
        api: api.clone(),
        workspaces: workspaces(),
        served: DeletableResources::default(),
    });
    // Workspaces that are being deleted, by id.
    let mut deleting: HashMap<String, Key> = HashMap::new();
    let following = list_and_watch(&api, ListWatch::all(&controller.workspaces), |event| match event {
        ListWatchEvent::Upserted(workspace) => {
            let Some(target) = WorkspaceRef::of(&workspace) else { return };
            tree.insert(&target.id, &target.parent, &target.name);
            if !tree.is_of(&target.id, &target.parent, &target.name) {
                return;
            }
            if is_on && object::is_being_deleted(&workspace) {
                queue.add(target.key());
                deleting.insert(target.id.clone(), target.key());
            }
        }
        ListWatchEvent::Deleted(workspace) => {
            let Some(target) = WorkspaceRef::of(&workspace) else { return };
            if !tree.is_of(&target.id, &target.parent, &target.name) {
                return;
            }
            tree.remove(&target.id);
            deleting.remove(&target.id);
            // A parent that waits for this child may continue.
            if let Some(parent) = deleting.get(&target.parent) {
                queue.add(parent.clone());
            }
        }
        ListWatchEvent::Listed(..) => {}
    });
    let working = queue.work("workspaces", WORKERS, |key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    });
    tokio::join!(following, working);
}

struct Controller {
    api: ApiScope,
    workspaces: Resource,
    served: DeletableResources,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        match self.delete(key).await {
            Err(status) if status.reason() == "NotFound" => Ok(Next::Done),
            outcome => outcome,
        }
    }

    async fn delete(&self, key: &Key) -> Result<Next, Status> {
        let workspace = self.api.get(&self.workspaces, key).await?;
        let (Some(id), true) = (workspace["status"]["id"].as_str(), object::is_being_deleted(&workspace))
        else {
            return Ok(Next::Done);
        };
        let children = self.api.list(&self.workspaces, id, "", true).await?;
        if !children.is_empty() {
            for child in children.iter().filter(|child| !object::is_being_deleted(child)) {
                let child = self.api.path(&self.workspaces, &Key::new(id, "", object::name(child)))?;
                ignore_missing(self.api.client().delete(&child).await)?;
            }
            self.report(key, &waiting_for_children(children.len())).await?;
            return Ok(Next::Again);
        }
        let remaining = self.delete_content(id).await?;
        if !remaining.is_empty() {
            let named = |plural: &str, group: &str| match group {
                "" => plural.to_string(),
                group => format!("{plural}.{group}"),
            };
            let content = remaining.content_message(named);
            let message = match remaining.clusters_message() {
                Some(clusters) => format!("{content}. {clusters}"),
                None => content,
            };
            self.report(key, &message).await?;
            return Ok(Next::Again);
        }
        // The status updates have changed the resource version.
        let workspace = self.api.get(&self.workspaces, key).await?;
        let kept: Vec<&str> = object::finalizers(&workspace).filter(|name| *name != FINALIZER).collect();
        let patch = json!({ "metadata": {
            "resourceVersion": object::resource_version(&workspace),
            "finalizers": if kept.is_empty() { Value::Null } else { json!(kept) },
        }});
        self.api.patch(&self.workspaces, key, "", &patch).await.map(|_| Next::Done)
    }

    /// Deletes the content of namespaces first, then the namespaces and cluster-scoped objects. The
    /// workspace's Clusters, the roles of their syncers and the content of `atoll-system` are deleted last,
    /// because syncers need them to remove placed objects.
    async fn delete_content(&self, id: &str) -> Result<Remaining, Status> {
        let served = self.served.of(&self.api, id).await?;
        let others =
            |resource: &&Resource| resource.plural != "workspaces" && resource.plural != "namespaces";
        let (inside, outside): (Vec<&Resource>, Vec<&Resource>) =
            served.resources.iter().filter(others).partition(|resource| resource.namespaced);
        let (last, outside): (Vec<&Resource>, Vec<&Resource>) =
            outside.into_iter().partition(|resource| is_needed_by_syncers(resource));
        let namespaces = || served.resources.iter().filter(|resource| resource.plural == "namespaces");
        let mut remaining = Remaining::default();
        for resource in &inside {
            remaining.count(resource, &self.delete_except_system(resource, id).await?);
        }
        if !remaining.is_empty() {
            return Ok(remaining);
        }
        for resource in outside {
            remaining.count(resource, &delete_all(&self.api, resource, id, "").await?);
        }
        // Namespaces are deleted by their own controller, which finds them empty.
        for resource in namespaces() {
            self.delete_namespaces(id, resource, false, &mut remaining).await?;
        }
        if !remaining.is_empty() {
            return Ok(remaining);
        }
        for resource in inside.into_iter().chain(last) {
            remaining.count(resource, &delete_all(&self.api, resource, id, "").await?);
        }
        for resource in namespaces() {
            self.delete_namespaces(id, resource, true, &mut remaining).await?;
        }
        Ok(remaining)
    }

    /// Deletes all objects of a resource, except those in Atoll's system namespace.
    async fn delete_except_system(&self, resource: &Resource, id: &str) -> Result<Vec<Value>, Status> {
        let is_own = |item: &Value| object::namespace(item) == SYSTEM_NAMESPACE;
        let has_own = match self.api.list(resource, id, SYSTEM_NAMESPACE, true).await {
            Ok(items) => items.iter().any(|item| !is_not_stored(resource, item)),
            Err(status) if matches!(status.code(), 404 | 405) => false,
            Err(status) => return Err(status),
        };
        if !has_own {
            return delete_all(&self.api, resource, id, "").await;
        }
        let all = self.api.list(resource, id, "", true).await?;
        let mut left = Vec::new();
        let names: BTreeSet<&str> = all
            .iter()
            .filter(|item| !is_own(item) && !is_not_stored(resource, item))
            .map(object::namespace)
            .collect();
        for namespace in names {
            left.extend(delete_all(&self.api, resource, id, namespace).await?);
        }
        Ok(left)
    }

    /// Deletes namespaces; Atoll's system namespace only `with_system`.
    async fn delete_namespaces(
        &self,
        id: &str,
        resource: &Resource,
        with_system: bool,
        remaining: &mut Remaining,
    ) -> Result<(), Status> {
        let all = self.api.list(resource, id, "", true).await?;
        let is_deleted_now = |item: &&Value| {
            !is_not_stored(resource, item) && (with_system || object::name(item) != SYSTEM_NAMESPACE)
        };
        for item in all.iter().filter(is_deleted_now) {
            if !object::is_being_deleted(item) {
                let own = self.api.path(resource, &Key::new(id, "", object::name(item)))?;
                match self.api.client().delete(&own).await {
                    // Namespaces that cannot be deleted are removed with the workspace.
                    Err(status) if status.reason() == "Forbidden" => continue,
                    outcome => ignore_missing(outcome)?,
                }
            }
            remaining.add(resource, 1);
            Placement::of(item).names().for_each(|cluster| remaining.add_cluster(cluster));
        }
        Ok(())
    }

    /// Reports in the Workspace's status what it waits for.
    async fn report(&self, key: &Key, message: &str) -> Result<(), Status> {
        let patch = json!({ "status": { "message": message } });
        let path = format!("{}/status", self.api.path(&self.workspaces, key)?);
        ignore_missing(self.api.client().patch(&path, PatchType::Merge, &patch).await)
    }
}

/// Whether the syncers of the workspace's Clusters need objects of this resource: the Clusters, and the roles
/// that allow an agent to report.
fn is_needed_by_syncers(resource: &Resource) -> bool {
    let is_cluster = resource.group == "atoll.dev" && resource.plural == "clusters";
    is_cluster || resource.group == "rbac.authorization.k8s.io"
}

fn ignore_missing(outcome: Result<Value, Status>) -> Result<(), Status> {
    match outcome {
        Err(status) if status.reason() == "NotFound" => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

/// The message of a Workspace whose children are not deleted yet.
fn waiting_for_children(count: usize) -> String {
    let workspaces = if count == 1 { "workspace" } else { "workspaces" };
    format!("waiting for {count} child {workspaces} to be deleted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_counted_in_words() {
        assert_eq!(waiting_for_children(1), "waiting for 1 child workspace to be deleted");
        assert_eq!(waiting_for_children(2), "waiting for 2 child workspaces to be deleted");
    }
}
