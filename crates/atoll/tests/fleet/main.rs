//! Clusters join, are looked after, get objects and leave, by the commands that people type.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod interrupted;
mod joining;
mod leaving;
mod placing;
mod reaching;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../sim/running.rs"]
mod running;
#[path = "../support/support.rs"]
mod support;
mod world;
