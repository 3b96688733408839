//! A control plane: an API server with its store, certificates and controllers. A process may run several,
//! which share the data that does not depend on one of them.
//!
//! ```text
//!   SharedCatalog (catalog, discovery) ──┬─► ControlPlane "atoll": disk
//!                                        └─► ControlPlane "east":  disk or memory, Simulation (clock, faults)
//! ```

mod identity;
mod identity_lease;
mod maintenance;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::Authenticator;
use atoll_authn::authority::{Authority, Identity, Purpose};
use atoll_authn::service_account::{KeyRing, Tokens};
use atoll_authz::Policies;
use atoll_client::Client;
use atoll_client::dialing::TenantAddresses;
use atoll_controllers::Setup;
use atoll_controllers::catalog::ControllerSelection;
use atoll_controllers::context::{Signers, WorkloadScope};
use atoll_informer::{ApiScope, Informers, Tree};
use atoll_registry::bootstrap::{self, BootstrapOptions};
use atoll_registry::placement::Placements;
use atoll_registry::usage::Usage;
use atoll_registry::{
    Catalog, Clock, Decoder, Network, Profile, Registry, SystemClock, custom_keys, definitions, dialect,
    expiry,
};
use atoll_server::listen::ListenerConfig;
use atoll_server::local::Local;
use atoll_server::metrics::Metrics;
use atoll_server::trace::Tracer;
use atoll_server::{AdmissionChain, DiscoveryCache, Limits, Server, listen};
use atoll_sim::KubeletListener;
use atoll_sqlite::SqliteStore;
use atoll_store::Store;
use atoll_store::memory::MemoryStore;
use atoll_syncer::Push;
use atoll_watch::{Cache, Observer};
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::certificates::{self, Certificates};
use crate::encryption;
use crate::kubelets::KubeletSettings;
use crate::sim::{GatedTransport, Meter, Simulation, kubelets};

/// Data shared by control planes of the same profile.
pub struct SharedCatalog {
    catalog: Arc<Catalog>,
    discovery_cache: Arc<DiscoveryCache>,
}

impl SharedCatalog {
    pub fn new(profile: Profile) -> Arc<Self> {
        let catalog = Arc::new(Catalog::new(profile));
        Arc::new(SharedCatalog { discovery_cache: Arc::new(DiscoveryCache::new(&catalog)), catalog })
    }
}

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
            limits: Limits::default(),
            tracer: None,
            encryption: None,
            issuer: atoll_authn::ISSUER.into(),
            key_days: 90,
            certificate_lifetime: Duration::from_secs(365 * 86_400),
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
}

/// A running control plane.
pub struct ControlPlane {
    pub name: String,
    pub server: Arc<Server>,
    /// Address for clients.
    pub advertised: SocketAddr,
    /// Address for the administrator of a simulated cluster, which faults do not affect.
    pub control: Option<SocketAddr>,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    pub authority_pem: String,
    pub identity: Identity,
    /// The listener for the kubelets of simulated nodes, until the nodes are created.
    pub kubelet_listener: Option<KubeletListener>,
    /// The informers of the controllers, shared with other components.
    pub informers: Arc<Informers>,
    simulation: Option<Arc<Simulation>>,
    tasks: JoinSet<()>,
    serving: Vec<JoinHandle<()>>,
    disk: Option<Arc<SqliteStore>>,
}

/// The certificate authorities and keys in the data directory.
struct KeyMaterial {
    authority: Arc<Authority>,
    kubelets: Arc<Authority>,
    workspaces: Arc<Authority>,
    keys: KeyRing,
}

impl ControlPlane {
    /// Starts a control plane. Returns when it serves.
    pub async fn start(settings: PlaneSettings) -> Result<ControlPlane, String> {
        let (disk, store) = open_store(&settings).await?;
        let listener = bind(settings.listen, settings.any_port).await?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let advertised =
            SocketAddr::new(settings.advertise.unwrap_or_else(|| reachable(address.ip())), address.port());
        let now = OffsetDateTime::now_utc();
        let key_material = key_material(&settings.directory, now).await?;
        let KeyMaterial { authority, kubelets: kubelet_authority, workspaces, keys } = key_material;
        let control = match &settings.simulation {
            Some(_) => Some(bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false).await?),
            None => None,
        };
        let control_address = match &control {
            Some(listener) => Some(listener.local_addr().map_err(|error| error.to_string())?),
            None => None,
        };
        let tenants = match settings.allow_tenant_addresses {
            true => TenantAddresses::unrestricted(),
            false => TenantAddresses::restricted(vec![address.ip(), advertised.ip()]),
        };
        let (kubelets, kubelet_listener) = match &settings.simulation {
            Some(_) => {
                let (kubelets, kubelet_listener) =
                    kubelets::connect(&authority, &kubelet_authority, now).await?;
                (Arc::new(kubelets), Some(kubelet_listener))
            }
            None => {
                let lifetime = settings.certificate_lifetime;
                let mut own = settings.kubelets.kubelets(&authority, &kubelet_authority, now, lifetime)?;
                own.tenants = tenants.clone();
                (Arc::new(own), None)
            }
        };
        let renews = settings.simulation.is_none() && settings.kubelets.uses_own_authority();
        let tenants = Arc::new(tenants);
        let certificates = Certificates {
            name: settings.name.clone(),
            authority: authority.clone(),
            workspaces: workspaces.clone(),
            listening: address.ip(),
            advertised,
            control: control_address,
            kubeconfig: certificates::kubeconfig_path(&settings.directory),
            other: settings.other_kubeconfig.clone(),
            lifetime: settings.certificate_lifetime,
            kubelets: renews.then(|| kubelets.clone()),
        };
        let tls = certificates.tls(now)?;
        let kubeconfig = certificates.kubeconfig.clone();
        let metrics = Metrics::new();
        let (registry, policies) = registry(&settings, metrics.timed(store), advertised, &authority).await?;
        let mut server = Server::new(
            registry,
            policies,
            settings.limits,
            advertised.to_string(),
            metrics,
            settings.shared.discovery_cache.clone(),
            kubelets,
        );
        server.authenticator = settings.authenticator;
        server.admission = settings.admission;
        server.tracer = settings.tracer;
        let tokens = Arc::new(Tokens::new(&settings.issuer, keys));
        server.tokens = Some(tokens.clone());
        if let Some(simulation) = &settings.simulation {
            server.endpoints.push(simulation.clone());
        }
        if let Some(kubelet_listener) = kubelet_listener.as_ref().filter(|_| settings.metrics_api) {
            server.usage = Some(Arc::new(Meter::new(kubelet_listener.measurements.clone())));
        }
        let heartbeat =
            settings.cluster_heartbeat.unwrap_or(settings.controller_settings.cluster_grace_period / 4);
        server.heartbeat = Some(heartbeat);
        server.runs_controllers = settings.controllers.any();
        server.runs_workloads = settings.simulation.is_some();
        let server = Arc::new(server);
        let identity = certificates.write_kubeconfig(now)?;
        let authority_pem = authority.certificate_pem.clone();

        let mut tasks = JoinSet::new();
        tasks.spawn(certificates.keep_renewed(tls.clone(), now, OffsetDateTime::now_utc));
        tasks.spawn(maintenance::rotate_token_keys(server.clone(), settings.directory, settings.key_days));
        tasks.spawn(maintenance::compact_history(server.clone(), settings.history));
        if let Some(events) = server.registry.catalog.stored("", "events") {
            tasks.spawn(expiry::expire(server.registry.clone(), events.clone(), expiry::EVENT_TTL));
        }
        tasks.spawn(definitions::run(server.registry.clone()));
        let fault_injector = settings.simulation.as_ref().map(|simulation| simulation.network_faults());
        let listener_config = ListenerConfig { tls: tls.clone(), fault_injector, own_clock: true };
        let mut serving = vec![tokio::spawn(listen::serve(server.clone(), listener, listener_config))];
        if let Some(control) = control {
            let listener_config = ListenerConfig { tls, fault_injector: None, own_clock: false };
            serving.push(tokio::spawn(listen::serve(server.clone(), control, listener_config)));
        }
        // A simulated cluster has only one workspace.
        let tree = Arc::new(Tree::default());
        let client = client(&server, settings.simulation.as_ref(), "system:atoll-controllers");
        let (api, acts) = match &settings.simulation {
            Some(_) => (ApiScope::single(client.clone()), WorkloadScope::All),
            None => (ApiScope::all_workspaces(client.clone(), tree.clone()), WorkloadScope::PodGrain),
        };
        let mut plane = ControlPlane {
            name: settings.name,
            kubelet_listener,
            informers: Informers::new(api),
            server,
            advertised,
            control: control_address,
            kubeconfig,
            authority_pem,
            identity,
            simulation: settings.simulation,
            tasks,
            serving,
            disk,
        };
        if plane.simulation.is_none() && settings.controllers.includes_alias("clusterpush") {
            let (informers, clock) = (plane.informers.clone(), plane.clock());
            let push = Push {
                informers,
                clock,
                random: crate::syncer::random(),
                interval: heartbeat,
                budgets: plane.server.metrics.clusters.clone(),
                root: bootstrap::ROOT.into(),
                tenants: tenants.clone(),
            };
            plane.tasks.spawn(atoll_syncer::push(push));
        }
        if plane.simulation.is_none() {
            plane.tasks.spawn(dialect::labels::run(plane.server.registry.clone()));
        }
        if plane.simulation.is_none() && settings.identity_lease {
            plane.tasks.spawn(identity_lease::run(plane.server.registry.clone()));
        }
        if plane.simulation.is_none() && settings.controllers.includes_alias("kcpcluster") {
            let setup = crate::dialect::kcp::Setup {
                informers: plane.informers.clone(),
                clock: plane.clock(),
                registry: plane.server.registry.clone(),
                address: format!("https://{advertised}"),
                tenants,
            };
            plane.tasks.spawn(crate::dialect::kcp::run(setup));
        }
        if settings.controllers.any() {
            let setup = Setup {
                client,
                tree,
                informers: plane.informers.clone(),
                signers: Signers {
                    kubelets: Some(kubelet_authority),
                    workspaces: Some(workspaces),
                    ..Signers::of(authority, tokens)
                },
                clock: plane.clock(),
                workloads: acts,
                controllers: settings.controllers,
                settings: settings.controller_settings,
            };
            plane.tasks.spawn(atoll_controllers::run(setup));
        }
        Ok(plane)
    }

    /// A client of the API for a component.
    pub fn client(&self, user: &str) -> Client {
        client(&self.server, self.simulation.as_ref(), user)
    }

    /// The clock of everything in this control plane.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.server.registry.clock.clone()
    }

    /// Runs a task until the control plane stops.
    pub fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Waits for requests to finish, then stops all tasks and closes the store.
    pub async fn stop(mut self) -> Result<(), String> {
        if let Some(simulation) = &self.simulation {
            // Remove all faults: delayed requests could not finish.
            simulation.clear();
        }
        self.server.stop();
        for serving in self.serving {
            serving.await.map_err(|error| error.to_string())?;
        }
        self.tasks.shutdown().await;
        if let Some(disk) = &self.disk {
            disk.close().await;
        }
        Ok(())
    }
}

fn client(server: &Arc<Server>, simulation: Option<&Arc<Simulation>>, user: &str) -> Client {
    let local = Local::new(server, user);
    match simulation {
        Some(simulation) => Client::new(Arc::new(GatedTransport::new(local, simulation))),
        None => Client::new(Arc::new(local)),
    }
}

async fn bind(address: SocketAddr, any_port: bool) -> Result<TcpListener, String> {
    match listen::bind(address).await {
        Err(error) if any_port && error.kind() == std::io::ErrorKind::AddrInUse => {
            let any = SocketAddr::new(address.ip(), 0);
            listen::bind(any).await.map_err(|error| cannot_listen(any, &error))
        }
        bound => bound.map_err(|error| cannot_listen(address, &error)),
    }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> String {
    format!(
        "cannot listen on {address}: {error}; choose another address with --listen, or stop the program that uses it"
    )
}

/// The address for clients on this machine.
fn reachable(listening: IpAddr) -> IpAddr {
    if listening.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listening }
}

type OpenedStore = (Option<Arc<SqliteStore>>, Arc<dyn Store>);

async fn open_store(settings: &PlaneSettings) -> Result<OpenedStore, String> {
    let synchronous = match settings.storage {
        StorageMode::Memory => return Ok((None, Arc::new(MemoryStore::new()))),
        StorageMode::Durable => atoll_sqlite::Synchronous::Full,
        StorageMode::Relaxed => atoll_sqlite::Synchronous::Off,
    };
    let directory = settings.directory.clone();
    let options = atoll_sqlite::SqliteOptions { synchronous, ..atoll_sqlite::SqliteOptions::default() };
    let sqlite = blocking(move || SqliteStore::open(&directory, options)).await?;
    let sqlite = Arc::new(sqlite.map_err(|error| error.to_string())?);
    let encrypted =
        encryption::open_encrypted(sqlite.clone(), &settings.directory, settings.encryption.as_deref());
    Ok((Some(sqlite), encrypted.await?))
}

/// Reads the authorities and keys, or creates them. Runs on a blocking thread, because key generation is
/// slow.
async fn key_material(directory: &Path, now: OffsetDateTime) -> Result<KeyMaterial, String> {
    let directory = directory.to_path_buf();
    let key_material = blocking(move || -> Result<KeyMaterial, atoll_authn::authority::AuthorityError> {
        let authority = |purpose: Purpose| Authority::open_for(purpose, &directory, now).map(Arc::new);
        Ok(KeyMaterial {
            authority: authority(Purpose::Server)?,
            kubelets: authority(Purpose::Kubelets)?,
            workspaces: authority(Purpose::Workspaces)?,
            keys: KeyRing::open(&directory)?,
        })
    });
    key_material.await?.map_err(|error| error.to_string())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

async fn registry(
    settings: &PlaneSettings,
    store: Arc<dyn Store>,
    endpoint: SocketAddr,
    authority: &Authority,
) -> Result<(Arc<Registry>, Arc<Policies>), String> {
    let catalog = settings.shared.catalog.clone();
    let decoder = Arc::new(Decoder { catalog: catalog.clone() });
    identity::ensure(store.as_ref()).await?;
    custom_keys::migrate(&store).await.map_err(|error| {
        format!("the data in {} cannot be migrated: {error}", settings.directory.display())
    })?;
    let birth = BootstrapOptions {
        created: first_start(&settings.directory)?,
        endpoint,
        network: &settings.network,
        authority: &authority.certificate_pem,
        controller_objects: maintains_default_objects(&settings.controllers),
    };
    let layer = bootstrap::layer(&catalog, &birth);
    let limits = atoll_watch::Limits { bytes: settings.history_bytes };
    let policies = Arc::new(Policies::new(&layer));
    let placements = Arc::new(Placements::default());
    let usage = Arc::new(Usage::default());
    let observers: Vec<Arc<dyn Observer>> = vec![policies.clone(), placements.clone(), usage.clone()];
    let cache = Cache::open(store.as_ref(), decoder, layer, limits, observers).await;
    let cache = cache
        .map_err(|error| format!("the data in {} cannot be read: {error:?}", settings.directory.display()))?;
    let clock: Arc<dyn Clock> = match &settings.simulation {
        Some(simulation) => simulation.clock(),
        None => Arc::new(SystemClock),
    };
    let (network, naming) = (settings.network.clone(), tokio::sync::Mutex::default());
    let registry = Registry { store, cache, catalog, clock, network, naming, placements, usage };
    Ok((Arc::new(registry), policies))
}

/// Whether all controllers run that maintain the default objects of the bootstrap layer.
fn maintains_default_objects(choice: &ControllerSelection) -> bool {
    let controllers = ["serviceaccount", "root-ca-cert-publisher", "clusterrole-aggregation"];
    controllers.iter().all(|alias| choice.includes_alias(alias))
}

/// When this data directory was first used: the creation time of bootstrap objects.
fn first_start(directory: &Path) -> Result<i64, String> {
    let path = directory.join("ca.crt");
    let made = std::fs::metadata(&path).and_then(|metadata| metadata.modified());
    let made = made.map_err(|error| format!("{}: {error}", path.display()))?;
    let since = made.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(since.as_secs().cast_signed())
}
