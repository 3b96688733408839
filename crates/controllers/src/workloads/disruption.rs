//! PodDisruptionBudgets: maintains the number of pods that may be evicted now.
//!
//! ```text
//!   PodDisruptionBudgets, Pods ─► queue ─► number of expected pods ─► reconcile ─► status
//!                            └──► pods that were not deleted after an eviction ─► DisruptionTarget is False
//! ```

// upstream: pkg/controller/disruption/disruption.go

mod expected;
mod reconcile;
mod stale;

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Cache, Change, Key, Next, Queue, Recorder, resources};
use atoll_meta::{LabelSelector, Status, object, quote};
use serde_json::Value;

use crate::context::Context;
use crate::shared::{controller_refs, selectors};
use expected::{Expected, Owners};
use reconcile::BudgetUpdate;

/// Number of budgets that are reconciled concurrently.
const WORKERS: usize = 4;
/// Delay before a budget that could not be computed is retried.
const RETRY_DELAY: Duration = Duration::from_secs(30);

pub async fn run(context: Context) {
    let controller = Arc::new(Controller {
        budgets: context.informers.of(&resources::POD_DISRUPTION_BUDGETS),
        pods: context.informers.of(&resources::PODS),
        owners: Owners::new(&context),
        recorder: context.events.recorder("controllermanager"),
        context,
    });
    controller.budgets.synced().await;
    controller.pods.synced().await;
    controller.owners.synced().await;
    let (queue, stale) = (Queue::new(), Queue::new());
    controller.budgets.listen({
        let (queue, context) = (queue.clone(), controller.context.clone());
        move |change| {
            if context.manages(change.object()) {
                queue.add(change.key.clone());
            }
        }
    });
    controller.pods.listen({
        let (queue, stale, controller) = (queue.clone(), stale.clone(), controller.clone());
        move |change| controller.on_pod_change(change, &queue, &stale)
    });
    let counting = {
        let controller = controller.clone();
        queue.work("disruption budgets", WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.sync(&key).await }
        })
    };
    let cleaning = stale.work("stale disruptions", WORKERS, move |key| {
        let controller = controller.clone();
        async move { stale::sync(&controller.context, &controller.pods, &key).await }
    });
    tokio::join!(counting, cleaning);
}

struct Controller {
    budgets: Arc<Cache>,
    pods: Arc<Cache>,
    owners: Owners,
    recorder: Recorder,
    context: Context,
}

impl Controller {
    fn on_pod_change(&self, change: &Change, queue: &Queue, stale: &Queue) {
        let budgets = self.budgets.list(&change.key.workspace, &change.key.namespace);
        let states = || [&change.old, &change.new].into_iter().flatten();
        let affected: Vec<&Arc<Value>> = budgets
            .iter()
            .filter(|budget| states().any(|pod| selects(budget, pod)) && self.context.manages(budget))
            .collect();
        for budget in &affected {
            queue.add(Key::of(budget));
        }
        let Some(pod) = &change.new else { return };
        if let Some(wait) = stale::time_left(pod, self.context.clock.now()) {
            stale.add_after(change.key.clone(), wait);
        }
        let now: Vec<&&Arc<Value>> = affected.iter().filter(|budget| selects(budget, pod)).collect();
        if let [first, _, ..] = now.as_slice() {
            let message = format!(
                "Pod {}/{} matches multiple PodDisruptionBudgets.  Chose {} arbitrarily.",
                quote::quote(&change.key.namespace),
                quote::quote(&change.key.name),
                quote::quote(object::name(first)),
            );
            self.recorder.warning(&resources::PODS, pod, "MultiplePodDisruptionBudgets", message);
        }
    }

    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let Some(budget) = self.budgets.get(key) else { return Ok(Next::Done) };
        if !self.context.manages(&budget) {
            return Ok(Next::Done);
        }
        match self.count(key, &budget).await {
            Ok(outcome) => self.write(&budget, outcome).await,
            Err(problem) => {
                // Fail safe: allow no disruptions if the pods cannot be counted.
                let failed = reconcile::failed(&budget, &problem, &self.context.clock.now().to_time());
                self.write_status(failed).await?;
                Ok(Next::After(RETRY_DELAY))
            }
        }
    }

    async fn count(&self, key: &Key, budget: &Value) -> Result<BudgetUpdate, String> {
        let kind = &resources::POD_DISRUPTION_BUDGETS;
        let pods = match LabelSelector::from_object(&budget["spec"]["selector"]) {
            Ok(selector) => {
                let mut pods = self.pods.list(&key.workspace, &key.namespace);
                pods.retain(|pod| controller_refs::selects(&selector, pod));
                pods
            }
            Err(problem) => {
                self.recorder.warning(kind, budget, "NoPods", format!("Failed to get pods: {problem}"));
                return Err(problem);
            }
        };
        if pods.is_empty() {
            self.recorder.normal(kind, budget, "NoPods", "No matching pods found");
        }
        let Expected { count, healthy, unmanaged } =
            self.owners.expected(budget, key, &pods).await.inspect_err(|problem| {
                let message = format!("Failed to calculate the number of expected pods: {problem}");
                self.recorder.warning(kind, budget, "CalculateExpectedPodCountFailed", message);
            })?;
        if unmanaged {
            let message = expected::unmanaged_message(&budget["spec"]["selector"]);
            self.recorder.warning(kind, budget, "UnmanagedPods", message);
        }
        Ok(reconcile::reconcile(budget, &pods, count, healthy, self.context.clock.now()))
    }

    async fn write(&self, budget: &Value, outcome: BudgetUpdate) -> Result<Next, Status> {
        for pod in &outcome.not_deleted {
            let namespace = object::namespace(budget);
            // Upstream prints the namespace twice, too.
            let message =
                format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            self.recorder.warning(&resources::PODS, pod, "NotDeleted", message);
        }
        self.write_status(outcome.updated).await?;
        Ok(outcome.recheck.map_or(Next::Done, Next::After))
    }

    async fn write_status(&self, updated: Option<Value>) -> Result<(), Status> {
        let Some(updated) = updated else { return Ok(()) };
        let api = self.context.api();
        match api.update_status(&resources::POD_DISRUPTION_BUDGETS, &updated).await {
            Ok(written) => self.budgets.wrote(&written),
            Err(status) if status.reason() == "NotFound" => {}
            Err(status) => return Err(status),
        }
        Ok(())
    }
}

fn selects(budget: &Arc<Value>, pod: &Value) -> bool {
    selectors::of_object(budget).is_ok_and(|selector| controller_refs::selects(&selector, pod))
}
