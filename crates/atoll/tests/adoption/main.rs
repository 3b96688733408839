//! Management of existing workloads in clusters: adopting and releasing, pausing and resuming, drift,
//! orphans, and the deletion of namespaces.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod adopting;
#[allow(dead_code, reason = "another suite uses the rest")]
#[path = "../upstream/cluster.rs"]
mod cluster;
mod connecting;
mod definitions;
mod drifting;
mod ending;
mod harness;
mod namespaces;
mod observing;
mod orphaned;
mod pages;
mod pausing;
mod placed;
mod real;
mod releasing;
mod rollouts;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../sim/running_command.rs"]
mod running_command;
#[path = "../support/support.rs"]
mod support;
