//! Effects of custom resource definitions on other objects.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use atoll_meta::json::{self, Value};
use atoll_meta::object;
use atoll_registry::definitions::{self, GROUP, RESOURCE};
use atoll_registry::placement::Placements;
use atoll_registry::{
    Catalog, Decoder, DeleteOptions, Network, NoAdmission, ObjectRef, Profile, Registry, Row, SystemClock,
    Update,
};
use atoll_server::fuzzing::{FieldValidation, object as decode};
use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Range, Store, Write};
use atoll_watch::{Cache, Layer, Limits, Scope};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;

use crate::Accepted;

/// The workspace in which definitions are written.
const WORKSPACE: &str = "aaaaaaaaaaaaaaa";

static CATALOG: LazyLock<Arc<Catalog>> = LazyLock::new(|| Arc::new(Catalog::new(Profile::Full)));

/// No write to a definition or its objects changes records of built-in resources, and a deleted definition
/// leaves nothing behind. The input is a list of steps: a definition to create, then objects to create and
/// definitions to update it with. A definition without a spec updates `/status`. In the end the definition is
/// deleted.
pub fn definitions(bytes: &[u8]) -> Accepted {
    let Value::Array(steps) = json::parse(bytes).ok()?.value else { return None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(write(&steps))
}

/// Maximum time for the deletion of a definition. It has no finalizers, so that it usually takes less.
const DELETION_TIMEOUT: Duration = Duration::from_secs(5);

async fn write(steps: &[Value]) -> Accepted {
    let (first, rest) = steps.split_first()?;
    let registry = Arc::new(registry().await);
    let before = records(&registry).await;
    let row = CATALOG.find(GROUP, "v1", RESOURCE).expect("CustomResourceDefinition is built in");
    let definition = decoded(row, first)?;
    let names = &definition["spec"]["names"];
    let definition_under_test = DefinitionUnderTest {
        registry: registry.clone(),
        name: object::name(&definition).to_string(),
        group: definition["spec"]["group"].as_str().unwrap_or_default().to_string(),
        plural: names["plural"].as_str().unwrap_or_default().to_string(),
    };
    let was_defined = create(&registry, row, "", definition).await;
    let mut was_created = false;
    for step in rest {
        match object::kind(step) == "CustomResourceDefinition" {
            true => definition_under_test.change(row, step).await,
            false => was_created |= definition_under_test.create(step).await,
        }
        definition_under_test.check(&before).await;
    }
    if was_defined {
        definition_under_test.delete(row).await;
        definition_under_test.check(&before).await;
        let left: Vec<Key> = records(&registry).await.into_keys().filter(is_custom).collect();
        assert!(left.is_empty(), "{left:?} are left after the definition was deleted");
    }
    (was_defined && was_created).then_some(())
}

fn is_custom(key: &Key) -> bool {
    key.parts().is_some_and(|parts| parts.is_custom())
}

/// Decodes a definition as the server does, and removes its finalizers.
fn decoded(row: &Row, definition: &Value) -> Option<Value> {
    let text = json::to_vec(definition);
    let mut definition = decode(row, &HeaderMap::new(), &text, FieldValidation::Ignore).ok()?.object;
    definition["metadata"].as_object_mut()?.remove("finalizers");
    row.defaults.apply(&mut definition);
    Some(definition)
}

/// The definition under test.
struct DefinitionUnderTest {
    registry: Arc<Registry>,
    name: String,
    group: String,
    plural: String,
}

impl DefinitionUnderTest {
    fn object_ref(&self) -> ObjectRef<'_> {
        ObjectRef { workspace: WORKSPACE, namespace: "", name: &self.name }
    }

    /// Updates the spec or the status.
    async fn change(&self, row: &Row, step: &Value) {
        // Decoding adds missing fields, so check before.
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
            size: 0,
            transform: &transform,
            admission: &NoAdmission,
            uid: None,
            create_missing: false,
            dry_run: false,
        };
        // Most updates are rejected.
        let _ = self.registry.update(row, &self.object_ref(), &update).await;
    }

    /// Creates an object through each plural name of the definition.
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

    /// Deletes the definition and waits until it is gone.
    async fn delete(&self, row: &Row) {
        let registry = &self.registry;
        let scope = Scope::object(GROUP, RESOURCE, WORKSPACE, "", &self.name);
        let mut watcher =
            registry.cache.watch(scope, registry.snapshot().revision).expect("the revision is current");
        let running = tokio::spawn(definitions::run(registry.clone()));
        let deleted = registry.delete(row, &self.object_ref(), &DeleteOptions::default(), &NoAdmission).await;
        deleted.expect("the definition exists");
        let key = Key::object(GROUP, RESOURCE, WORKSPACE, "", &self.name);
        let gone = async {
            while registry.snapshot().get(&key).is_some() {
                watcher.next().await.expect("the watch has no backlog");
            }
        };
        tokio::time::timeout(DELETION_TIMEOUT, gone).await.expect("the definition is deleted in time");
        running.abort();
    }

    /// Checks that no other record has changed, and that every new record belongs to the definition.
    async fn check(&self, before: &BTreeMap<Key, Bytes>) {
        let mut after = records(&self.registry).await;
        after.retain(|key, _| {
            let Some(parts) = key.parts() else { return true };
            let is_own_object =
                (parts.group, parts.resource) == (&*format!("~{}", self.group), &*self.plural);
            let is_own = (parts.group, parts.resource, parts.name) == (GROUP, RESOURCE, &*self.name);
            // APIServices of its versions.
            let is_announced =
                parts.resource == "apiservices" && parts.name.ends_with(&format!(".{}", self.group));
            parts.workspace != WORKSPACE || !(is_own_object || is_own || is_announced)
        });
        assert_eq!(after, *before, "other records have changed");
    }
}

async fn create(registry: &Registry, row: &Row, namespace: &str, object: Value) -> bool {
    if !object.is_object() || !object.get("metadata").is_some_and(Value::is_object) {
        return false;
    }
    let name = object::name(&object).to_string();
    let place = ObjectRef { workspace: WORKSPACE, namespace, name: &name };
    registry.create(row, &place, object, Some("fuzz"), false, &NoAdmission).await.is_ok()
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
        let write = Write { key, expect: Condition::Absent, value, guards: Vec::new(), hint: None };
        store.write(write).await.expect("an empty store");
    }
    let placements = Arc::new(Placements::default());
    let decoder = Arc::new(Decoder { catalog: CATALOG.clone(), placements: placements.clone() });
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
