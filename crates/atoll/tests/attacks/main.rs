//! Attacks on the borders between workspaces, clusters and the control plane, carried out through the program. A *tenant* is
//! somebody with cluster-admin in a workspace below root and nothing else. `docs/security.md` lists what is promised.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod bindings;
mod bodies;
mod certificates;
mod cluster_names;
mod definitions;
mod dense;
mod dialects;
mod dialing;
mod fairness;
mod fake_cluster;
mod injection;
mod namespaces;
mod owners;
mod proxied_pages;
mod shadowing;
#[path = "../support/support.rs"]
mod support;
mod workspaces;
