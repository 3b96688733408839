//! Typed views of workloads, like those of Pods and nodes in [`atoll_meta::views`].
//!
//! ```text
//!   WorkloadView: selector, template, replicas, history limit ◄─ DeploymentView, StatefulSetView, DaemonSetView, JobView
//!     └─ status ─► WorkloadStatusView: counts, observed generation, conditions
//!   CronJobView, CronJobStatusView
//! ```
//!
//! The API server sets defaults, so a field without one is rare; then the same default counts here.

mod cron_job;
mod daemon_set;
mod deployment;
mod job;
mod stateful_set;
pub mod status;
mod workload;

pub use cron_job::{CronJobStatusView, CronJobView};
pub use daemon_set::DaemonSetView;
pub use deployment::DeploymentView;
pub use job::JobView;
pub use stateful_set::StatefulSetView;
pub use status::WorkloadStatusView;
pub use workload::WorkloadView;

/// Defines a view of a kind of workload, with the methods of [`WorkloadView`].
macro_rules! workload_view {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>($crate::shared::views::WorkloadView<'a>);

        impl<'a> $name<'a> {
            pub fn of(object: &'a serde_json::Value) -> Self {
                $name($crate::shared::views::WorkloadView::of(object))
            }
        }

        impl<'a> std::ops::Deref for $name<'a> {
            type Target = $crate::shared::views::WorkloadView<'a>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    };
}
use workload_view;
