//! Clusters join, get objects and leave through CLI commands.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod harness;
mod interrupted;
mod joining;
mod leaving;
mod placing;
#[path = "../support/support.rs"]
mod support;
mod visibility;
