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
//! Those in [`catalog`] know nothing but the API and read it through informers, wherever it is:
//!
//! ```text
//!   Caches (pods, nodes, …) ─► wake, Queue ─► claim, history ─► reconcile (pure) ─► pods::Maker ─► API
//! ```
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
mod retry;
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
mod watching;
mod workspace;

use std::sync::Arc;

use atoll_authn::authority::Authority;
use atoll_authn::service_account::Tokens;
use atoll_client::Client;
pub(crate) use atoll_informer::WORKSPACE;
use atoll_informer::{Clock, Informers, Tree};

use crate::catalog::{CONTROLLERS, Choice};
use crate::context::{Acts, Context};
use crate::settings::Settings;

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
    let Signers { authority, tokens } = signers;
    let trusted = authority.certificate_pem.clone();
    let context = Context::sharing(informers, clock.clone(), acts).with_settings(settings);
    let own = |alias: &str| choice.includes_own(alias);
    let provided =
        belongings::Provided { account: own("serviceaccount"), trust: own("root-ca-cert-publisher") };
    let duties = certificates::Duties {
        approve: own("csrapproving"),
        sign: own("csrsigning"),
        clean: own("csrcleaner"),
    };
    let protected = [own("pv-protection"), own("pvc-protection"), own("vac-protection")];
    tokio::join!(
        // All others need to know which workspaces there are.
        workspace::run(client.clone(), tree.clone(), own("workspace")),
        on(own("namespace"), namespace::run(client.clone(), tree.clone())),
        on(own("clusterrole-aggregation"), roles::run(client.clone(), tree.clone())),
        protection::run(client.clone(), tree.clone(), protected),
        belongings::run(client.clone(), tree.clone(), trusted.clone(), provided),
        certificates::run(client.clone(), tree.clone(), authority, clock.clone(), duties),
        on(own("resourcequota"), quota::run(client.clone(), tree.clone(), clock)),
        on(own("serviceaccount-token"), tokens::run(client, tree, tokens, trusted)),
        run_chosen(context, &choice),
    );
}

/// Runs something, or not.
async fn on(wanted: bool, running: impl Future<Output = ()>) {
    if wanted {
        running.await;
    }
}
