//! What runs in clusters is kept, whoever comes and goes: adopted and let go, paused and resumed, found again and pruned.

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
#[path = "../sim/running.rs"]
mod running;
#[path = "../support/support.rs"]
mod support;
mod world;
