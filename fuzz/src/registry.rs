//! What definitions of custom resources do to the objects of others.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use atoll_meta::json::{self, Value};
use atoll_meta::object;
use atoll_registry::definitions::{self, GROUP, RESOURCE};
use atoll_registry::placement::Placements;
use atoll_registry::{
    Catalog, Decoder, DeleteOptions, Network, Place, Profile, Registry, Row, SystemClock, Unasked, Update,
};
use atoll_server::fuzzing::{FieldValidation, object as decode};
use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Range, Store, Write};
use atoll_watch::{Cache, Layer, Limits, Scope};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;

use crate::Accepted;

/// The workspace whose owner writes definitions.
const WORKSPACE: &str = "aaaaaaaaaaaaaaa";

static CATALOG: LazyLock<Arc<Catalog>> = LazyLock::new(|| Arc::new(Catalog::new(Profile::Full)));

/// Whatever is done with a definition, it and its objects change no record of a built-in resource, and nothing of it is left when
/// it has gone. The input is a list of steps: a definition to create, then objects to create, and definitions to write over it.
/// One without a spec is written to its `/status`. In the end it is deleted.
pub fn definitions(bytes: &[u8]) -> Accepted {
    let Value::Array(steps) = json::parse(bytes).ok()?.value else { return None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(write(&steps))
}

/// How long a definition may take to go. Nothing holds it, so that it takes less.
const PATIENCE: Duration = Duration::from_secs(5);

async fn write(steps: &[Value]) -> Accepted {
    let (first, rest) = steps.split_first()?;
    let registry = Arc::new(registry().await);
    let before = records(&registry).await;
    let row = CATALOG.find(GROUP, "v1", RESOURCE).expect("it is built in");
    let definition = decoded(row, first)?;
    let names = &definition["spec"]["names"];
    let own = Own {
        registry: registry.clone(),
        name: object::name(&definition).to_string(),
        group: definition["spec"]["group"].as_str().unwrap_or_default().to_string(),
        plural: names["plural"].as_str().unwrap_or_default().to_string(),
    };
    let was_defined = create(&registry, row, "", definition).await;
    let mut was_created = false;
    for step in rest {
        match object::kind(step) == "CustomResourceDefinition" {
            true => own.change(row, step).await,
            false => was_created |= own.create(step).await,
        }
        own.check(&before).await;
    }
    if was_defined {
        own.end(row).await;
        own.check(&before).await;
        let left: Vec<Key> = records(&registry).await.into_keys().filter(is_custom).collect();
        assert!(left.is_empty(), "{left:?} are left of a definition that has gone");
    }
    (was_defined && was_created).then_some(())
}

fn is_custom(key: &Key) -> bool {
    key.parts().is_some_and(|parts| parts.is_custom())
}

/// A definition as the server would take it. Nothing holds it.
fn decoded(row: &Row, definition: &Value) -> Option<Value> {
    let text = json::to_vec(definition);
    let mut definition = decode(row, &HeaderMap::new(), &text, FieldValidation::Ignore).ok()?.object;
    definition["metadata"].as_object_mut()?.remove("finalizers");
    row.defaults.apply(&mut definition);
    Some(definition)
}

/// The definition that all is about.
struct Own {
    registry: Arc<Registry>,
    name: String,
    group: String,
    plural: String,
}

impl Own {
    fn place(&self) -> Place<'_> {
        Place { workspace: WORKSPACE, namespace: "", name: &self.name }
    }

    /// Writes a spec or a status over what is there.
    async fn change(&self, row: &Row, step: &Value) {
        // Once it is decoded, it has everything.
        let is_status = step.get("spec").is_none();
        let Some(step) = decoded(row, step) else { return };
        let (field, subresource) = if is_status { ("status", "status") } else { ("spec", "") };
        let transform = |old: Option<&Value>| {
            let mut new = old.cloned().unwrap_or_default();
            new[field] = step[field].clone();
            Ok(new)
        };
        let update = Update {
            subresource,
            manager: Some("fuzz"),
            transform: &transform,
            admission: &Unasked,
            uid: None,
            create_missing: false,
            dry_run: false,
        };
        // Most are refused.
        let _ = self.registry.update(row, &self.place(), &update).await;
    }

    /// Creates an object by each name that the definition may be reached by.
    async fn create(&self, object: &Value) -> bool {
        let version = object::api_version(object).rsplit('/').next().unwrap_or_default();
        let key = Key::object(GROUP, RESOURCE, WORKSPACE, "", &self.name);
        let stored = self.registry.snapshot().get(&key).and_then(|found| json::parse(&found.json()).ok());
        let stored = stored.map(|parsed| parsed.value).unwrap_or_default();
        let accepted = stored["status"]["acceptedNames"]["plural"].as_str().unwrap_or_default();
        let mut was_created = false;
        for plural in [self.plural.as_str(), accepted] {
            let row = self.registry.find(Some(WORKSPACE), &self.group, version, plural);
            let Some(row) = row.filter(|row| row.custom.is_some()) else { continue };
            let mut object = object.clone();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("finalizers");
            }
            let namespace = if row.namespaced { "default" } else { "" };
            was_created |= create(&self.registry, &row, namespace, object).await;
        }
        was_created
    }

    /// Deletes the definition and waits until it has gone.
    async fn end(&self, row: &Row) {
        let registry = &self.registry;
        let scope = Scope::object(GROUP, RESOURCE, WORKSPACE, "", &self.name);
        let mut watcher =
            registry.cache.watch(scope, registry.snapshot().revision).expect("it has just been looked at");
        let running = tokio::spawn(definitions::run(registry.clone()));
        let deleted = registry.delete(row, &self.place(), &DeleteOptions::default(), &Unasked).await;
        deleted.expect("it is there");
        let key = Key::object(GROUP, RESOURCE, WORKSPACE, "", &self.name);
        let gone = async {
            while registry.snapshot().get(&key).is_some() {
                watcher.next().await.expect("few events");
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("the definition goes");
        running.abort();
    }

    /// Looks whether all that was there before is still so, and whether anything else is there than what belongs to the
    /// definition.
    async fn check(&self, before: &BTreeMap<Key, Bytes>) {
        let mut after = records(&self.registry).await;
        after.retain(|key, _| {
            let Some(parts) = key.parts() else { return true };
            let is_own_object =
                (parts.group, parts.resource) == (&*format!("~{}", self.group), &*self.plural);
            let is_own = (parts.group, parts.resource, parts.name) == (GROUP, RESOURCE, &*self.name);
            // Discovery of its versions.
            let is_announced =
                parts.resource == "apiservices" && parts.name.ends_with(&format!(".{}", self.group));
            parts.workspace != WORKSPACE || !(is_own_object || is_own || is_announced)
        });
        assert_eq!(after, *before, "records of others have changed");
    }
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
