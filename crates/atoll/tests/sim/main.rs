//! Simulated clusters and the playground, as people start them.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod faults;
mod grain;
mod network;
mod nodes;
mod playground;
mod running;
#[path = "../support/support.rs"]
mod support;
