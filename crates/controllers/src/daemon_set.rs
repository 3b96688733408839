//! DaemonSets: one pod on each suitable node.
//!
//! ```text
//!   sets, pods, nodes, revisions ─► queue ─► revisions ─► manage ─► roll ─► counts ─► status
//!                                                            └─ FailedPodsBackoff: delays the replacement of failed pods
//! ```

mod placement;
mod reconcile;
mod revisions;
mod setbacks;

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Cache, Change, Key, Next, Queue, World, resources};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Value, json};

use self::placement::{Wishes, pin};
use self::reconcile::{
    Changes, Observed, counts, manage, min_ready_seconds, roll, status, template_generation,
};
use self::setbacks::Setbacks;
use crate::claim::{self, Claim};
use crate::context::Context;
use crate::history::{History, REVISION_LABEL};
use crate::pods::{Maker, available_after, from_template, made_slowly};
use crate::wake;

/// Number of sets that are reconciled concurrently.
const AT_ONCE: usize = 4;
/// Delay that combines the changes of many nodes or pods into one sync.
const BATCH: Duration = Duration::from_millis(50);
/// Maximum number of pods created or deleted in one sync.
const AT_MOST: usize = 250;

struct Controller {
    context: Context,
    world: World,
    sets: Arc<Cache>,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    /// Index of pods without a controller.
    orphans: usize,
    history: History,
    maker: Maker,
    setbacks: Setbacks,
}

pub async fn run(context: Context) {
    let informers = context.informers.clone();
    let pods = informers.of(&resources::PODS);
    let controller = Arc::new(Controller {
        world: informers.world().clone(),
        sets: informers.of(&resources::DAEMON_SETS),
        nodes: informers.of(&resources::NODES),
        orphans: pods.index(claim::orphans),
        history: History::new(&informers, &resources::DAEMON_SETS),
        maker: Maker {
            world: informers.world().clone(),
            cache: pods.clone(),
            recorder: context.events.recorder("daemonset-controller"),
            owners: &resources::DAEMON_SETS,
        },
        pods,
        setbacks: Setbacks::default(),
        context,
    });
    let queue = Queue::new();
    wake::itself(&controller.sets, &queue);
    wake::owners_after(&controller.pods, &controller.sets, &queue, BATCH);
    wake::owners(&controller.history.cache, &controller.sets, &queue);
    wake_for_nodes(&controller, &queue);
    for cache in [&controller.sets, &controller.pods, &controller.nodes, &controller.history.cache] {
        cache.synced().await;
    }
    queue
        .work("daemon sets", AT_ONCE, move |key| {
            let controller = controller.clone();
            async move { controller.sync(key).await }
        })
        .await;
}

/// Enqueues the sets whose pods are affected by a change of a node.
fn wake_for_nodes(controller: &Controller, queue: &Queue) {
    let (sets, queue) = (controller.sets.clone(), queue.clone());
    let (pods, on_node) = (controller.pods.clone(), controller.pods.index(node_of));
    controller.nodes.listen(move |change| {
        if !matters(change) {
            return;
        }
        let there = pods.found(on_node, &place(&change.key, &change.key.name));
        for set in sets.list(&change.key.workspace, "") {
            let has_pod = there.iter().any(|pod| claim::is_managed_by(pod, object::uid(&set)));
            let is_concerned = change.new.as_deref().is_none_or(|node| {
                let fit = Wishes::of(&set).fit(node);
                let was_astray = set["status"]["numberMisscheduled"].as_i64().unwrap_or(0) > 0;
                if has_pod { !fit.should_continue || was_astray } else { fit.should_run }
            });
            if is_concerned {
                queue.add_after(Key::of(&set), BATCH);
            }
        }
    });
}

/// Returns the key under which the [`node_of`] index lists the pods of a node.
fn place(key: &Key, node: &str) -> String {
    format!("{}/{node}", key.workspace)
}

/// Index of pods by node.
fn node_of(pod: &Value) -> Vec<String> {
    let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
    node.map(|node| place(&Key::of(pod), node)).into_iter().collect()
}

/// Whether a node change affects scheduling. Frequent status updates do not.
fn matters(change: &Change) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            old["metadata"]["labels"] != new["metadata"]["labels"]
                || old["spec"]["taints"] != new["spec"]["taints"]
        }
        _ => true,
    }
}

impl Controller {
    async fn sync(self: &Arc<Self>, key: Key) -> Result<Next, Status> {
        let Some(set) = self.sets.get(&key).filter(|set| self.context.acts_on(set)) else {
            return Ok(Next::Done);
        };
        if set["spec"]["selector"] == json!({}) {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.maker.recorder.warning(&resources::DAEMON_SETS, &set, "SelectingAll", message);
            return Ok(Next::Done);
        }
        // The revisions of a set that is being deleted may be deleted already, so its pods cannot be compared
        // with them.
        if object::is_being_deleted(&set) {
            return Ok(Next::Done);
        }
        let Ok(selector) = LabelSelector::from_object(&set["spec"]["selector"]) else {
            return Ok(Next::Done);
        };
        let pods = self.claimed(&set, &selector).await?;
        let (current, old) = self.revisions(&set, &selector, &pods).await?;
        let hash = object::label(&current, REVISION_LABEL).unwrap_or_default();
        let nodes = self.nodes.list(&key.workspace, "");
        let now = self.context.clock.now();
        let seen = Observed { set: &set, nodes: &nodes, pods: &pods, hash, now };
        let (mut delay, mut changes) = (None, manage(&seen));
        self.settle_ended(&seen, &mut changes, &mut delay);
        // A rolling update continues only when no pods must be created or deleted. These changes trigger the
        // next sync.
        if changes == Changes::default() {
            changes = roll(&seen);
        }
        let mut outcome = self.carry_out(&set, hash, changes).await;
        if outcome.is_ok() {
            outcome = self.clean_up(&set, &pods, old).await;
        }
        let pods = self.claimed(&set, &selector).await?;
        let seen = Observed { pods: &pods, ..seen };
        let counted = counts(&seen);
        let written = match status(&set, counted) {
            Some(status) => self.write_status(&set, status).await,
            None => Ok(()),
        };
        outcome.and(written)?;
        if counted.ready != counted.available {
            let min_ready = min_ready_seconds(&set);
            let soonest = pods.iter().filter_map(|pod| available_after(pod, min_ready, now)).min();
            delay = delay.into_iter().chain(soonest).min();
        }
        Ok(delay.map_or(Next::Done, Next::After))
    }

    /// Deletes finished pods. Failed ones are deleted with a backoff.
    fn settle_ended(&self, seen: &Observed<'_>, changes: &mut Changes, delay: &mut Option<Duration>) {
        let (recorder, kind) = (&self.maker.recorder, &resources::DAEMON_SETS);
        let name = |pod: &Value| format!("{}/{}", object::namespace(pod), object::name(pod));
        for (node, pod) in std::mem::take(&mut changes.failed) {
            if let Some(wait) = self.setbacks.wait(seen.set, &node, seen.now) {
                *delay = Some(delay.map_or(wait, |delay| delay.min(wait)));
                continue;
            }
            let message =
                format!("Found failed daemon pod {} on node {node}, will try to kill it", name(&pod));
            recorder.warning(kind, seen.set, "FailedDaemonPod", message);
            changes.delete.push(pod);
        }
        for (node, pod) in std::mem::take(&mut changes.succeeded) {
            let message =
                format!("Found succeeded daemon pod {} on node {node}, will try to delete it", name(&pod));
            recorder.normal(kind, seen.set, "SucceededDaemonPod", message);
            changes.delete.push(pod);
        }
    }

    async fn claimed(&self, set: &Value, selector: &LabelSelector) -> Result<Vec<Arc<Value>>, Status> {
        let claim = Claim {
            world: &self.world,
            cache: &self.pods,
            owners: &resources::DAEMON_SETS,
            owner: set,
            selector,
            finalizers: &[],
        };
        claim.claim(claim::candidates(&self.pods, self.orphans, set)).await
    }

    async fn carry_out(&self, set: &Arc<Value>, hash: &str, changes: Changes) -> Result<(), Status> {
        let Changes { mut create, mut delete, .. } = changes;
        create.truncate(AT_MOST);
        delete.truncate(AT_MOST);
        let mut template = set["spec"]["template"].clone();
        object::set_label(&mut template, REVISION_LABEL, hash);
        if let Some((label, generation)) = template_generation(set) {
            object::set_label(&mut template, label, &generation);
        }
        let pod = from_template(&resources::DAEMON_SETS, set, &template);
        let (_, created) = made_slowly(create.len(), |place| {
            let (maker, set, mut pod) = (self.maker.clone(), set.clone(), pod.clone());
            pin(&mut pod, &create[place]);
            async move {
                match maker.create(&set, &pod).await {
                    // Failing to create a pod in a terminating namespace is no error.
                    Err(status) if !status.has_cause("NamespaceTerminating") => Err(status),
                    _ => Ok(()),
                }
            }
        })
        .await;
        created.and(self.maker.delete_many(set, delete).await)
    }

    async fn write_status(&self, set: &Value, status: Value) -> Result<(), Status> {
        let mut changed = set.clone();
        changed["status"] = status;
        let written = self.world.update_status(&resources::DAEMON_SETS, &changed).await?;
        self.sets.wrote(&written);
        Ok(())
    }
}
