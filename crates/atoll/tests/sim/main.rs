//! Simulated clusters and the playground, as people start them.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod elsewhere;
mod faults;
mod grain;
mod network;
mod nodes;
mod playground;
mod running;
mod storage;
#[path = "../support/support.rs"]
mod support;
mod usage;
