//! What definitions of custom resources do to the objects of built-in ones.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use atoll_meta::json::{self, Value};
use atoll_meta::object;
use atoll_registry::placement::Placements;
use atoll_registry::{Catalog, Decoder, Network, Place, Profile, Registry, Row, SystemClock, Unasked};
use atoll_server::fuzzing::{FieldValidation, object as decode};
use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Range, Store, Write};
use atoll_watch::{Cache, Layer, Limits};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;

use crate::Accepted;

/// The workspace whose owner writes definitions.
const WORKSPACE: &str = "aaaaaaaaaaaaaaa";

static CATALOG: LazyLock<Arc<Catalog>> = LazyLock::new(|| Arc::new(Catalog::new(Profile::Full)));

/// Whatever a definition says, it and its objects change no record of a built-in resource. The input is a list: a
/// definition, and objects.
pub fn definitions(bytes: &[u8]) -> Accepted {
    let Value::Array(parts) = json::parse(bytes).ok()?.value else { return None };
    let (definition, objects) = parts.split_first()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(write(definition, objects))
}

async fn write(definition: &Value, objects: &[Value]) -> Accepted {
    let registry = registry().await;
    let before = records(&registry).await;
    let row =
        CATALOG.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").expect("it is built in");
    let text = json::to_vec(definition);
    let mut definition = decode(row, &HeaderMap::new(), &text, FieldValidation::Ignore).ok()?.object;
    row.defaults.apply(&mut definition);
    let name = object::name(&definition).to_string();
    let was_defined = create(&registry, row, "", definition.clone()).await;
    let mut was_created = false;
    let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
    let (group, plural) = (group.as_str().unwrap_or_default(), plural.as_str().unwrap_or_default());
    for own in objects {
        let version = object::api_version(own).rsplit('/').next().unwrap_or_default().to_string();
        let Some(row) = registry.find(Some(WORKSPACE), group, &version, plural) else { continue };
        if row.custom.is_some() {
            let namespace = if row.namespaced { "default" } else { "" };
            was_created |= create(&registry, &row, namespace, own.clone()).await;
        }
    }
    let mut after = records(&registry).await;
    after.retain(|key, _| !key.parts().is_some_and(|parts| parts.is_custom()));
    let own = Key::object("apiextensions.k8s.io", "customresourcedefinitions", WORKSPACE, "", &name);
    after.remove(&own);
    assert_eq!(after, before, "records of built-in resources have changed");
    (was_defined && was_created).then_some(())
}

async fn create(registry: &Registry, row: &Row, namespace: &str, object: Value) -> bool {
    if !object.is_object() || !object.get("metadata").is_some_and(Value::is_object) {
        return false;
    }
    let name = object::name(&object).to_string();
    let place = Place { workspace: WORKSPACE, namespace, name: &name };
    registry.create(row, &place, object, Some("fuzz"), false, &Unasked).await.is_ok()
}

async fn registry() -> Registry {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for (key, value) in [
        ("atoll.dev/workspaces/root//team", json!({ "status": { "id": WORKSPACE, "phase": "Ready" } })),
        ("atoll.dev/workspaces/aaaaaaaaaaaaaaa//child", json!({ "status": { "id": "bbbbbbbbbbbbbbb" } })),
        ("rbac.authorization.k8s.io/clusterrolebindings/aaaaaaaaaaaaaaa//a", json!({ "subjects": [] })),
        ("certificates.k8s.io/certificatesigningrequests/aaaaaaaaaaaaaaa//a", json!({ "status": {} })),
        ("core/secrets/aaaaaaaaaaaaaaa/default/a", json!({ "data": {} })),
        ("internal.atoll.dev/identity///self", json!({ "metadata": { "name": "self" } })),
    ] {
        let value = Some(Bytes::from(value.to_string()));
        let key = Key::from(key);
        let write = Write { key, expect: Condition::Absent, value, guards: Vec::new(), memo: None };
        store.write(write).await.expect("an empty store");
    }
    let placements = Arc::new(Placements::default());
    let decoder = Arc::new(Decoder { catalog: CATALOG.clone() });
    let limits = Limits { bytes: 1 << 20 };
    let cache = Cache::open(store.as_ref(), decoder, Layer::default(), limits, vec![placements.clone()]);
    Registry {
        cache: cache.await.expect("a store in memory"),
        store,
        catalog: CATALOG.clone(),
        clock: Arc::new(SystemClock),
        network: Network::default(),
        naming: tokio::sync::Mutex::default(),
        placements,
        usage: Arc::default(),
    }
}

async fn records(registry: &Registry) -> BTreeMap<Key, Bytes> {
    let page = registry.store.range(Range::all(), None, 0).await.expect("a store in memory");
    page.entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
}
