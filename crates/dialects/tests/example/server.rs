//! A server in this process with a store in memory and the dialects of a test.

use std::net::SocketAddr;
use std::sync::Arc;

use atoll_authn::service_account::{KeyRing, Tokens};
use atoll_authz::Policies;
use atoll_client::Client;
use atoll_client::dialing::TenantAddresses;
use atoll_dialects::Registration;
use atoll_informer::{ApiScope, Informers, SystemClock, Tree};
use atoll_registry::bootstrap::{self, BootstrapOptions};
use atoll_registry::placement::Placements;
use atoll_registry::{Catalog, Decoder, Network, Profile, Registry};
use atoll_server::connect::kubelets::Kubelets;
use atoll_server::local::{CONTROLLERS, Local};
use atoll_server::metrics::Metrics;
use atoll_server::{DiscoveryCache, Limits, Server};
use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Store, Write};
use atoll_watch::{Cache, Observer, layer};
use serde_json::json;

pub struct TestServer {
    server: Arc<Server>,
    /// The workspaces that the controllers know.
    pub tree: Arc<Tree>,
    _directory: tempfile::TempDir,
}

impl TestServer {
    pub async fn start(dialects: &[Registration]) -> TestServer {
        let store = Arc::new(MemoryStore::new());
        store.raise(layer::REVISION).await.expect("the store is empty");
        let identity = json!({ "metadata": { "name": "self", "uid": "identity" } }).to_string();
        let write = Write {
            key: layer::identity_key(),
            expect: Condition::Absent,
            value: Some(identity.into()),
            guards: Vec::new(),
            hint: None,
        };
        store.write(write).await.expect("the store is empty");
        let hooks = dialects.iter().map(|registration| registration.dialect.clone()).collect();
        let catalog = Arc::new(Catalog::with_dialects(Profile::Full, hooks));
        let (network, endpoint) = (Network::default(), SocketAddr::from(([127, 0, 0, 1], 6443)));
        let birth = BootstrapOptions {
            created: 0,
            endpoint,
            network: &network,
            authority: "",
            controller_objects: true,
        };
        let layer = bootstrap::layer(&catalog, &birth);
        let (policies, placements) = (Arc::new(Policies::new(&layer)), Arc::new(Placements::default()));
        let observers: Vec<Arc<dyn Observer>> = vec![policies.clone(), placements.clone()];
        let decoder = Arc::new(Decoder { catalog: catalog.clone(), placements: placements.clone() });
        let limits = atoll_watch::Limits { bytes: 8 << 20 };
        let cache = Cache::open(store.as_ref(), decoder, layer, limits, observers).await.expect("a cache");
        let discovery_cache = Arc::new(DiscoveryCache::new(&catalog));
        let (naming, usage, clock) =
            (tokio::sync::Mutex::default(), Arc::default(), Arc::new(atoll_registry::SystemClock));
        let registry = Registry { store, cache, catalog, clock, network, naming, placements, usage };
        let mut server = Server::new(
            Arc::new(registry),
            policies,
            Limits::default(),
            endpoint.to_string(),
            Metrics::new(),
            discovery_cache,
            Arc::new(Kubelets::new(None, None).expect("no certificates are needed")),
        );
        let directory = tempfile::tempdir().expect("a directory");
        let keys = KeyRing::open(directory.path()).expect("keys");
        server.tokens = Some(Arc::new(Tokens::new("https://example", keys)));
        TestServer { server: Arc::new(server), tree: Arc::default(), _directory: directory }
    }

    /// A client of an administrator.
    pub fn admin(&self) -> Client {
        Client::new(Arc::new(Local::new(&self.server, "admin")))
    }

    /// A client of the control plane's controllers.
    pub fn controllers(&self) -> Client {
        Client::new(Arc::new(Local::new(&self.server, CONTROLLERS)))
    }

    /// Runs the controllers of dialects that have one of these names.
    pub fn run(&self, dialects: Vec<Registration>, names: &'static [&'static str]) {
        let api = ApiScope::all_workspaces(self.controllers(), self.tree.clone());
        let tenants = Arc::new(TenantAddresses::unrestricted());
        tokio::spawn(atoll_dialects::run(
            dialects,
            Informers::new(api),
            Arc::new(SystemClock),
            "https://example".into(),
            tenants,
            Arc::default(),
            |name: &str, _: &str| names.contains(&name),
        ));
    }
}
