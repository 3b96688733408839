//! Namespace controller: deletes the content of a namespace that is being deleted, pods first, and finalizes
//! it. Conditions report what remains.

// upstream: pkg/controller/namespace/namespace_controller.go
// upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go

mod conditions;

use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_informer::{
    ApiScope, Clock, Key, ListWatch, ListWatchEvent, Next, Queue, Resource, list_and_watch, resources,
};
use atoll_meta::{Status, object, time};
use serde_json::{Value, json};

use crate::context::Context;
use crate::deletion::content::delete_all;
use crate::shared::deletable_resources::DeletableResources;
use crate::shared::pods;
use conditions::DeletionResult;

const FINALIZER: &str = "kubernetes";
/// Number of namespaces that are deleted concurrently.
const WORKERS: usize = 32;

pub async fn run(context: Context) {
    let (api, queue) = (context.api().clone(), Queue::new());
    let controller =
        Arc::new(Controller { api, clock: context.clock.clone(), served: DeletableResources::default() });
    let list_watch =
        ListWatch::all(&resources::NAMESPACES).field_selector("status.phase=Terminating").metadata_only();
    let following = list_and_watch(context.api(), list_watch, |event| {
        if let ListWatchEvent::Upserted(namespace) = event {
            queue.add(Key::of(&namespace));
        }
    });
    let working = queue.work("namespaces", WORKERS, |key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    });
    tokio::join!(following, working);
}

struct Controller {
    api: ApiScope,
    clock: Arc<dyn Clock>,
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
        let namespace = self.api.get(&resources::NAMESPACES, key).await?;
        if !object::is_being_deleted(&namespace) {
            return Ok(Next::Done);
        }
        let is_finalized = finalizers(&namespace).next().is_none();
        let mut result = match is_finalized {
            true => DeletionResult::default(),
            false => self.delete_content(key, &namespace).await?,
        };
        // Only clusters that may still have the namespace can block it now.
        if result.is_clean() {
            Placement::of(&namespace).names().for_each(|cluster| result.remaining.add_cluster(cluster));
        }
        if is_finalized {
            return self.report(key, &namespace, &result).await.map(|()| Next::Done);
        }
        self.report(key, &namespace, &result).await?;
        if !result.is_clean() {
            return Ok(Next::Again);
        }
        let mut finalized = namespace;
        let kept: Vec<Value> = finalizers(&finalized).filter(|own| **own != FINALIZER).cloned().collect();
        finalized["spec"]["finalizers"] = json!(kept);
        self.api.update_subresource(&resources::NAMESPACES, "finalize", &finalized).await.map(|_| Next::Done)
    }

    /// Requests the deletion of all content: pods first, because they may need the rest to terminate
    /// gracefully.
    async fn delete_content(&self, key: &Key, namespace: &Value) -> Result<DeletionResult, Status> {
        let served = self.served.of(&self.api, &key.workspace).await?;
        let mut result = DeletionResult::new(&served.failures);
        let inside: Vec<&Resource> = served.resources.iter().filter(|own| own.namespaced).collect();
        let (first, others): (Vec<&Resource>, Vec<&Resource>) =
            inside.into_iter().partition(|own| own.group.is_empty() && own.plural == "pods");
        for resource in first {
            if self.delete_resource(key, resource, namespace, &mut result).await? {
                return Ok(result);
            }
        }
        for resource in others {
            self.delete_resource(key, resource, namespace, &mut result).await?;
        }
        Ok(result)
    }

    /// Deletes the objects of a resource. Returns whether some remain.
    async fn delete_resource(
        &self,
        key: &Key,
        resource: &Resource,
        namespace: &Value,
        result: &mut DeletionResult,
    ) -> Result<bool, Status> {
        let left = match delete_all(&self.api, resource, &key.workspace, &key.name).await {
            Ok(left) => left,
            // An error of one resource does not block the deletion of others.
            Err(status) if !matches!(status.code(), 401 | 503) => {
                result.failed.push(status.message().to_string());
                return Ok(false);
            }
            Err(status) => return Err(status),
        };
        if left.is_empty() {
            return Ok(false);
        }
        let is_held = left
            .iter()
            .any(|item| object::finalizers(item).next().is_some() || !Placement::of(item).is_empty());
        if !is_held && !self.has_terminating_pods(key, resource, namespace).await? {
            result.failed.push(conditions::unexpected(&key.name, resource));
        }
        result.remaining.count(resource, &left);
        Ok(true)
    }

    /// Whether pods are still within their grace period.
    async fn has_terminating_pods(
        &self,
        key: &Key,
        resource: &Resource,
        namespace: &Value,
    ) -> Result<bool, Status> {
        if !resource.group.is_empty() || resource.plural != "pods" {
            return Ok(false);
        }
        let running = self.api.list(resource, &key.workspace, &key.name, false).await?;
        let running = running.iter().filter(|pod| !pods::is_terminal(pod));
        let longest = running.filter_map(|pod| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).max();
        let since = object::deletion_timestamp(namespace).and_then(|text| time::parse(text).ok());
        let waited = since.map_or(0, |since| self.clock.now().seconds - since.seconds);
        Ok(waited < longest.unwrap_or(0))
    }

    /// Writes the conditions, unless the namespace is about to be gone.
    async fn report(&self, key: &Key, namespace: &Value, result: &DeletionResult) -> Result<(), Status> {
        let stays = finalizers(namespace).any(|own| *own != FINALIZER)
            || object::finalizers(namespace).next().is_some()
            || !Placement::of(namespace).is_empty();
        if result.is_clean() && !stays {
            return Ok(());
        }
        let mut updated = namespace.clone();
        if !result.set_conditions(&mut updated, &self.clock.now().to_time()) {
            return Ok(());
        }
        let patch = json!({ "status": { "conditions": updated["status"]["conditions"] } });
        match self.api.patch(&resources::NAMESPACES, key, "status", &patch).await {
            Err(status) if status.reason() != "NotFound" => Err(status),
            _ => Ok(()),
        }
    }
}

fn finalizers(namespace: &Value) -> impl Iterator<Item = &Value> {
    namespace["spec"]["finalizers"].as_array().into_iter().flatten()
}
