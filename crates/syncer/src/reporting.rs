//! Reports the state of the cluster and of the objects in it to the control plane.

pub mod events;
pub mod heartbeat;
pub mod inventory;
pub mod reports;
pub mod status_watch;
