//! Authorization across workspaces, tested through the binary: access to workspaces, their borders, and
//! attempts to bypass them.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod aggregation;
mod escalation;
mod paths;
#[path = "../support/support.rs"]
mod support;
mod users;
mod workspace_access;
