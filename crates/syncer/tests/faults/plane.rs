//! A server in this process: the real one, over memory, by the time of the test.

use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use atoll_authz::Policies;
use atoll_client::Client;
use atoll_controllers::Setup;
use atoll_controllers::catalog::Choice;
use atoll_controllers::context::{Acts, Context, Signers};
use atoll_controllers::settings::Settings;
use atoll_informer::{Informers, Tree, World};
use atoll_meta::time::Timestamp;
use atoll_registry::bootstrap::{self, Birth, ROOT};
use atoll_registry::catalog::ATOLL;
use atoll_registry::placement::Placements;
use atoll_registry::{Catalog, Decoder, Network, Profile, Registry};
use atoll_server::connect::kubelets::Kubelets;
use atoll_server::local::Local;
use atoll_server::metrics::Metrics;
use atoll_server::{Limits, Server, Shelves};
use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Entry, Key, Range, Revision, Store, Write};
use atoll_watch::{Cache, Observer, layer};
use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::spots::SPACES;

/// When tests begin.
const BIRTH: i64 = 1_700_000_000;

/// What all servers have in common.
struct Common {
    catalog: Arc<Catalog>,
    shelves: Arc<Shelves>,
}

fn common() -> &'static Common {
    static COMMON: OnceLock<Common> = OnceLock::new();
    COMMON.get_or_init(|| {
        let catalog = Arc::new(Catalog::new(Profile::Full));
        Common { shelves: Arc::new(Shelves::new(&catalog)), catalog }
    })
}

/// Time passes as the test lets it, and the clock of a machine is set as the test likes.
#[derive(Clone, Copy)]
pub struct Clock(pub Instant, &'static AtomicI64);

impl Clock {
    /// That of a machine of its own. There are few of them in a test, and they are never given back.
    pub fn new(began: Instant) -> Clock {
        Clock(began, Box::leak(Box::default()))
    }

    /// Sets it so many seconds forward, or back, from what is right.
    pub fn set(&self, seconds: i64) {
        self.1.store(seconds, Ordering::Relaxed);
    }

    fn wrong(&self) -> i64 {
        self.1.load(Ordering::Relaxed)
    }
}

impl atoll_registry::Clock for Clock {
    fn now(&self) -> i64 {
        BIRTH + self.0.elapsed().as_secs().cast_signed() + self.wrong()
    }
}

impl atoll_informer::Clock for Clock {
    fn now(&self) -> Timestamp {
        let passed = self.0.elapsed();
        Timestamp::new(BIRTH + passed.as_secs().cast_signed() + self.wrong(), passed.subsec_nanos())
    }
}

pub struct Plane {
    pub name: &'static str,
    pub server: Arc<Server>,
    /// Of an administrator whom nothing disturbs.
    pub client: Client,
    pub clock: Clock,
    /// What runs beside it, and ends with it.
    beside: Mutex<JoinSet<()>>,
}

/// Controllers of a control plane that these tests are about: namespaces end, claims are let go of, and what placed objects
/// refer to follows them.
const ABOVE: &str = "namespace,pvc-protection,placementfollower,workspace";
/// And those of a cluster.
const BELOW: &str = "namespace,pvc-protection";

/// Everything a server has stored, and up to which revision.
pub struct Copy {
    entries: Vec<Entry>,
    pub revision: Revision,
}

impl Plane {
    /// A new one.
    pub async fn new(name: &'static str, clock: Clock) -> Arc<Plane> {
        let store = Arc::new(MemoryStore::new());
        let identity = json!({ "metadata": { "name": "self", "uid": format!("identity-of-{name}") } });
        store.raise(layer::REVISION).await.expect("an empty store");
        write(&store, layer::identity_key(), identity.to_string().into()).await;
        for space in &SPACES[1..] {
            // As if it had been created, but for the id, which would be another one every time.
            let name = space.prefix.rsplit(':').next().unwrap_or_default();
            let workspace = json!({
                "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace",
                "metadata": { "name": name, "uid": format!("workspace-{name}"), "finalizers": ["atoll.dev/contents"] },
                "spec": {}, "status": { "id": space.id, "phase": "Ready" },
            });
            let key = Key::object(ATOLL, "workspaces", ROOT, "", name);
            write(&store, key, atoll_meta::json::encode_object(&workspace).into()).await;
        }
        Plane::open(name, clock, store).await
    }

    /// One that has what another had once. Its revisions go on where those of the other have ended.
    pub async fn restored(name: &'static str, clock: Clock, copy: &Copy, beyond: Revision) -> Arc<Plane> {
        let store = Arc::new(MemoryStore::new());
        store.raise(layer::REVISION).await.expect("an empty store");
        for entry in &copy.entries {
            write(&store, entry.key.clone(), entry.value.clone()).await;
        }
        store.raise(beyond.max(copy.revision) + 1000).await.expect("revisions only grow");
        Plane::open(name, clock, store).await
    }

    pub async fn copy(&self) -> Copy {
        let range = Range { start: Bound::Unbounded, end: Bound::Unbounded };
        let page = self.server.registry.store.range(range, None, 0).await.expect("memory");
        Copy { entries: page.entries, revision: page.revision }
    }

    /// Forgets the past: whoever watches from there is told that it has expired.
    pub fn expire(&self) {
        self.server.registry.cache.expire(std::time::Duration::ZERO);
    }

    async fn open(name: &'static str, clock: Clock, store: Arc<MemoryStore>) -> Arc<Plane> {
        let Common { catalog, shelves } = common();
        let network = Network::default();
        let endpoint = SocketAddr::from(([127, 0, 0, 1], 6443));
        let birth = Birth { created: BIRTH, endpoint, network: &network, authority: "", belongings: true };
        let layer = bootstrap::layer(catalog, &birth);
        let (policies, placements) = (Arc::new(Policies::new(&layer)), Arc::new(Placements::default()));
        let observers: Vec<Arc<dyn Observer>> = vec![policies.clone(), placements.clone()];
        let decoder = Arc::new(Decoder { catalog: catalog.clone() });
        let limits = atoll_watch::Limits { bytes: 8 << 20 };
        let cache = Cache::open(store.as_ref(), decoder, layer, limits, observers).await.expect("memory");
        let (naming, usage) = (tokio::sync::Mutex::default(), Arc::default());
        let catalog = catalog.clone();
        let registry =
            Registry { store, cache, catalog, clock: Arc::new(clock), network, naming, placements, usage };
        let kubelets = Arc::new(Kubelets::new(None, None).expect("nobody's certificates"));
        let (metrics, advertised) = (Metrics::new(), endpoint.to_string());
        let server = Server::new(
            Arc::new(registry),
            policies,
            Limits::default(),
            advertised,
            metrics,
            shelves.clone(),
            kubelets,
        );
        let server = Arc::new(server);
        let client = Client::new(Arc::new(Local::new(&server, "system:administrator")));
        Arc::new(Plane { name, server, client, clock, beside: Mutex::default() })
    }

    /// Runs the controllers of a control plane over `client`.
    pub fn govern(&self, client: Client) {
        let (tree, clock) = (Arc::new(Tree::default()), Arc::new(self.clock));
        let informers = Informers::new(World::all(client.clone(), tree.clone()));
        let setup = Setup {
            client,
            tree,
            informers,
            signers: Signers::default(),
            clock,
            acts: Acts::OnPodGrain,
            choice: ABOVE.parse().expect("controllers"),
            settings: Settings::default(),
        };
        self.beside().spawn(atoll_controllers::run(setup));
    }

    /// Runs those of a cluster.
    pub fn live(&self) {
        let world = World::one(Client::new(Arc::new(self.transport("system:controllers"))));
        let context = Context::new(world, Arc::new(self.clock), Acts::Everywhere);
        let choice: Choice = BELOW.parse().expect("controllers");
        self.beside().spawn(async move { atoll_controllers::run_chosen(context, &choice).await });
    }

    fn beside(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same server for somebody who is not the administrator.
    pub fn transport(&self, user: &str) -> Local {
        Local::new(&self.server, user)
    }
}

async fn write(store: &MemoryStore, key: Key, value: Bytes) {
    let write = Write { key, expect: Condition::Absent, value: Some(value), guards: Vec::new(), memo: None };
    store.write(write).await.expect("memory");
}
