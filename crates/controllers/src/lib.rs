//! Loops that finish what a request began, over the plain Kubernetes API.
//!
//! ```text
//!   follow (no copies kept) ─► Queue ─► namespace: empty it, then finalize it       belongings: what every namespace has
//!                                       roles: what roles gather from others        protection: let go what is not used
//!                                       quota: how much is used, counted again      certificates: approve, sign, clean
//!                                       tokens: of ServiceAccounts, in Secrets that ask for one
//!
//!   Caches (pods, nodes, …) ─► wake, Queue ─► claim, history ─► reconcile (pure) ─► pods::Maker ─► API
//! ```
//!
//! All in [`catalog`] know nothing but the API, wherever it is: one API server, or all workspaces of an Atoll. Only an Atoll
//! has `workspace`, which empties workspaces, children first, and tells the others which there are.
//!
//! One process serves all workspaces; one that is idle costs nothing here.

mod autoscaling;
mod belongings;
pub mod catalog;
mod certificates;
mod claim;
mod conditions;
pub mod context;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod emptying;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod endpoints;
mod fleet;
#[doc(hidden)]
pub mod fuzzing;
mod garbage_collector;
mod go_print;
mod history;
mod job;
mod namespace;
mod node_lifecycle;
mod nodes;
mod pod_garbage_collector;
mod pods;
mod protection;
mod quota;
mod replica_set;
mod resources;
mod roles;
mod scale;
mod service_pods;
pub mod settings;
mod slices;
mod stateful_set;
mod status;
mod taint_eviction;
mod tokens;
mod ttl_after_finished;
mod volume_binding;
mod wake;
mod workspace;

use std::sync::Arc;

use atoll_client::Client;
pub(crate) use atoll_informer::WORKSPACE;
use atoll_informer::{Clock, Informers, Tree};

use crate::catalog::{CONTROLLERS, Choice};
use crate::context::{Acts, Context, Signers};
use crate::settings::Settings;

/// Runs the chosen ones of those controllers that know nothing but the API, wherever that is. Ends when dropped.
pub async fn run_chosen(context: Context, choice: &Choice) {
    let chosen = CONTROLLERS.iter().filter(|row| choice.includes(row.name, row.alias));
    let mut running: tokio::task::JoinSet<()> = chosen.map(|row| (row.run)(context.clone())).collect();
    while running.join_next().await.is_some() {}
}

/// What the controllers of an Atoll are given.
pub struct Setup {
    pub client: Client,
    /// Which workspaces there are, for those who look at all; kept up to date here.
    pub tree: Arc<Tree>,
    pub informers: Arc<Informers>,
    pub signers: Signers,
    pub clock: Arc<dyn Clock>,
    pub acts: Acts,
    pub choice: Choice,
    pub settings: Settings,
}

/// Runs the controllers of an Atoll until its server stops.
pub async fn run(setup: Setup) {
    let Setup { client, tree, informers, signers, clock, acts, choice, settings } = setup;
    let context = Context::sharing(informers, clock, acts).with_settings(settings).with_signers(signers);
    tokio::join!(
        // All others need to know which workspaces there are.
        workspace::run(client, tree, choice.includes_alias("workspace")),
        run_chosen(context.clone(), &choice),
        run_fleet(context, &choice),
    );
}

/// A simulated cluster has no clusters of its own.
async fn run_fleet(context: Context, choice: &Choice) {
    if context.acts == Acts::OnPodGrain {
        fleet::run(context, choice).await;
    }
}
