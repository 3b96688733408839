//! Loops that finish what a request began, over the plain Kubernetes API.
//!
//! ```text
//!   /clusters/* watch of Workspaces ─► Tree (id → path) ─┬─► workspace: empty it, children first, then let it go
//!   /clusters/* watch of Namespaces ─────────────────────┼─► namespace: empty it, then finalize it
//!                                                        │        └── both: emptying (list, delete, what is left)
//!                                                        ├─► belongings: what every namespace has
//!   /clusters/* watch of ClusterRoles ───────────────────┼─► roles: what roles gather from others
//!   /clusters/* watch of volumes, claims ────────────────┼─► protection: let go what is to go and not used
//!   /clusters/* watch of ResourceQuotas ─────────────────┼─► quota: how much is used, counted again
//!   /clusters/* watch of CertificateSigningRequests ─────┼─► certificates: approve, sign, clean up
//!   /clusters/* watch of Secrets ────────────────────────┴─► tokens: of ServiceAccounts, in Secrets that ask for one
//! ```
//!
//! One process serves all workspaces; one that is idle costs nothing here.

mod belongings;
pub mod catalog;
mod certificates;
pub mod context;
mod emptying;
mod namespace;
mod protection;
mod quota;
mod resources;
mod retry;
mod roles;
mod tokens;
mod watching;
mod workspace;

use std::sync::Arc;

use atoll_authn::authority::Authority;
use atoll_authn::service_account::Tokens;
use atoll_client::Client;

use atoll_informer::Tree;

use crate::catalog::{CONTROLLERS, Choice};
use crate::context::Context;

pub(crate) use atoll_informer::WORKSPACE;

/// Who signs what controllers give out.
pub struct Signers {
    pub authority: Arc<Authority>,
    pub tokens: Arc<Tokens>,
}

/// Runs the chosen ones of those controllers that know nothing but the API, wherever that is. Ends when dropped.
pub async fn run_chosen(context: Context, choice: &Choice) {
    let chosen = CONTROLLERS.iter().filter(|row| choice.includes(row.name, row.alias));
    let mut running: tokio::task::JoinSet<()> = chosen.map(|row| (row.run)(context.clone())).collect();
    while running.join_next().await.is_some() {}
}

/// Runs the controllers of an Atoll until their server stops.
pub async fn run(client: Client, signers: Signers) {
    let Signers { authority, tokens } = signers;
    let trusted = authority.certificate_pem.clone();
    let tree = Arc::new(Tree::default());
    tokio::join!(
        workspace::run(client.clone(), tree.clone()),
        namespace::run(client.clone(), tree.clone()),
        roles::run(client.clone(), tree.clone()),
        protection::run(client.clone(), tree.clone()),
        belongings::run(client.clone(), tree.clone(), trusted.clone()),
        certificates::run(client.clone(), tree.clone(), authority),
        quota::run(client.clone(), tree.clone()),
        tokens::run(client, tree, tokens, trusted),
    );
}
