//! The context that every controller gets.

use std::sync::Arc;

use atoll_authn::authority::Authority;
use atoll_authn::service_account::Tokens;
use atoll_informer::{ApiScope, Clock, Events, Informers};
use atoll_meta::object;
use serde_json::Value;

use crate::settings::Settings;

/// Annotation that says whether the pods of a workload are created here or in the cluster where it is placed.
pub const GRAIN: &str = "atoll.dev/grain";

#[derive(Clone)]
pub struct Context {
    pub informers: Arc<Informers>,
    pub events: Events,
    pub clock: Arc<dyn Clock>,
    pub workloads: WorkloadScope,
    pub settings: Arc<Settings>,
    pub signers: Signers,
    /// The parts of an object that name clusters in the words of a dialect.
    pub intents: Intents,
    /// Whether a scheduler places workloads, and tells why it does not place one.
    pub has_scheduler: bool,
}

/// Returns each part of an object that names a cluster, such as `label example.com/cluster`, with that name.
pub type Intents = Arc<dyn Fn(&Value) -> Vec<(String, String)> + Send + Sync>;

/// Signers of certificates and tokens, and the root CA. A controller without its signer is disabled.
#[derive(Clone, Default)]
pub struct Signers {
    /// Signs approved certificate signing requests.
    pub authority: Option<Arc<Authority>>,
    /// Signs the serving certificates of kubelets, if set. Where users other than the administrator may
    /// approve them, no client of the API may trust this authority.
    pub kubelets: Option<Arc<Authority>>,
    /// Signs client certificates that are valid in one workspace only, if set.
    pub workspaces: Option<Arc<Authority>>,
    /// Signs tokens that are stored in Secrets.
    pub tokens: Option<Arc<Tokens>>,
    /// CA certificates that clients of the API trust, as PEM.
    pub root_ca: Option<Arc<str>>,
}

/// Workloads whose pods are created by these controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadScope {
    /// All workloads, as in a cluster.
    All,
    /// Workloads that are placed pod by pod. The pods of other workloads are created in member clusters.
    PodGrain,
}

impl Signers {
    /// Creates signers from one authority, which clients trust, and a token signer.
    pub fn of(authority: Arc<Authority>, tokens: Arc<Tokens>) -> Signers {
        let root_ca = Some(authority.certificate_pem.as_str().into());
        Signers {
            authority: Some(authority),
            kubelets: None,
            workspaces: None,
            tokens: Some(tokens),
            root_ca,
        }
    }
}

impl Context {
    pub fn new(api: ApiScope, clock: Arc<dyn Clock>, workloads: WorkloadScope) -> Context {
        Context::sharing(Informers::new(api), clock, workloads)
    }

    /// Creates a context that shares informers with other controllers.
    pub fn sharing(informers: Arc<Informers>, clock: Arc<dyn Clock>, workloads: WorkloadScope) -> Context {
        let events = Events::new(informers.api().clone(), clock.clone());
        let intents: Intents = Arc::new(|_| Vec::new());
        let (settings, signers) = (Arc::default(), Signers::default());
        Context { informers, events, clock, workloads, settings, signers, intents, has_scheduler: false }
    }

    pub fn with_settings(self, settings: Settings) -> Context {
        Context { settings: Arc::new(settings), ..self }
    }

    pub fn with_signers(self, signers: Signers) -> Context {
        Context { signers, ..self }
    }

    pub fn with_intents(self, intents: Intents) -> Context {
        Context { intents, ..self }
    }

    pub fn with_scheduler(self, has_scheduler: bool) -> Context {
        Context { has_scheduler, ..self }
    }

    pub fn api(&self) -> &ApiScope {
        self.informers.api()
    }

    /// Whether controllers of pods handle this object.
    pub fn manages(&self, object: &Value) -> bool {
        self.workloads == WorkloadScope::All || object::annotation(object, GRAIN) == Some("pod")
    }
}
