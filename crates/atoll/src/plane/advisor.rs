//! The scheduler's answers to questions that the server gets.

use atoll_fleet::explanation::Explanation;
use atoll_fleet::what_if::{WhatIf, WhatIfAnswer};
use atoll_informer::Key;
use atoll_meta::Status;
use atoll_registry::ObjectRef;
use atoll_scheduler::SchedulerHandle;
use atoll_server::advisor::PlacementAdvisor;

/// Asks the scheduler of this process.
pub struct SchedulerAdvisor {
    scheduler: SchedulerHandle,
}

impl SchedulerAdvisor {
    pub fn new(scheduler: SchedulerHandle) -> SchedulerAdvisor {
        SchedulerAdvisor { scheduler }
    }
}

impl PlacementAdvisor for SchedulerAdvisor {
    fn available_clusters(&self) -> usize {
        self.scheduler.available_clusters()
    }

    fn explain(&self, resource: (&str, &str), object: &ObjectRef<'_>) -> Option<Explanation> {
        self.scheduler.explain(resource, &Key::new(object.workspace, object.namespace, object.name))
    }

    fn what_if(
        &self,
        workspace: &str,
        change: &WhatIf,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Result<WhatIfAnswer, Status>> {
        self.scheduler.what_if(workspace, change, is_over)
    }
}
