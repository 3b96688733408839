//! The scheduler's answers to questions that the server gets.

use atoll_fleet::explanation::Explanation;
use atoll_informer::Key;
use atoll_registry::ObjectRef;
use atoll_scheduler::SchedulerHandle;
use atoll_server::advisor::PlacementAdvisor;

/// Asks the scheduler of this process.
pub struct SchedulerAdvisor(pub SchedulerHandle);

impl PlacementAdvisor for SchedulerAdvisor {
    fn explain(&self, resource: (&str, &str), object: &ObjectRef<'_>) -> Option<Explanation> {
        self.0.explain(resource, &Key::new(object.workspace, object.namespace, object.name))
    }
}
