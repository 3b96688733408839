//! Connections of a syncer: to the control plane, whose sync view it reads, and to the cluster.

pub mod cluster_client;
pub mod control_plane;
pub mod renewal;
pub mod sync_view;
