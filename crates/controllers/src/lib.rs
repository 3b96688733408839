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
pub mod catalog;
mod certificates;
mod claim;
mod conditions;
mod content_deletion;
pub mod context;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod endpoints;
mod enqueue;
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
mod service_account_and_root_ca;
mod service_pods;
pub mod settings;
mod slices;
mod stateful_set;
mod status;
mod taint_eviction;
mod tokens;
mod ttl_after_finished;
mod volume_binding;
mod workspace;

use std::sync::Arc;

use atoll_client::Client;
pub(crate) use atoll_informer::WORKSPACE;
use atoll_informer::{Clock, Informers, Tree};

use crate::catalog::{CONTROLLERS, ControllerSelection};
use crate::context::{Context, Intents, Signers, WorkloadScope};
use crate::settings::Settings;

/// Runs the selected controllers of the catalog. Ends when dropped.
pub async fn run_selected(context: Context, controllers: &ControllerSelection) {
    let selected = CONTROLLERS.iter().filter(|row| controllers.includes(row.name, row.alias));
    let mut running: tokio::task::JoinSet<()> = selected.map(|row| (row.run)(context.clone())).collect();
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
    pub workloads: WorkloadScope,
    pub controllers: ControllerSelection,
    pub settings: Settings,
    /// The parts of an object that name clusters in the words of a dialect.
    pub intents: Intents,
}

/// Runs Atoll's controllers until its server stops.
pub async fn run(setup: Setup) {
    let Setup { client, tree, informers, signers, clock, workloads, controllers, settings, intents } = setup;
    let context = Context::sharing(informers, clock, workloads)
        .with_settings(settings)
        .with_signers(signers)
        .with_intents(intents);
    tokio::join!(
        // All other controllers depend on the list of workspaces.
        workspace::run(client, tree, controllers.includes_alias("workspace")),
        run_selected(context.clone(), &controllers),
        run_fleet(context, &controllers),
    );
}

/// A simulated cluster has no member clusters.
async fn run_fleet(context: Context, controllers: &ControllerSelection) {
    if context.workloads == WorkloadScope::PodGrain {
        fleet::run(context, controllers).await;
    }
}
