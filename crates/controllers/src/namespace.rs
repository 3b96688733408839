//! A namespace that is being deleted is emptied, then finalized; its conditions say what is left.

use std::sync::Arc;

use atoll_client::{Client, PatchType, WatchEvent};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::WORKSPACE;
use crate::emptying::{Remaining, empty};
use crate::resources::{Resource, Served};
use crate::retry::{Outcome, Queue};
use crate::watching;
use atoll_informer::Tree;

const FINALIZER: &str = "kubernetes";
/// Namespaces that are emptied together.
const AT_ONCE: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    workspace: String,
    name: String,
}

pub async fn run(client: Client, tree: Arc<Tree>) {
    let shared = Arc::new(Shared { client: client.clone(), tree, served: Served::default() });
    let queue = Queue::start(AT_ONCE, move |target: Target| {
        let shared = shared.clone();
        async move { shared.delete(&target).await }
    });
    let selector = "fieldSelector=status.phase%3DTerminating";
    let path = format!("/clusters/*/api/v1/namespaces?watch=true&allowWatchBookmarks=true&{selector}");
    watching::forever(&client, &path, "namespaces", |event| {
        if let WatchEvent::Added(namespace) | WatchEvent::Modified(namespace) = event
            && let Some(workspace) = object::annotation(&namespace, WORKSPACE)
        {
            queue.add(Target { workspace: workspace.into(), name: object::name(&namespace).into() });
        }
    })
    .await;
}

struct Shared {
    client: Client,
    tree: Arc<Tree>,
    served: Served,
}

impl Shared {
    async fn delete(&self, target: &Target) -> Outcome {
        // A workspace may be heard of after what is in it.
        let Some(path) = self.tree.path(&target.workspace) else { return Outcome::Again };
        match self.try_delete(&path, &target.name).await {
            Ok(outcome) => outcome,
            Err(status) if status.reason() == "NotFound" => Outcome::Done,
            Err(status) => {
                tracing::warn!(%status, workspace = path, namespace = target.name, "a namespace could not be emptied; trying again");
                Outcome::Again
            }
        }
    }

    async fn try_delete(&self, workspace: &str, name: &str) -> Result<Outcome, Status> {
        let own = format!("/clusters/{workspace}/api/v1/namespaces/{name}");
        let namespace = self.client.get(&own).await?;
        if !object::is_being_deleted(&namespace) {
            return Ok(Outcome::Done);
        }
        let resources = self.served.of(&self.client, workspace).await?;
        let inside: Vec<Resource> =
            resources.iter().filter(|resource| resource.namespaced).cloned().collect();
        let remaining = empty(&self.client, workspace, Some(name), &inside).await?;
        if !remaining.is_empty() {
            self.report(&own, &namespace, &remaining).await?;
            return Ok(Outcome::Again);
        }
        let mut finalized = namespace;
        let finalizers = finalized["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> = finalizers.into_iter().filter(|own| own != FINALIZER).collect();
        finalized["spec"]["finalizers"] = json!(kept);
        match self.client.update(&format!("{own}/finalize"), &finalized).await {
            Err(status) if status.reason() == "Conflict" => Ok(Outcome::Again),
            Err(status) if status.reason() == "NotFound" => Ok(Outcome::Done),
            outcome => outcome.map(|_| Outcome::Done),
        }
    }

    async fn report(&self, own: &str, namespace: &Value, remaining: &Remaining) -> Result<(), Status> {
        let now = object::deletion_timestamp(namespace).unwrap_or_default();
        let condition = |kind: &str, status: bool, reason: &str, message: String| {
            json!({
                "type": kind, "status": if status { "True" } else { "False" }, "lastTransitionTime": now,
                "reason": reason, "message": message,
            })
        };
        let waits = !remaining.finalizers.is_empty();
        let finalizers = if waits {
            remaining.finalizer_message()
        } else {
            "All content-preserving finalizers finished".into()
        };
        let conditions = json!([
            condition("NamespaceContentRemaining", true, "SomeResourcesRemain", remaining.content_message()),
            condition(
                "NamespaceFinalizersRemaining",
                waits,
                if waits { "SomeFinalizersRemain" } else { "ContentHasNoFinalizers" },
                finalizers
            ),
        ]);
        let patch = json!({ "status": { "conditions": conditions } });
        match self.client.patch(&format!("{own}/status"), PatchType::Merge, &patch).await {
            Err(status) if status.reason() == "NotFound" => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }
}
