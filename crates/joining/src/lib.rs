//! Joining of clusters: what a control plane creates in a cluster that joins it, and how it deletes that
//! again. The command `atoll cluster` and the controllers of dialects use it.
//!
//! ```text
//!   kubeconfig ─► JoiningCluster: version, identity ─► claim: is it free? ─► rights: account and roles
//!                     └─► credential: a token, in a kubeconfig and a Secret ─► claim: written
//!   Cluster ─► cleanup: claim, account and roles are deleted
//! ```
//!
//! Every request goes through [`api::Api`] over [`client::Client`]. A [`Failure`] says what is wrong and what
//! to do next.

pub mod api;
pub mod claim;
pub mod cleanup;
pub mod client;
pub mod credential;
mod failure;
mod joining_cluster;
mod locators;
pub mod manifest;
pub mod rights;
pub mod version;

pub use failure::{Failure, HINT, invocation, join_names, set_invocation};
pub use joining_cluster::{JoiningCluster, admin_failure};
pub use locators::{list_namespaces, remove_locators, remove_marks};
