//! StatefulSets: pods with stable identities and volume claims, created and replaced in order.
//!
//! ```text
//!   sets, pods, volume claims, revisions ─► queue ─► revisions ─► reconcile ─► act ─► status
//! ```

// upstream: pkg/controller/statefulset/stateful_set.go
// upstream: pkg/controller/statefulset/stateful_set_control.go

mod claims;
mod execute;
mod identity;
mod reconcile;
mod revisions;

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{ApiScope, Cache, Key, Next, Queue, Recorder, resources};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::Value;

use crate::context::Context;
use crate::shared::controller_refs::{self, ControllerRefManager};
use crate::shared::enqueue;
use crate::shared::pods::available_after;
use crate::shared::views::StatefulSetView;
use crate::workloads::history::History;

use self::reconcile::{Observed, differs, reconcile, status};

/// Number of sets that are reconciled concurrently.
const WORKERS: usize = 8;

struct Controller {
    context: Context,
    api: ApiScope,
    sets: Arc<Cache>,
    pods: Arc<Cache>,
    /// Index of pods without a controller.
    orphans: usize,
    claims: Arc<Cache>,
    history: History,
    recorder: Recorder,
}

pub async fn run(context: Context) {
    let informers = context.informers.clone();
    let pods = informers.of(&resources::PODS);
    let controller = Arc::new(Controller {
        api: informers.api().clone(),
        sets: informers.of(&resources::STATEFUL_SETS),
        orphans: pods.index(controller_refs::orphans),
        pods,
        claims: informers.of(&resources::PERSISTENT_VOLUME_CLAIMS),
        history: History::new(&informers, &resources::STATEFUL_SETS),
        recorder: context.events.recorder("statefulset-controller"),
        context,
    });
    let queue = Queue::new();
    enqueue::changed_objects(&controller.sets, &queue);
    enqueue::owners(&controller.pods, &controller.sets, &queue);
    enqueue_on_claim_deletion(&controller, &queue);
    for cache in [&controller.sets, &controller.pods, &controller.claims, &controller.history.cache] {
        cache.synced().await;
    }
    queue
        .work("stateful sets", WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.sync(key).await }
        })
        .await;
}

/// Enqueues sets when a volume claim is deleted, because a pod may wait for that.
fn enqueue_on_claim_deletion(controller: &Controller, queue: &Queue) {
    let (sets, queue) = (controller.sets.clone(), queue.clone());
    controller.claims.listen(move |change| {
        if change.new.is_some() {
            return;
        }
        let Some((prefix, _)) = change.key.name.rsplit_once('-') else { return };
        for set in sets.list(&change.key.workspace, &change.key.namespace) {
            let mut templates = StatefulSetView::of(&set).claim_templates();
            if templates
                .any(|template| prefix == format!("{}-{}", object::name(template), object::name(&set)))
            {
                queue.add(Key::of(&set));
            }
        }
    });
}

impl Controller {
    async fn sync(self: &Arc<Self>, key: Key) -> Result<Next, Status> {
        let Some(set) = self.sets.get(&key).filter(|set| self.context.manages(set)) else {
            return Ok(Next::Done);
        };
        let view = StatefulSetView::of(&set);
        // An invalid selector can only be corrected by an update of the set.
        let Ok(selector) = LabelSelector::from_object(view.selector()) else {
            return Ok(Next::Done);
        };
        let revisions = self.history.claimed(&set, &selector).await?;
        let pods = self.claimed(&set, &selector).await?;
        let mut collisions = view.status().collision_count().unwrap_or(0);
        let update = self.update_revision(&set, &revisions, &mut collisions).await?;
        let named = view.status().current_revision();
        let current = revisions.iter().find(|revision| object::name(revision) == named).unwrap_or(&update);
        let observed = Observed {
            set: &set,
            pods: &pods,
            current,
            update: &update,
            collisions,
            claims: &|name| self.claims.get(&key.sibling(name)),
            now: self.context.clock.now(),
        };
        let plan = reconcile(&observed);
        let mut counts = plan.status;
        let outcome = self.execute(&set, plan, &mut counts).await;
        let next = self.requeue_delay(&observed, &counts);
        let written = self.write_status(&set, status(&observed, counts)).await;
        let truncated = self.truncate(&set, &pods, &revisions, current, &update).await;
        outcome.and(written).and(truncated)?;
        Ok(next)
    }

    async fn claimed(&self, set: &Value, selector: &LabelSelector) -> Result<Vec<Arc<Value>>, Status> {
        let candidates = controller_refs::candidates(&self.pods, self.orphans, set);
        let (members, others): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|pod| identity::is_member(set, pod));
        let nothing = LabelSelector::nothing();
        let claim = |selector| ControllerRefManager {
            api: &self.api,
            cache: &self.pods,
            owners: &resources::STATEFUL_SETS,
            owner: set,
            selector,
            finalizers: &[],
        };
        // Pods with names that do not belong to the set are released, even if they match the selector.
        claim(&nothing).claim(others).await?;
        claim(selector).claim(members).await
    }

    /// Returns when the next pod becomes available, for which there is no event.
    fn requeue_delay(&self, observed: &Observed<'_>, counts: &reconcile::Counts) -> Next {
        let min_ready = StatefulSetView::of(observed.set).min_ready_seconds();
        if min_ready <= 0 || counts.ready == counts.available {
            return Next::Done;
        }
        let soonest =
            observed.pods.iter().filter_map(|pod| available_after(pod, min_ready, observed.now)).min();
        Next::After(soonest.unwrap_or(Duration::from_secs(min_ready.unsigned_abs())))
    }

    async fn write_status(&self, set: &Value, status: Value) -> Result<(), Status> {
        if !differs(set, &status) {
            return Ok(());
        }
        let mut changed = set.clone();
        changed["status"] = status;
        let written = self.api.update_status(&resources::STATEFUL_SETS, &changed).await?;
        self.sets.wrote(&written);
        Ok(())
    }
}
