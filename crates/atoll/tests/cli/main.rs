//! Operation of a server: settings, authentication, workspaces, snapshots and the CLI commands for them.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod commands;
mod completion;
mod components;
mod identities;
mod kubeconfigs;
mod settings;
mod snapshots;
#[path = "../support/support.rs"]
mod support;
mod workspaces;
