//! HTTP: from a connection to a verb and back.
//!
//! ```text
//!  listen ─ TLS ─ chain ─┬─ authn ─ authz ─ workspace ─┬─ verbs/{create,get,list,watch,…} ─ admission ─ registry
//!                        │                             ├─ connect ─ a kubelet, a Pod
//!                        │                             └─ discovery, openapi
//!                        └─ health, version, metrics
//! ```
//!
//! `chain` shows the way of a request in one function. Every answer that is not a success is a Status, made
//! from an error in one place. The same handler serves the socket and the in-process client.

mod access;
pub mod body;
pub mod chain;
pub mod connect;
mod decode;
mod discovery;
#[doc(hidden)]
pub mod fuzzing;
mod health;
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
mod shelves;
mod snapshot;
mod sync;
pub mod trace;
pub mod usage;
mod verbs;
mod version;
pub mod weather;
mod workspace;

use std::sync::Arc;
use std::time::Duration;

use atoll_authn::Authenticator;
use atoll_authn::service_account::Tokens;
use atoll_authz::Policies;
use atoll_meta::Status;
use atoll_registry::Registry;
use http::Method;
use serde_json::Value;
use tokio::sync::watch;

pub use atoll_admission::Chain;
pub use body::Body;
pub use request::RequestInfo;
pub use shelves::Shelves;
pub use verbs::spent;
pub use workspace::resolve;

use crate::connect::kubelets::Kubelets;
use crate::inflight::InFlight;
use crate::metrics::Metrics;
use crate::usage::Usage;

/// Largest request body, as upstream.
pub const MAX_BODY: usize = 3 << 20;

#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a request that is no watch may take.
    pub request_timeout: Duration,
    /// How long a client may take to send its headers, to finish a TLS handshake, and to send a body before it has to arrive
    /// at a rate.
    pub header_timeout: Duration,
    /// Requests under way at once that only read.
    pub reading: usize,
    /// Requests under way at once that write.
    pub mutating: usize,
    /// How long requests may go on after a shutdown was asked for.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_timeout: Duration::from_secs(60),
            header_timeout: Duration::from_secs(10),
            reading: 400,
            mutating: 200,
            drain: Duration::from_secs(10),
        }
    }
}

/// Everything that a request can need.
pub struct Server {
    pub registry: Arc<Registry>,
    pub authenticator: Authenticator,
    /// Who may do what, in every workspace.
    pub policies: Arc<Policies>,
    /// Signs and verifies tokens of ServiceAccounts.
    pub tokens: Option<Arc<Tokens>>,
    pub admission: Chain,
    pub metrics: Metrics,
    pub limits: Limits,
    /// The way to nodes and Pods.
    pub kubelets: Arc<Kubelets>,
    /// Where traces go, if anywhere.
    pub tracer: Option<trace::Tracer>,
    /// Shown by discovery: where clients reach this server.
    pub advertised: String,
    /// What the program around it serves besides.
    pub pages: Vec<Arc<dyn Page>>,
    /// Who knows what nodes and Pods use, if anybody does.
    pub usage: Option<Arc<dyn Usage>>,
    /// How often whoever syncs a cluster is asked to say so.
    pub heartbeat: Option<Duration>,
    /// Whether controllers and the scheduler run beside it.
    pub runs_controllers: bool,
    /// Whether the pods of all workloads are made here, as in a simulated cluster.
    pub runs_workloads: bool,
    /// Who listens to the views of clusters.
    pub(crate) listening: sync::Listening,
    /// How many events of clusters are shown.
    pub(crate) happenings: sync::Limits,
    /// Which reports of clusters come too late.
    pub(crate) orders: sync::Orders,
    inflight: InFlight,
    shelves: Arc<Shelves>,
    /// Turns true when the server is about to stop.
    stopping: watch::Sender<bool>,
}

/// Something that is not Kubernetes' API. Whoever may use such a path by the rules of the root workspace gets to it.
pub trait Page: Send + Sync + 'static {
    /// Where it is.
    fn path(&self) -> &'static str;

    /// What is answered there; `below` is what stands behind its path.
    fn answer(&self, method: &Method, below: &str, body: &[u8]) -> Result<Value, Status>;
}

impl Server {
    pub fn new(
        registry: Arc<Registry>,
        policies: Arc<Policies>,
        limits: Limits,
        advertised: String,
        metrics: Metrics,
        shelves: Arc<Shelves>,
        kubelets: Arc<Kubelets>,
    ) -> Self {
        Server {
            shelves,
            pages: Vec::new(),
            usage: None,
            heartbeat: None,
            runs_controllers: false,
            runs_workloads: false,
            listening: sync::Listening::default(),
            happenings: sync::Limits::default(),
            orders: sync::Orders::default(),
            inflight: InFlight::new(limits.reading, limits.mutating, limits.header_timeout),
            admission: Chain::default(),
            tokens: None,
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

    /// The page that a path is on, and what stands behind its own.
    fn page<'a>(&self, path: &'a str) -> Option<(&dyn Page, &'a str)> {
        self.pages.iter().find_map(|page| {
            let below = path.strip_prefix(page.path())?;
            (below.is_empty() || below.starts_with('/')).then(|| (&**page, below.trim_matches('/')))
        })
    }

    /// From now on the server is not ready, and watches end.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns once the server was told to stop.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            // A sender that is gone has stopped as well.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }
}
