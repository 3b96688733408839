//! Kubernetes and Atoll controllers, which use only the Kubernetes API.
//!
//! ```text
//!   watch (no cache) ─► Queue ─► namespace: deletes its content, then finalizes it
//!                                service_account_and_root_ca: objects that every namespace has
//!                                roles: aggregated ClusterRoles           protection: finalizers of storage objects
//!                                quota: recounts usage                    certificates: approve, sign, clean
//!                                tokens: ServiceAccount tokens in Secrets
//!
//!   Caches (pods, nodes, …) ─► enqueue, Queue ─► claim, history ─► reconcile (pure) ─► pods::PodControl ─► API
//! ```
//!
//! All controllers in [`catalog`] depend only on the API, which may be that of one API server or of all
//! workspaces of an Atoll. Only Atoll has `workspace`, which deletes the content of workspaces, children
//! first, and maintains the list of workspaces for the others.
//!
//! One process serves all workspaces; an idle workspace costs nothing here.

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

/// Runs the selected controllers of the catalog. Ends when dropped.
pub async fn run_chosen(context: Context, choice: &Choice) {
    let chosen = CONTROLLERS.iter().filter(|row| choice.includes(row.name, row.alias));
    let mut running: tokio::task::JoinSet<()> = chosen.map(|row| (row.run)(context.clone())).collect();
    while running.join_next().await.is_some() {}
}

/// Dependencies of Atoll's controllers.
pub struct Setup {
    pub client: Client,
    /// The workspaces, for controllers that watch all; kept up to date here.
    pub tree: Arc<Tree>,
    pub informers: Arc<Informers>,
    pub signers: Signers,
    pub clock: Arc<dyn Clock>,
    pub acts: Acts,
    pub choice: Choice,
    pub settings: Settings,
}

/// Runs Atoll's controllers until its server stops.
pub async fn run(setup: Setup) {
    let Setup { client, tree, informers, signers, clock, acts, choice, settings } = setup;
    let context = Context::sharing(informers, clock, acts).with_settings(settings).with_signers(signers);
    tokio::join!(
        // All other controllers depend on the list of workspaces.
        workspace::run(client, tree, choice.includes_alias("workspace")),
        run_chosen(context.clone(), &choice),
        run_fleet(context, &choice),
    );
}

/// A simulated cluster has no member clusters.
async fn run_fleet(context: Context, choice: &Choice) {
    if context.acts == Acts::OnPodGrain {
        fleet::run(context, choice).await;
    }
}
