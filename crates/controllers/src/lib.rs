//! Kubernetes and Atoll controllers, which use only the Kubernetes API.
//!
//! ```text
//!   watch (no cache) ─► Queue ─► deletion: content of namespaces and workspaces, owned objects
//!                                identity: certificates, ServiceAccounts and their tokens, aggregated ClusterRoles
//!                                storage::protection: finalizers of storage objects
//!                                quota: recounts usage
//!
//!   Caches (pods, nodes, …) ─► enqueue, Queue ─► controller_refs, history ─► reconcile (pure) ─► pods::PodControl ─► API
//!                              workloads, network, nodes, storage::volume_binding, fleet
//! ```
//!
//! Each domain has a module, and `shared` has what several of them use. [`catalog`] lists the controllers.
//!
//! All controllers in [`catalog`] depend only on the API, which may be that of one API server or of all
//! workspaces of an Atoll. Only Atoll has `workspace`, which deletes the content of workspaces, children
//! first, and maintains the list of workspaces for the others.
//!
//! One process serves all workspaces; an idle workspace costs nothing here.

pub mod catalog;
pub mod context;
mod deletion;
mod fleet;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod network;
mod nodes;
mod quota;
pub mod settings;
mod shared;
mod storage;
mod workloads;

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
        .with_intents(intents)
        .with_scheduler(controllers.includes_alias("placementscheduler"));
    tokio::join!(
        // All other controllers depend on the list of workspaces.
        deletion::workspace::run(client, tree, controllers.includes_alias("workspace")),
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
