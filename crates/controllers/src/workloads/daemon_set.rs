//! DaemonSets: one pod on each suitable node.
//!
//! ```text
//!   sets, pods, nodes, revisions ─► queue ─► revisions ─► manage ─► rolling_update ─► counts ─► status
//!                                                            └─ FailedPodsBackoff: delays replacements
//! ```

// upstream: pkg/controller/daemon/daemon_controller.go

mod failed_pods_backoff;
mod placement;
mod reconcile;
mod revisions;

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{ApiScope, Cache, Change, Key, Next, Queue, resources};
use atoll_meta::views::{NodeView, PodView};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Value, json};

use self::failed_pods_backoff::FailedPodsBackoff;
use self::placement::{NodeRequirements, bind_to_node};
use self::reconcile::{Changes, Observed, counts, manage, rolling_update, status, template_generation};
use crate::context::Context;
use crate::shared::controller_refs::{self, ControllerRefManager};
use crate::shared::enqueue;
use crate::shared::pods::{PodControl, available_after, from_template, slow_start_batch};
use crate::shared::views::DaemonSetView;
use crate::shared::views::status::NUMBER_MISSCHEDULED;
use crate::workloads::history::{History, REVISION_LABEL};

/// Number of sets that are reconciled concurrently.
const WORKERS: usize = 4;
/// Delay that combines the changes of many nodes or pods into one sync.
const BATCH: Duration = Duration::from_millis(50);
/// Maximum number of pods created or deleted in one sync.
const MAX_PODS_PER_SYNC: usize = 250;

struct Controller {
    context: Context,
    api: ApiScope,
    sets: Arc<Cache>,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    /// Index of pods without a controller.
    orphans: usize,
    history: History,
    pod_control: PodControl,
    failed_pods_backoff: FailedPodsBackoff,
}

pub async fn run(context: Context) {
    let informers = context.informers.clone();
    let pods = informers.of(&resources::PODS);
    let controller = Arc::new(Controller {
        api: informers.api().clone(),
        sets: informers.of(&resources::DAEMON_SETS),
        nodes: informers.of(&resources::NODES),
        orphans: pods.index(controller_refs::orphans),
        history: History::new(&informers, &resources::DAEMON_SETS),
        pod_control: PodControl {
            api: informers.api().clone(),
            cache: pods.clone(),
            recorder: context.events.recorder("daemonset-controller"),
            owners: &resources::DAEMON_SETS,
        },
        pods,
        failed_pods_backoff: FailedPodsBackoff::default(),
        context,
    });
    let queue = Queue::new();
    enqueue::changed_objects(&controller.sets, &queue);
    enqueue::owners_after(&controller.pods, &controller.sets, &queue, BATCH);
    enqueue::owners(&controller.history.cache, &controller.sets, &queue);
    enqueue_on_node_changes(&controller, &queue);
    for cache in [&controller.sets, &controller.pods, &controller.nodes, &controller.history.cache] {
        cache.synced().await;
    }
    queue
        .work("daemon sets", WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.sync(key).await }
        })
        .await;
}

/// Enqueues the sets whose pods are affected by a change of a node.
fn enqueue_on_node_changes(controller: &Controller, queue: &Queue) {
    let (sets, queue) = (controller.sets.clone(), queue.clone());
    let (pods, on_node) = (controller.pods.clone(), controller.pods.index(node_of));
    controller.nodes.listen(move |change| {
        if !affects_scheduling(change) {
            return;
        }
        let pods_of_node = pods.by_index(on_node, &node_key(&change.key, &change.key.name));
        for set in sets.list(&change.key.workspace, "") {
            let has_pod =
                pods_of_node.iter().any(|pod| controller_refs::is_managed_by(pod, object::uid(&set)));
            let is_affected = change.new.as_deref().is_none_or(|node| {
                let fit = NodeRequirements::of(&set).fit(node);
                let has_misscheduled = DaemonSetView::of(&set).status().count(NUMBER_MISSCHEDULED) > 0;
                if has_pod { !fit.should_continue || has_misscheduled } else { fit.should_run }
            });
            if is_affected {
                queue.add_after(Key::of(&set), BATCH);
            }
        }
    });
}

/// Returns the key under which the [`node_of`] index lists the pods of a node.
fn node_key(key: &Key, node: &str) -> String {
    format!("{}/{node}", key.workspace)
}

/// Index of pods by node.
fn node_of(pod: &Value) -> Vec<String> {
    PodView::of(pod).node_name().map(|node| node_key(&Key::of(pod), node)).into_iter().collect()
}

/// Whether a node change affects scheduling. Frequent status updates do not.
fn affects_scheduling(change: &Change) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            old["metadata"]["labels"] != new["metadata"]["labels"]
                || !NodeView::of(old).taints().eq(NodeView::of(new).taints())
        }
        _ => true,
    }
}

impl Controller {
    async fn sync(self: &Arc<Self>, key: Key) -> Result<Next, Status> {
        let Some(set) = self.sets.get(&key).filter(|set| self.context.manages(set)) else {
            return Ok(Next::Done);
        };
        let view = DaemonSetView::of(&set);
        if *view.selector() == json!({}) {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.pod_control.recorder.warning(&resources::DAEMON_SETS, &set, "SelectingAll", message);
            return Ok(Next::Done);
        }
        // The revisions of a set that is being deleted may be deleted already, so its pods cannot be compared
        // with them.
        if object::is_being_deleted(&set) {
            return Ok(Next::Done);
        }
        let Ok(selector) = LabelSelector::from_object(view.selector()) else {
            return Ok(Next::Done);
        };
        let pods = self.claimed(&set, &selector).await?;
        let (current, old) = self.revisions(&set, &selector, &pods).await?;
        let hash = object::label(&current, REVISION_LABEL).unwrap_or_default();
        let nodes = self.nodes.list(&key.workspace, "");
        let now = self.context.clock.now();
        let observed = Observed { set: &set, nodes: &nodes, pods: &pods, hash, now };
        let (mut delay, mut changes) = (None, manage(&observed));
        self.delete_finished_pods(&observed, &mut changes, &mut delay);
        // A rolling update continues only when no pods must be created or deleted. These changes trigger the
        // next sync.
        if changes == Changes::default() {
            changes = rolling_update(&observed);
        }
        let mut outcome = self.sync_nodes(&set, hash, changes).await;
        if outcome.is_ok() {
            outcome = self.cleanup_history(&set, &pods, old).await;
        }
        let pods = self.claimed(&set, &selector).await?;
        let observed = Observed { pods: &pods, ..observed };
        let counted = counts(&observed);
        let written = match status(&set, counted) {
            Some(status) => self.write_status(&set, status).await,
            None => Ok(()),
        };
        outcome.and(written)?;
        if counted.ready != counted.available {
            let min_ready = view.min_ready_seconds();
            let soonest = pods.iter().filter_map(|pod| available_after(pod, min_ready, now)).min();
            delay = delay.into_iter().chain(soonest).min();
        }
        Ok(delay.map_or(Next::Done, Next::After))
    }

    /// Deletes finished pods. Failed ones are deleted with a backoff.
    fn delete_finished_pods(
        &self,
        observed: &Observed<'_>,
        changes: &mut Changes,
        delay: &mut Option<Duration>,
    ) {
        let (recorder, kind) = (&self.pod_control.recorder, &resources::DAEMON_SETS);
        let name = |pod: &Value| format!("{}/{}", object::namespace(pod), object::name(pod));
        for (node, pod) in std::mem::take(&mut changes.failed) {
            if let Some(wait) = self.failed_pods_backoff.delay(observed.set, &node, observed.now) {
                *delay = Some(delay.map_or(wait, |delay| delay.min(wait)));
                continue;
            }
            let message =
                format!("Found failed daemon pod {} on node {node}, will try to kill it", name(&pod));
            recorder.warning(kind, observed.set, "FailedDaemonPod", message);
            changes.delete.push(pod);
        }
        for (node, pod) in std::mem::take(&mut changes.succeeded) {
            let message =
                format!("Found succeeded daemon pod {} on node {node}, will try to delete it", name(&pod));
            recorder.normal(kind, observed.set, "SucceededDaemonPod", message);
            changes.delete.push(pod);
        }
    }

    async fn claimed(&self, set: &Value, selector: &LabelSelector) -> Result<Vec<Arc<Value>>, Status> {
        let claim = ControllerRefManager {
            api: &self.api,
            cache: &self.pods,
            owners: &resources::DAEMON_SETS,
            owner: set,
            selector,
            finalizers: &[],
        };
        claim.claim(controller_refs::candidates(&self.pods, self.orphans, set)).await
    }

    async fn sync_nodes(&self, set: &Arc<Value>, hash: &str, changes: Changes) -> Result<(), Status> {
        let Changes { mut create, mut delete, .. } = changes;
        create.truncate(MAX_PODS_PER_SYNC);
        delete.truncate(MAX_PODS_PER_SYNC);
        let mut template = DaemonSetView::of(set).template().clone();
        object::set_label(&mut template, REVISION_LABEL, hash);
        if let Some((label, generation)) = template_generation(set) {
            object::set_label(&mut template, label, &generation);
        }
        let pod = from_template(&resources::DAEMON_SETS, set, &template);
        let (_, created) = slow_start_batch(create.len(), |place| {
            let (pod_control, set, mut pod) = (self.pod_control.clone(), set.clone(), pod.clone());
            bind_to_node(&mut pod, &create[place]);
            async move {
                match pod_control.create(&set, &pod).await {
                    // Failing to create a pod in a terminating namespace is no error.
                    Err(status) if !status.has_cause("NamespaceTerminating") => Err(status),
                    _ => Ok(()),
                }
            }
        })
        .await;
        created.and(self.pod_control.delete_many(set, delete).await)
    }

    async fn write_status(&self, set: &Value, status: Value) -> Result<(), Status> {
        let mut changed = set.clone();
        changed["status"] = status;
        let written = self.api.update_status(&resources::DAEMON_SETS, &changed).await?;
        self.sets.wrote(&written);
        Ok(())
    }
}
