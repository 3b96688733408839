//! A control plane: an API server with its store, certificates and controllers. A process may run several,
//! which share the data that does not depend on one of them.
//!
//! ```text
//!   SharedCatalog (catalog, discovery) ──┬─► ControlPlane "atoll": disk
//!                                        └─► ControlPlane "east":  disk or memory, Simulation (clock, faults)
//! ```

mod advisor;
mod controller_threads;
mod controllers;
mod identity;
mod identity_lease;
mod key_material;
mod kubelet_client;
mod listeners;
mod maintenance;
mod registry;
mod server;
mod settings;
mod storage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use atoll_authn::authority::Identity;
use atoll_client::Client;
use atoll_informer::{Clock, Informers};
use atoll_registry::{Catalog, Profile};
use atoll_scheduler::SchedulerHandle;
use atoll_server::local::{self, Local};
use atoll_server::metrics::Metrics;
use atoll_server::{DiscoveryCache, Server};
use atoll_sim::KubeletListener;
use atoll_sqlite::SqliteStore;
use time::OffsetDateTime;
use tokio::task::{JoinHandle, JoinSet};

use self::controller_threads::ControllerThreads;
use self::controllers::ControllerApi;
use self::key_material::KeyMaterial;
use self::kubelet_client::KubeletClient;
use self::listeners::{Addresses, Listeners};
pub use self::settings::{PlaneSettings, StorageMode};
use self::storage::OpenedStore;
use crate::certificates::{self, Certificates};
use crate::sim::{GatedTransport, Simulation};

/// Data shared by control planes of the same profile.
pub struct SharedCatalog {
    catalog: Arc<Catalog>,
    discovery_cache: Arc<DiscoveryCache>,
}

impl SharedCatalog {
    pub fn new(profile: Profile) -> Arc<Self> {
        let dialects = atoll_dialects::all().into_iter().map(|registration| registration.dialect);
        let catalog = Arc::new(Catalog::with_dialects(profile, dialects.collect()));
        Arc::new(SharedCatalog { discovery_cache: Arc::new(DiscoveryCache::new(&catalog)), catalog })
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
    controller_threads: ControllerThreads,
    serving: Vec<JoinHandle<()>>,
    disk: Option<Arc<SqliteStore>>,
}

impl ControlPlane {
    /// Starts a control plane. Returns when it serves.
    pub async fn start(mut settings: PlaneSettings) -> Result<ControlPlane, String> {
        let OpenedStore { disk, store } = storage::open(&settings).await?;
        let listeners = Listeners::bind(&settings).await?;
        let addresses = listeners.addresses;
        let tenants = addresses.for_tenants(&settings);

        let now = OffsetDateTime::now_utc();
        let keys = KeyMaterial::open(&settings, now).await?;
        let kubelet_client = KubeletClient::new(&settings, &keys, &tenants, now).await?;
        let certificates = certificates(&settings, &addresses, &keys, &kubelet_client);
        let tls = certificates.tls(now)?;

        let metrics = Metrics::new();
        let store = metrics.timed(store);
        registry::migrate(&settings, &store).await?;
        let loaded = registry::load(&settings, store, addresses.advertised, &keys.authority).await?;

        let scheduler = SchedulerHandle::default();
        let server = server::create(
            &mut settings,
            loaded,
            metrics,
            addresses.advertised,
            &kubelet_client,
            &keys,
            &scheduler,
        );
        let identity = certificates.write_kubeconfig(now)?;
        let kubeconfig = certificates.kubeconfig.clone();

        let mut tasks = JoinSet::new();
        tasks.spawn(certificates.keep_renewed(tls.clone(), now, OffsetDateTime::now_utc));
        maintenance::start(&mut tasks, &server, &settings);
        let serving = listeners.serve(&server, tls, settings.simulation.as_ref())?;

        let client = client(&server, settings.simulation.as_ref(), local::CONTROLLERS);
        let api = ControllerApi::new(client, settings.simulation.as_ref());
        let controller_threads = match settings.simulation {
            Some(_) => ControllerThreads::shared(),
            None => ControllerThreads::start()?,
        };
        let mut plane = ControlPlane {
            name: settings.name.clone(),
            server,
            advertised: addresses.advertised,
            control: addresses.control,
            kubeconfig,
            authority_pem: keys.authority.certificate_pem.clone(),
            identity,
            kubelet_listener: kubelet_client.listener,
            informers: api.informers.clone(),
            simulation: settings.simulation.clone(),
            tasks,
            controller_threads,
            serving,
            disk,
        };
        plane.start_fleet(&settings, Arc::new(tenants), scheduler);
        plane.start_controllers(settings, api, keys);
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

    /// Runs a controller until the control plane stops.
    pub fn run(&mut self, controller: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(controller, &self.controller_threads.handle());
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

/// The certificates of the server and of its administrator.
fn certificates(
    settings: &PlaneSettings,
    addresses: &Addresses,
    keys: &KeyMaterial,
    kubelet_client: &KubeletClient,
) -> Certificates {
    Certificates {
        name: settings.name.clone(),
        authority: keys.authority.clone(),
        workspaces: keys.workspaces.clone(),
        listening: addresses.listening.ip(),
        advertised: addresses.advertised,
        control: addresses.control,
        kubeconfig: certificates::kubeconfig_path(&settings.directory),
        other: settings.other_kubeconfig.clone(),
        lifetime: settings.certificate_lifetime,
        kubelets: kubelet_client.is_renewed.then(|| kubelet_client.kubelets.clone()),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}
