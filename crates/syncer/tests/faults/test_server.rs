//! A real server in this process, with a store in memory and the clock of the test.

use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use atoll_authz::Policies;
use atoll_client::Client;
use atoll_controllers::Setup;
use atoll_controllers::catalog::ControllerSelection;
use atoll_controllers::context::{Context, Signers, WorkloadScope};
use atoll_controllers::settings::Settings;
use atoll_informer::{ApiScope, Informers, Tree};
use atoll_meta::time::Timestamp;
use atoll_registry::bootstrap::{self, BootstrapOptions, ROOT};
use atoll_registry::catalog::ATOLL;
use atoll_registry::placement::Placements;
use atoll_registry::{Catalog, Decoder, Network, Profile, Registry};
use atoll_server::connect::kubelets::Kubelets;
use atoll_server::local::Local;
use atoll_server::metrics::Metrics;
use atoll_server::{DiscoveryCache, Limits, Server};
use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Entry, Key, Range, Revision, Store, Write};
use atoll_watch::{Cache, Observer, layer};
use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::objects::WORKSPACES;

/// The time at which tests start.
const START_TIME: i64 = 1_700_000_000;

/// Parts that all servers share.
struct SharedParts {
    catalog: Arc<Catalog>,
    discovery_cache: Arc<DiscoveryCache>,
}

fn shared_parts() -> &'static SharedParts {
    static COMMON: OnceLock<SharedParts> = OnceLock::new();
    COMMON.get_or_init(|| {
        let catalog = Arc::new(Catalog::new(Profile::Full));
        SharedParts { discovery_cache: Arc::new(DiscoveryCache::new(&catalog)), catalog }
    })
}

/// A clock of a machine that follows the test's time, with an adjustable error.
#[derive(Clone, Copy)]
pub struct Clock(pub Instant, &'static AtomicI64);

impl Clock {
    /// Returns the clock of another machine. It is leaked, because a test has only a few.
    pub fn new(began: Instant) -> Clock {
        Clock(began, Box::leak(Box::default()))
    }

    /// Sets the error of the clock in seconds.
    pub fn set(&self, seconds: i64) {
        self.1.store(seconds, Ordering::Relaxed);
    }

    fn error(&self) -> i64 {
        self.1.load(Ordering::Relaxed)
    }
}

impl atoll_informer::Clock for Clock {
    fn now(&self) -> Timestamp {
        let passed = self.0.elapsed();
        Timestamp::new(START_TIME + passed.as_secs().cast_signed() + self.error(), passed.subsec_nanos())
    }
}

pub struct TestServer {
    pub name: &'static str,
    pub server: Arc<Server>,
    /// A client of an administrator without network faults.
    pub client: Client,
    pub clock: Clock,
    /// Tasks that end with the server.
    tasks: Mutex<JoinSet<()>>,
}

/// Controllers of the control plane that these tests need: deletion of namespaces and workspaces, protection
/// of claims, and placement of dependents.
const ABOVE: &str = "namespace,pvc-protection,placementfollower,workspace";
/// Controllers of the cluster.
const BELOW: &str = "namespace,pvc-protection";

/// A backup of a server's data and its revision.
pub struct Backup {
    entries: Vec<Entry>,
    pub revision: Revision,
}

impl TestServer {
    /// Starts a new server.
    pub async fn new(name: &'static str, clock: Clock) -> Arc<TestServer> {
        let store = Arc::new(MemoryStore::new());
        let identity = json!({ "metadata": { "name": "self", "uid": format!("identity-of-{name}") } });
        store.raise(layer::REVISION).await.expect("the store is empty");
        write(&store, layer::identity_key(), identity.to_string().into()).await;
        for workspace in &WORKSPACES[1..] {
            // As if it had been created, except that the id is fixed.
            let name = workspace.prefix.rsplit(':').next().unwrap_or_default();
            let workspace = json!({
                "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace",
                "metadata": { "name": name, "uid": format!("workspace-{name}"), "finalizers": ["atoll.dev/contents"] },
                "spec": {}, "status": { "id": workspace.id, "phase": "Ready" },
            });
            let key = Key::object(ATOLL, "workspaces", ROOT, "", name);
            write(&store, key, atoll_meta::json::encode_object(&workspace).into()).await;
        }
        TestServer::open(name, clock, store).await
    }

    /// Starts a server with a backup. Its revisions continue after those of the replaced server.
    pub async fn restored(
        name: &'static str,
        clock: Clock,
        copy: &Backup,
        replaced_revision: Revision,
    ) -> Arc<TestServer> {
        let store = Arc::new(MemoryStore::new());
        store.raise(layer::REVISION).await.expect("the store is empty");
        for entry in &copy.entries {
            write(&store, entry.key.clone(), entry.value.clone()).await;
        }
        store.raise(replaced_revision.max(copy.revision) + 1000).await.expect("revisions only grow");
        TestServer::open(name, clock, store).await
    }

    pub async fn backup(&self) -> Backup {
        let range = Range { start: Bound::Unbounded, end: Bound::Unbounded };
        let page =
            self.server.registry.store.range(range, None, 0).await.expect("a store in memory does not fail");
        Backup { entries: page.entries, revision: page.revision }
    }

    /// Expires the history: watches from older revisions get an error.
    pub fn expire(&self) {
        self.server.registry.cache.expire(std::time::Duration::ZERO);
    }

    async fn open(name: &'static str, clock: Clock, store: Arc<MemoryStore>) -> Arc<TestServer> {
        let SharedParts { catalog, discovery_cache } = shared_parts();
        let network = Network::default();
        let endpoint = SocketAddr::from(([127, 0, 0, 1], 6443));
        let birth = BootstrapOptions {
            created: START_TIME,
            endpoint,
            network: &network,
            authority: "",
            controller_objects: true,
        };
        let layer = bootstrap::layer(catalog, &birth);
        let (policies, placements) = (Arc::new(Policies::new(&layer)), Arc::new(Placements::default()));
        let observers: Vec<Arc<dyn Observer>> = vec![policies.clone(), placements.clone()];
        let decoder = Arc::new(Decoder { catalog: catalog.clone(), placements: placements.clone() });
        let limits = atoll_watch::Limits { bytes: 8 << 20 };
        let cache = Cache::open(store.as_ref(), decoder, layer, limits, observers)
            .await
            .expect("a store in memory does not fail");
        let (naming, usage) = (tokio::sync::Mutex::default(), Arc::default());
        let catalog = catalog.clone();
        let registry =
            Registry { store, cache, catalog, clock: Arc::new(clock), network, naming, placements, usage };
        let kubelets = Arc::new(Kubelets::new(None, None).expect("no certificates are needed"));
        let (metrics, advertised) = (Metrics::new(), endpoint.to_string());
        let server = Server::new(
            Arc::new(registry),
            policies,
            Limits::default(),
            advertised,
            metrics,
            discovery_cache.clone(),
            kubelets,
        );
        let server = Arc::new(server);
        let client = Client::new(Arc::new(Local::new(&server, "system:administrator")));
        Arc::new(TestServer { name, server, client, clock, tasks: Mutex::default() })
    }

    /// Runs the controllers of a control plane with `client`.
    pub fn run_controllers(&self, client: Client) {
        let (tree, clock) = (Arc::new(Tree::default()), Arc::new(self.clock));
        let informers = Informers::new(ApiScope::all_workspaces(client.clone(), tree.clone()));
        let setup = Setup {
            client,
            tree,
            informers,
            signers: Signers::default(),
            clock,
            workloads: WorkloadScope::PodGrain,
            controllers: ABOVE.parse().expect("the names of controllers are valid"),
            settings: Settings::default(),
            intents: Arc::new(|_| Vec::new()),
        };
        self.tasks().spawn(atoll_controllers::run(setup));
    }

    /// Runs the controllers of a cluster.
    pub fn run_cluster_controllers(&self) {
        let world = ApiScope::single(Client::new(Arc::new(self.transport("system:controllers"))));
        let context = Context::new(world, Arc::new(self.clock), WorkloadScope::All);
        let choice: ControllerSelection = BELOW.parse().expect("the names of controllers are valid");
        self.tasks().spawn(async move { atoll_controllers::run_selected(context, &choice).await });
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a transport for a user who is not the administrator.
    pub fn transport(&self, user: &str) -> Local {
        Local::new(&self.server, user)
    }
}

async fn write(store: &MemoryStore, key: Key, value: Bytes) {
    let write = Write { key, expect: Condition::Absent, value: Some(value), guards: Vec::new(), hint: None };
    store.write(write).await.expect("a store in memory does not fail");
}
