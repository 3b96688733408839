//! Clusters join, get objects and leave through CLI commands.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod harness;
mod interrupted;
mod joining;
mod leaving;
mod placing;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../sim/running_command.rs"]
mod running_command;
#[path = "../support/support.rs"]
mod support;
mod visibility;
