//! A server as its operator meets it: settings, identities, workspaces, snapshots and the commands for them.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod commands;
mod completion;
mod components;
mod identities;
mod settings;
mod snapshots;
#[path = "../support/support.rs"]
mod support;
mod workspaces;
