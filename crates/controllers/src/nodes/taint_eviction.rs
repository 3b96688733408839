//! Taint eviction: deletes pods that do not tolerate a NoExecute taint of their node, immediately or after
//! `tolerationSeconds`.
//!
//! ```text
//!   Nodes, Pods ─► queue of pods ─► tolerations ─┬─ not tolerated: condition, event, delete
//!                                                ├─ tolerated for some time: the same, later
//!                                                └─ tolerated: a planned deletion is cancelled
//! ```

// upstream: pkg/controller/tainteviction/taint_eviction.go

mod tolerations;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::{Cache, Change, DeleteOptions, Key, Next, Queue, Recorder, resources};
use atoll_meta::views::{NodeView, PodView, TaintView};
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::context::Context;
use crate::nodes::{self, NO_EXECUTE};
use crate::shared::conditions;
use tolerations::Toleration;

/// Number of pods that are processed concurrently.
const WORKERS: usize = 8;
const NAME: &str = "taint-eviction-controller";

pub async fn run(context: Context) {
    let pods = context.informers.of(&resources::PODS);
    let controller = Arc::new(Controller {
        nodes: context.informers.of(&resources::NODES),
        by_node: pods.index(nodes::by_node),
        pods,
        planned: Mutex::default(),
        recorder: context.events.recorder(NAME),
        context,
    });
    controller.nodes.synced().await;
    controller.pods.synced().await;
    let queue = Queue::new();
    controller.nodes.listen({
        let (queue, controller) = (queue.clone(), controller.clone());
        move |change| {
            if affects_pods(change) {
                for pod in controller.pods.by_index(controller.by_node, &change.key.to_string()) {
                    queue.add(Key::of(&pod));
                }
            }
        }
    });
    controller.pods.listen({
        let queue = queue.clone();
        move |change| {
            if is_relevant(change) {
                queue.add(change.key.clone());
            }
        }
    });
    queue
        .work("taint eviction", WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.sync(&key).await }
        })
        .await;
}

/// Returns the NoExecute taints of a node.
fn no_execute_taints(node: &Value) -> Vec<TaintView<'_>> {
    NodeView::of(node).taints().filter(|taint| taint.effect() == NO_EXECUTE).collect()
}

fn affects_pods(change: &Change) -> bool {
    match (&change.old, &change.new) {
        // A planned deletion stays when the node is deleted.
        (_, None) => false,
        (None, Some(new)) => !no_execute_taints(new).is_empty(),
        (Some(old), Some(new)) => no_execute_taints(old) != no_execute_taints(new),
    }
}

fn is_relevant(change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let (old, new) = (PodView::of(old).spec(), PodView::of(new).spec());
    old.node_name() != new.node_name() || !old.tolerations().eq(new.tolerations())
}

/// A planned deletion.
#[derive(Clone, Copy)]
enum PlannedDeletion {
    At(Instant),
    /// The pod was deleted; no further action while its node is unchanged.
    Done,
}

struct Controller {
    nodes: Arc<Cache>,
    pods: Arc<Cache>,
    by_node: usize,
    planned: Mutex<HashMap<Key, PlannedDeletion>>,
    recorder: Recorder,
    context: Context,
}

impl Controller {
    fn planned(&self) -> MutexGuard<'_, HashMap<Key, PlannedDeletion>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let Some(pod) = self.pods.get(key) else {
            self.planned().remove(key);
            return Ok(Next::Done);
        };
        let spec = PodView::of(&pod).spec();
        let Some(node) = spec.node_name().and_then(|node| self.nodes.get(&key.in_workspace(node))) else {
            return self.delete_if_due(key, &pod).await;
        };
        let now = Instant::now();
        match tolerations::tolerated_for(&no_execute_taints(&node), spec.tolerations()) {
            Toleration::Unlimited => {
                if let Some(PlannedDeletion::At(_)) = self.planned().remove(key) {
                    self.record(key, &pod, "Cancelling deletion of Pod");
                }
                return Ok(Next::Done);
            }
            Toleration::None => {
                let mut planned = self.planned();
                if !matches!(planned.get(key), Some(PlannedDeletion::Done)) {
                    planned.insert(key.clone(), PlannedDeletion::At(now));
                }
            }
            // The first plan counts, however long other taints are tolerated.
            Toleration::For(time) => {
                self.planned().entry(key.clone()).or_insert(PlannedDeletion::At(now + time));
            }
        }
        self.delete_if_due(key, &pod).await
    }

    async fn delete_if_due(&self, key: &Key, pod: &Value) -> Result<Next, Status> {
        let plan = self.planned().get(key).copied();
        let Some(PlannedDeletion::At(due)) = plan else { return Ok(Next::Done) };
        let left = due.saturating_duration_since(Instant::now());
        if left > Duration::ZERO {
            return Ok(Next::After(left));
        }
        self.record(key, pod, "Marking for deletion Pod");
        match self.delete_pod(key).await {
            Ok(()) => drop(self.planned().insert(key.clone(), PlannedDeletion::Done)),
            Err(status) if status.reason() == "NotFound" => drop(self.planned().remove(key)),
            Err(status) => return Err(status),
        }
        Ok(Next::Done)
    }

    fn record(&self, key: &Key, pod: &Value, action: &str) {
        let message = format!("{action} {}/{}", key.namespace, key.name);
        self.recorder.normal(&resources::PODS, pod, "TaintManagerEviction", message);
    }

    async fn delete_pod(&self, key: &Key) -> Result<(), Status> {
        let (api, kind) = (self.context.api(), &resources::PODS);
        let mut pod = api.get(kind, key).await?;
        let mut condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastProbeTime": null,
        });
        if object::generation(&pod) > 0 {
            condition["observedGeneration"] = object::generation(&pod).into();
        }
        if conditions::set_in(&mut pod, condition, &self.context.clock.now().to_time()) {
            let patch = json!({
                "metadata": {"uid": object::uid(&pod), "resourceVersion": object::resource_version(&pod)},
                "status": {"conditions": pod["status"]["conditions"]},
            });
            self.pods.wrote(&api.patch(kind, key, "status", &patch).await?);
        }
        let uid = object::uid(&pod);
        api.delete(kind, key, DeleteOptions { uid: Some(uid), ..DeleteOptions::default() }).await?;
        self.pods.deleting(key, uid);
        Ok(())
    }
}
