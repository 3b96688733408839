//! Questions about placements, which the scheduler answers if it runs in the same process.

use atoll_fleet::explanation::Explanation;
use atoll_fleet::what_if::{WhatIf, WhatIfAnswer};
use atoll_meta::Status;
use atoll_registry::ObjectRef;

/// Answers questions about placements. Implemented around the scheduler, which sees only the API.
pub trait PlacementAdvisor: Send + Sync + 'static {
    /// Returns the number of clusters that the scheduler may place new objects on.
    fn available_clusters(&self) -> usize;

    /// Explains the placement of an object of a resource (group and name). `None` if the scheduler does not place
    /// it, or has not seen it yet.
    fn explain(&self, resource: (&str, &str), object: &ObjectRef<'_>) -> Option<Explanation>;

    /// Returns what a change in a workspace (by id) would lead to; `None` if the scheduler does not run yet. The answer
    /// is incomplete if it `is_over` before its end. It is called by one thread at a time.
    fn what_if(
        &self,
        workspace: &str,
        change: &WhatIf,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Result<WhatIfAnswer, Status>>;
}
