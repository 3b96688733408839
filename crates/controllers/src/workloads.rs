//! Controllers of workloads and their Pods.
//!
//! ```text
//!   cron_job ─► job ──────────────────┐   history: ControllerRevisions of daemon_set and stateful_set
//!   deployment ─► replica_set ────────┼─► Pods ─► pod_garbage_collector
//!   daemon_set, stateful_set ─────────┘
//!   autoscaling, disruption ─► scale: replicas of any kind        ttl_after_finished: deletes finished Jobs
//! ```

pub mod autoscaling;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod disruption;
mod history;
pub mod job;
pub mod pod_garbage_collector;
pub mod replica_set;
mod scale;
pub mod stateful_set;
mod status;
pub mod ttl_after_finished;
