//! The settings of a control plane.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::Authenticator;
use atoll_controllers::catalog::ControllerSelection;
use atoll_registry::Network;
use atoll_server::trace::Tracer;
use atoll_server::{AdmissionChain, Limits};

use super::SharedCatalog;
use crate::kubelets::KubeletSettings;
use crate::open_files;
use crate::sim::Simulation;

/// Where objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageMode {
    /// Written to disk before a request returns.
    Durable,
    /// Written to disk asynchronously: objects survive the process, but not a power failure.
    Relaxed,
    /// In memory only.
    Memory,
}

/// The settings of a control plane.
pub struct PlaneSettings {
    /// Name of its context in a kubeconfig.
    pub name: String,
    /// Directory of its certificates, keys and data.
    pub directory: PathBuf,
    pub shared: Arc<SharedCatalog>,
    pub storage: StorageMode,
    pub listen: SocketAddr,
    /// Whether to use any free port if that one is in use.
    pub any_port: bool,
    pub advertise: Option<IpAddr>,
    pub network: Network,
    pub admission: AdmissionChain,
    pub authenticator: Authenticator,
    pub limits: Limits,
    pub tracer: Option<Tracer>,
    pub encryption: Option<PathBuf>,
    pub issuer: String,
    pub key_days: u32,
    pub certificate_lifetime: Duration,
    /// Lifetime of the tokens that Pods in clusters get.
    pub pod_token_lifetime: Duration,
    pub history: Duration,
    pub history_bytes: usize,
    pub controllers: ControllerSelection,
    /// Whether the server renews an identity Lease. A simulated cluster has none, so that it writes nothing
    /// while idle.
    pub identity_lease: bool,
    /// Periods and timeouts of the controllers.
    pub controller_settings: atoll_controllers::settings::Settings,
    /// Interval of the heartbeats of clusters; a quarter of their grace period if it is not set.
    pub cluster_heartbeat: Option<Duration>,
    /// How the server connects to kubelets.
    pub kubelets: KubeletSettings,
    /// A second kubeconfig that contains the administrator and is kept up to date.
    pub other_kubeconfig: Option<PathBuf>,
    /// The simulation, if this is a simulated cluster.
    pub simulation: Option<Arc<Simulation>>,
    /// Whether a simulated cluster serves the resource metrics API.
    pub metrics_api: bool,
    /// Whether workspaces below root may make the server connect to any address.
    pub allow_tenant_addresses: bool,
}

impl PlaneSettings {
    /// The defaults of `atoll start`, on any port.
    pub fn new(name: &str, directory: &Path, shared: Arc<SharedCatalog>) -> Result<Self, String> {
        let network = Network::new(vec!["10.0.0.0/16".parse()?], "30000-32767".parse()?);
        Ok(PlaneSettings {
            name: name.into(),
            directory: directory.into(),
            shared,
            storage: StorageMode::Durable,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            any_port: false,
            advertise: None,
            network: network.map_err(|error| error.to_string())?,
            admission: AdmissionChain::default(),
            authenticator: Authenticator::default(),
            limits: Limits { connections: open_files::max_connections(), ..Limits::default() },
            tracer: None,
            encryption: None,
            issuer: atoll_authn::ISSUER.into(),
            key_days: 90,
            certificate_lifetime: Duration::from_secs(365 * 86_400),
            pod_token_lifetime: Duration::from_secs(3600),
            history: Duration::from_secs(300),
            history_bytes: 64 << 20,
            controllers: ControllerSelection::default(),
            identity_lease: true,
            controller_settings: atoll_controllers::settings::Settings::default(),
            cluster_heartbeat: None,
            kubelets: KubeletSettings::default(),
            other_kubeconfig: None,
            simulation: None,
            metrics_api: true,
            allow_tenant_addresses: false,
        })
    }

    /// The interval of the heartbeats of clusters.
    pub(super) fn heartbeat(&self) -> Duration {
        self.cluster_heartbeat.unwrap_or(self.controller_settings.cluster_grace_period / 4)
    }
}
