//! The HTTP server: from a connection to a verb and back.
//!
//! ```text
//!  listen ─ TLS ─ chain ─┬─ authn ─ authz ─ workspace ─┬─ verbs/{create,get,list,watch,…} ─ admission ─ registry
//!                        │                             ├─ connect ─ a kubelet, a Pod
//!                        │                             └─ discovery, openapi
//!                        └─ health, version, metrics
//! ```
//!
//! `chain` is the handler chain in one function. Every error response is a Status, created in one place. The
//! same handler serves connections and the in-process client.

mod access;
pub mod advisor;
mod advisor_queue;
pub mod body;
pub mod chain;
pub mod connect;
mod decode;
mod discovery;
mod discovery_cache;
#[doc(hidden)]
pub mod fuzzing;
mod health;
pub mod hidden_api;
pub mod identity;
mod impersonation;
mod inflight;
pub mod listen;
pub mod local;
pub mod metrics;
mod negotiate;
mod openapi;
mod openid;
mod options;
mod paging;
mod panics;
mod query;
mod request;
mod respond;
mod scheduler;
mod snapshot;
mod sync;
pub mod trace;
pub mod usage;
mod verbs;
mod version;
mod what_if;
mod workspace;

use std::sync::Arc;
use std::time::Duration;

use atoll_authn::Authenticator;
use atoll_authn::authority::Authority;
use atoll_authn::service_account::Tokens;
use atoll_authz::Policies;
use atoll_client::connected_clusters::ConnectedClusters;
use atoll_meta::Status;
use atoll_registry::Registry;
use http::Method;
use serde_json::Value;
use tokio::sync::watch;

pub use atoll_admission::AdmissionChain;
pub use body::Body;
pub use discovery_cache::DiscoveryCache;
pub use request::RequestInfo;
pub use sync::PodApi;
pub use workspace::resolve;

use crate::advisor::PlacementAdvisor;
use crate::connect::kubelets::Kubelets;
use crate::inflight::InFlight;
use crate::listen::connections::Connections;
use crate::metrics::Metrics;
use crate::usage::UsageSource;

/// Maximum size of a request body, as upstream.
pub const MAX_BODY: usize = 3 << 20;

#[derive(Clone, Debug)]
pub struct Limits {
    /// Timeout of requests other than watches.
    pub request_timeout: Duration,
    /// Time that a client may take to send its headers, to finish a TLS handshake, and to send a body before
    /// a minimum rate applies.
    pub header_timeout: Duration,
    /// Maximum number of reading requests in flight.
    pub reading: usize,
    /// Maximum number of mutating requests in flight.
    pub mutating: usize,
    /// Maximum number of watches.
    pub watching: usize,
    /// Maximum number of connections; see [`listen::connections`].
    pub connections: usize,
    /// Time that requests may take to finish during shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_timeout: Duration::from_secs(60),
            header_timeout: Duration::from_secs(10),
            reading: 400,
            mutating: 200,
            watching: 10_000,
            connections: 768,
            drain: Duration::from_secs(10),
        }
    }
}

/// The authority for certificates of agents.
pub struct AgentSigner {
    pub authority: Arc<Authority>,
    /// Lifetime of the certificates.
    pub seconds: i64,
}

/// State that is shared by all requests.
pub struct Server {
    pub registry: Arc<Registry>,
    pub authenticator: Authenticator,
    /// RBAC rules of all workspaces.
    pub policies: Arc<Policies>,
    /// Signs and verifies tokens of ServiceAccounts.
    pub tokens: Option<Arc<Tokens>>,
    /// Signs certificates of agents.
    pub agents: Option<AgentSigner>,
    pub admission: AdmissionChain,
    pub metrics: Metrics,
    pub limits: Limits,
    /// Connections to nodes and Pods.
    pub kubelets: Arc<Kubelets>,
    /// Receiver of traces.
    pub tracer: Option<trace::Tracer>,
    /// How Pods in clusters reach this server.
    pub pod_api: Option<PodApi>,
    /// The server's address in discovery.
    pub advertised: String,
    /// Endpoints of the program around the server.
    pub endpoints: Vec<Arc<dyn CustomEndpoint>>,
    /// Source of resource usage of nodes and Pods.
    pub usage: Option<Arc<dyn UsageSource>>,
    /// Answers questions about placements, if the scheduler runs in this process.
    pub advisor: Option<Arc<dyn PlacementAdvisor>>,
    /// Interval at which syncers are asked to send heartbeats.
    pub heartbeat: Option<Duration>,
    /// Whether controllers run in this process.
    pub runs_controllers: bool,
    /// Whether a scheduler runs in this process.
    pub runs_scheduler: bool,
    /// Whether Pods of all workloads are created here, as in a simulated cluster.
    pub runs_workloads: bool,
    /// Clusters that requests can be sent to.
    pub connected_clusters: Arc<ConnectedClusters>,
    /// Open requests of users to clusters.
    pub(crate) open_requests: sync::OpenRequests,
    /// Open sync views.
    pub(crate) open_views: sync::OpenViews,
    /// Limits on events of member clusters.
    pub(crate) event_limits: sync::EventLimits,
    /// Reports of definitions that are processed.
    pub(crate) definition_reports: sync::OpenDefinitionReports,
    /// Sequence numbers, by which outdated reports of clusters are ignored.
    pub(crate) report_sequences: sync::ReportSequences,
    /// Access Secrets that clusters delete.
    pub(crate) access_removals: sync::AccessRemovals,
    /// Open connections of clients.
    connections: Arc<Connections>,
    inflight: InFlight,
    discovery_cache: Arc<DiscoveryCache>,
    /// Becomes true when the server stops.
    stopping: watch::Sender<bool>,
}

/// An endpoint that is not part of Kubernetes' API. Access needs the right to its path in the root workspace.
pub trait CustomEndpoint: Send + Sync + 'static {
    /// The path of the endpoint.
    fn path(&self) -> &'static str;

    /// Handles a request. `below` is the rest of the path.
    fn handle(&self, method: &Method, below: &str, body: &[u8]) -> Result<Value, Status>;
}

impl Server {
    pub fn new(
        registry: Arc<Registry>,
        policies: Arc<Policies>,
        limits: Limits,
        advertised: String,
        metrics: Metrics,
        discovery_cache: Arc<DiscoveryCache>,
        kubelets: Arc<Kubelets>,
    ) -> Self {
        Server {
            discovery_cache,
            pod_api: None,
            endpoints: Vec::new(),
            usage: None,
            advisor: None,
            heartbeat: None,
            runs_controllers: false,
            runs_scheduler: false,
            runs_workloads: false,
            connected_clusters: Arc::default(),
            open_requests: sync::OpenRequests::default(),
            open_views: sync::OpenViews::default(),
            event_limits: sync::EventLimits::default(),
            definition_reports: sync::OpenDefinitionReports::default(),
            report_sequences: sync::ReportSequences::default(),
            access_removals: sync::AccessRemovals::default(),
            connections: Connections::new(limits.connections),
            inflight: InFlight::new(limits.reading, limits.mutating, limits.watching, limits.header_timeout),
            admission: AdmissionChain::default(),
            tokens: None,
            agents: None,
            tracer: None,
            stopping: watch::channel(false).0,
            authenticator: Authenticator::default(),
            registry,
            policies,
            limits,
            advertised,
            metrics,
            kubelets,
        }
    }

    /// Returns the endpoint of a path and the rest of the path.
    fn endpoint<'a>(&self, path: &'a str) -> Option<(&dyn CustomEndpoint, &'a str)> {
        self.endpoints.iter().find_map(|endpoint| {
            let below = path.strip_prefix(endpoint.path())?;
            (below.is_empty() || below.starts_with('/')).then(|| (&**endpoint, below.trim_matches('/')))
        })
    }

    /// Makes the server not ready and ends watches.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when the server stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            // A dropped sender means that the server has stopped.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }
}
