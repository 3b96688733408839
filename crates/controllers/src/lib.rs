//! Loops that finish what a request began, over the plain Kubernetes API.
//!
//! ```text
//!   /clusters/* watch of Workspaces ─► Tree (id → path) ─┬─► workspace: empty it, children first, then let it go
//!   /clusters/* watch of Namespaces ─────────────────────┴─► namespace: empty it, then finalize it
//!                                                                 └── both: emptying (list, delete, what is left)
//! ```
//!
//! One process serves all workspaces; one that is idle costs nothing here.

mod emptying;
mod namespace;
mod resources;
mod retry;
mod tree;
mod workspace;

use std::sync::Arc;

use atoll_client::Client;

use crate::tree::Tree;

/// The annotation by which objects from a list across all workspaces say where they are from.
pub const WORKSPACE: &str = "atoll.dev/workspace-id";

/// Runs all controllers until their server stops.
pub async fn run(client: Client) {
    let tree = Arc::new(Tree::default());
    tokio::join!(workspace::run(client.clone(), tree.clone()), namespace::run(client, tree));
}
