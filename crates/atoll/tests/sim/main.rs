//! Simulated clusters and the playground, started through the CLI.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod faults;
mod grain;
mod network;
mod nodes;
mod playground;
mod server_nodes;
mod storage;
#[path = "../support/support.rs"]
mod support;
mod usage;
