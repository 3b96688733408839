//! Management of existing workloads in clusters: adopting and releasing, pausing and resuming, drift,
//! orphans, and the deletion of namespaces.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod adopting;
#[allow(dead_code, reason = "another suite uses the rest")]
#[path = "../upstream/cluster.rs"]
mod cluster;
mod consent;
mod definitions;
mod drifting;
mod harness;
mod kubectl_errors;
mod namespace_deletion;
mod namespaces;
mod observing;
mod orphaned;
mod pages;
mod pausing;
mod placed;
mod real_cluster;
mod releasing;
mod rollouts;
mod sent;
#[path = "../support/support.rs"]
mod support;
