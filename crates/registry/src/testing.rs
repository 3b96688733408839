//! A registry with an in-memory store, for tests.

use std::sync::Arc;

use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Store, Write};
use atoll_watch::{Cache, Layer, Limits};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::placement::Placements;
use crate::{Catalog, Decoder, Network, Profile, Registry, SystemClock};

/// The group of the example dialect.
pub(crate) const EXAMPLE_GROUP: &str = "dialect.example.com";

/// A dialect with one kind, `clusters`.
struct ExampleDialect;

impl Dialect for ExampleDialect {
    fn name(&self) -> &'static str {
        "example"
    }

    fn definitions(&self) -> Vec<Value> {
        let names = json!({ "plural": "clusters", "singular": "one", "kind": "One", "listKind": "OneList" });
        vec![json!({
            "metadata": { "name": format!("clusters.{EXAMPLE_GROUP}") },
            "spec": { "group": EXAMPLE_GROUP, "scope": "Cluster", "names": names, "versions": [] },
            "status": { "acceptedNames": names },
        })]
    }
}

/// A registry of the minimal profile with these stored objects.
pub(crate) async fn registry(objects: &[(Key, Value)]) -> Arc<Registry> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for (key, value) in objects {
        let value = Some(Bytes::from(value.to_string()));
        let write =
            Write { key: key.clone(), expect: Condition::Absent, value, guards: Vec::new(), hint: None };
        store.write(write).await.expect("an empty store");
    }
    let catalog = Arc::new(Catalog::with_dialects(Profile::Minimal, vec![Arc::new(ExampleDialect)]));
    let placements = Arc::new(Placements::default());
    let decoder = Arc::new(Decoder { catalog: catalog.clone(), placements: placements.clone() });
    let limits = Limits { bytes: 1 << 20 };
    let cache = Cache::open(store.as_ref(), decoder, Layer::default(), limits, vec![placements.clone()]);
    Arc::new(Registry {
        cache: cache.await.expect("a store in memory"),
        store,
        catalog,
        clock: Arc::new(SystemClock),
        network: Network::default(),
        naming: tokio::sync::Mutex::default(),
        placements,
        usage: Arc::default(),
    })
}

/// The stored keys of a workspace.
pub(crate) fn keys(registry: &Registry, workspace: &str) -> Vec<String> {
    let keys = registry.snapshot().keys_of_workspace(workspace);
    keys.into_iter().map(|key| key.to_string()).collect()
}
