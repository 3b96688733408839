//! Reports the state of the cluster and of the objects in it to the control plane.

pub mod capabilities;
pub mod definitions;
pub mod endpoints;
pub mod events;
pub mod heartbeat;
pub mod inventory;
pub mod pod_reports;
pub mod reports;
pub mod status_watch;
pub mod usage;
