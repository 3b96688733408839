//! Explanations and trials of the running scheduler of this process.

use std::sync::{Arc, OnceLock, Weak};

use atoll_fleet::explanation::Explanation;
use atoll_fleet::what_if::{WhatIf, WhatIfAnswer};
use atoll_informer::Key;
use atoll_meta::Status;
use atoll_placement::cluster::{ClusterState, Readiness};

use crate::round::Round;
use crate::{Scheduler, what_if, workloads};

/// Access to the scheduler of this process. Clones have the same scheduler.
#[derive(Clone, Default)]
pub struct SchedulerHandle(Arc<OnceLock<Weak<Scheduler>>>);

impl SchedulerHandle {
    pub(crate) fn set(&self, scheduler: &Arc<Scheduler>) {
        // A scheduler runs once.
        let _ = self.0.set(Arc::downgrade(scheduler));
    }

    pub(crate) fn scheduler(&self) -> Option<Arc<Scheduler>> {
        self.0.get().and_then(Weak::upgrade)
    }

    /// Whether the scheduler runs. It does not before the first cluster joins.
    pub fn is_running(&self) -> bool {
        self.scheduler().is_some()
    }

    /// Returns the number of clusters that are Ready and whose room is known. New objects are placed on these, as far as
    /// no other rule is against it.
    pub fn available_clusters(&self) -> usize {
        let Some(scheduler) = self.scheduler() else { return 0 };
        let round = Round::begin(&scheduler);
        let fleet = &round.ledger.fleet;
        let is_available = |cluster: &&ClusterState| {
            matches!(cluster.readiness, Readiness::Ready { .. }) && fleet.free(&cluster.uid).is_some()
        };
        fleet.clusters().filter(is_available).count()
    }

    /// Explains the placement of an object of a resource (group and name). `None` if no scheduler runs, if it does
    /// not place such objects, or if it has not seen the object yet.
    pub fn explain(&self, (group, resource): (&str, &str), at: &Key) -> Option<Explanation> {
        let scheduler = self.scheduler()?;
        let kind = scheduler.kinds.position(&at.workspace, (group, resource))?;
        Round::begin(&scheduler).explain(&workloads::queue_key(kind, at))
    }

    /// Returns the effect of a change in a workspace (by id); `None` if no scheduler runs. The answer is
    /// incomplete if it `is_over` before its end.
    pub fn what_if(
        &self,
        workspace: &str,
        change: &WhatIf,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Result<WhatIfAnswer, Status>> {
        Some(what_if::answer(&*self.scheduler()?, workspace, change, is_over))
    }
}
