//! Attacks on the borders between workspaces, clusters and the control plane, carried out through the binary.
//! A *tenant* is a user with cluster-admin in a workspace below root and no other rights. `docs/security.md`
//! lists the promises.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod admission;
mod bindings;
mod bodies;
mod certificates;
mod cluster_names;
mod connections;
mod definitions;
mod dense;
mod dialects;
mod dialing;
mod expansions;
mod fairness;
mod fake_cluster;
mod imports;
mod injection;
mod large;
mod limits;
mod many_versions;
mod namespaces;
mod origins;
mod overrides;
mod owners;
mod past_definitions;
mod paths;
mod permissions;
mod protected_metadata;
mod proxied_pages;
mod reports;
mod scheduling;
mod selectors;
mod shadowing;
#[path = "../support/support.rs"]
mod support;
mod sync_views;
mod timeouts;
mod watches;
mod workloads;
mod workspaces;
