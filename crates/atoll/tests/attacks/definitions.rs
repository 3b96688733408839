//! Definitions that are small to write and large to compile, definitions that imitate other resources, and
//! workspaces that exceed their limits.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll_sqlite::{SqliteOptions, SqliteStore};
use atoll_store::{Condition, Key, Range, Store, Write};
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::support::{CONFIG_MAPS, config_map_with};

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

/// Creates a workspace below root and returns the access of its administrator, who has no rights elsewhere.
pub async fn tenant(atoll: &Atoll, name: &str, limits: Value) -> Client {
    let admin = atoll.admin();
    let workspace = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": name }, "spec": { "limits": limits },
    });
    admin.post(WORKSPACES, workspace).await.expect(201);
    let inside = admin.workspace(&format!("root:{name}"));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "tenant" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name }],
    });
    inside.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.expect(201);
    inside.acting_as(name, &[])
}

pub fn definition(plural: &str, spec: Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "kind": format!("K{plural}") },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

fn properties(count: usize, make: impl Fn(usize) -> Value) -> Value {
    let properties: Map<String, Value> =
        (0..count).map(|index| (format!("f{index:05}"), make(index))).collect();
    json!({ "type": "object", "properties": properties })
}

/// Returns a pattern that takes about eight megabytes and almost a tenth of a second to compile.
fn large_pattern(index: usize) -> Value {
    json!({ "type": "string", "pattern": format!(r"^(\pL{{40}}){{5}}{index}$") })
}

#[tokio::test]
async fn thousands_of_large_patterns_are_rejected_while_other_clients_are_served() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let done = Arc::new(AtomicBool::new(false));
    let attacking = {
        let done = done.clone();
        tokio::spawn(async move {
            let answer =
                tenant.post(DEFINITIONS, definition("bombs", properties(3_000, large_pattern))).await;
            done.store(true, Ordering::SeqCst);
            answer
        })
    };
    let others = atoll.admin();
    let mut served = 0;
    while !done.load(Ordering::SeqCst) {
        others.get("/api/v1/namespaces/default").await.expect(200);
        served += 1;
    }
    let message = attacking.await.unwrap().expect_status(422, "Invalid");
    let field = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[f00001].pattern: Invalid value: ";
    assert!(message.contains(field), "{message}");
    assert!(message.contains("takes more than 16 MiB of memory when it is compiled"), "{message}");
    assert!(served > 0, "no other client was served meanwhile");
}

#[tokio::test]
async fn defaults_that_take_long_to_check_are_rejected() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    // Each character leads to a thousand states, in each of the patterns, and without the limit this takes minutes.
    let mut random = 1_u32;
    let mut letter = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if random >> 31 == 0 { 'a' } else { 'b' }
    };
    let text: String = (0..65_536).map(|_| letter()).collect();
    let patterns: Vec<Value> = (0..40)
        .map(|index| json!({ "pattern": format!("^([ab]*a[ab]{{{}}}|[ab]*)$", 950 + index) }))
        .collect();
    let item = json!({ "type": "string", "allOf": patterns });
    let list = json!({ "type": "array", "items": item, "default": vec![text; 30] });
    let spec = json!({ "type": "object", "properties": { "texts": list } });
    let answer = tenant.post(DEFINITIONS, definition("slow", spec)).await;
    let message = answer.expect_status(422, "Invalid");
    let expected =
        "openAPIV3Schema.properties[spec].properties[texts].default: Invalid value: takes too long to check";
    assert!(message.contains(expected), "{}", message.chars().take(1024).collect::<String>());
}

#[tokio::test]
async fn definitions_do_not_exceed_their_memory_limit() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let before = atoll.resident();
    let tiny = |index: usize| json!({ "type": "string", "pattern": format!("^a{index}$") });
    // Two megabytes of patterns, each different from all others.
    let refused = tenant.post(DEFINITIONS, definition("many", properties(45_000, tiny))).await;
    let message = refused.expect_status(422, "Invalid");
    assert!(message.contains("].pattern: Invalid value: "), "{message}");
    let rule = json!([{ "rule": "self == self" }]);
    let mut nested = properties(3_000, |_| json!({ "type": "string" }));
    for _ in 0..30 {
        nested = json!({ "type": "object", "properties": { "a": nested }, "x-kubernetes-validations": rule });
    }
    let refused = tenant.post(DEFINITIONS, definition("deep", nested)).await;
    let message = refused.expect_status(422, "Invalid");
    assert!(message.contains(".x-kubernetes-validations"), "{message}");
    // A definition just below the limit, with an object that has every pattern compiled.
    let most = properties(1_500, tiny);
    tenant.post(DEFINITIONS, definition("most", most)).await.expect(201);
    let spec: Map<String, Value> =
        (0..1_500).map(|index| (format!("f{index:05}"), format!("a{index}").into())).collect();
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Kmost", "metadata": { "name": "a" }, "spec": spec,
    });
    tenant.post("/apis/example.com/v1/namespaces/default/most", object).await.expect(201);
    let grown = atoll.resident().saturating_sub(before);
    assert!(grown < 160 << 20, "used {} MiB", grown >> 20);
}

#[tokio::test]
async fn limits_count_for_a_workspace_and_its_children_together() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    // The tenant's binding is one of the five objects.
    let tenant = tenant(&atoll, "team", json!({ "objects": 5, "definitions": 1, "bytes": "64Ki" })).await;
    for name in ["one", "two"] {
        tenant.post(CONFIG_MAPS, config_map_with(name, "x")).await.expect(201);
    }
    let child =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "child" } });
    tenant.post(WORKSPACES, child).await.expect(201);
    let below = admin.workspace("root:team:child");
    below.post(CONFIG_MAPS, config_map_with("three", "x")).await.expect(201);
    let message = below.post(CONFIG_MAPS, config_map_with("four", "x")).await.expect_status(403, "Forbidden");
    assert_eq!(
        message,
        "configmaps \"four\" is forbidden: exceeded workspace limit: requested: objects=1, used: objects=5, limited: \
         objects=5 (in a workspace above and all below it)"
    );
    let message =
        tenant.post(CONFIG_MAPS, config_map_with("four", "x")).await.expect_status(403, "Forbidden");
    assert!(message.ends_with("used: objects=5, limited: objects=5"), "{message}");
    let trial = format!("{CONFIG_MAPS}?dryRun=All");
    tenant.post(&trial, config_map_with("four", "x")).await.expect_status(403, "Forbidden");
    // Deleting objects makes room. Existing objects can be changed.
    tenant.merge(&format!("{CONFIG_MAPS}/one"), json!({ "data": { "value": "y" } })).await.expect(200);
    tenant.delete(&format!("{CONFIG_MAPS}/one")).await.expect(200);
    tenant.post(CONFIG_MAPS, config_map_with("four", "x")).await.expect(201);
    // The tenant cannot raise the limit, because the Workspace object is in the parent workspace.
    let raise = json!({ "spec": { "limits": { "objects": 100 } } });
    let path = format!("{WORKSPACES}/team");
    tenant.merge(&path, raise.clone()).await.expect_status(404, "NotFound");
    let outside = admin.acting_as("team", &[]);
    outside.merge(&path, raise.clone()).await.expect_status(403, "Forbidden");
    admin.merge(&path, raise).await.expect(200);
    tenant.post(DEFINITIONS, definition("first", json!({ "type": "object" }))).await.expect(201);
    let message = tenant
        .post(DEFINITIONS, definition("second", json!({ "type": "object" })))
        .await
        .expect_status(403, "Forbidden");
    assert!(
        message.ends_with("requested: definitions=1, used: definitions=1, limited: definitions=1"),
        "{message}"
    );
    let large = config_map_with("large", &"x".repeat(64 << 10));
    let message = tenant.post(CONFIG_MAPS, large.clone()).await.expect_status(403, "Forbidden");
    assert!(message.contains("exceeded workspace limit: requested: bytes="), "{message}");
    let grown = json!({ "data": { "value": "x".repeat(80 << 10) } });
    tenant.merge(&format!("{CONFIG_MAPS}/two"), grown).await.expect_status(403, "Forbidden");
    // The root has no limits.
    admin.post(CONFIG_MAPS, large).await.expect(201);
    let metrics = admin.get("/metrics").await.text();
    assert!(metrics.contains("atoll_workspace_limit_refusals{limit=\"objects\"} 3"), "{metrics}");
    assert!(metrics.contains("atoll_workspace_limit{workspace="), "{metrics}");
}

#[tokio::test]
async fn concurrent_writers_use_a_limit_fully_and_do_not_exceed_it() {
    let mut atoll = Atoll::start_bare();
    let tenant_access = tenant(&atoll, "team", json!({ "objects": 21 })).await;
    let writers = (0..40).map(|number| {
        let tenant = tenant_access.clone();
        tokio::spawn(async move {
            tenant.post(CONFIG_MAPS, config_map_with(&format!("c{number}"), "x")).await.status
        })
    });
    let mut created = 0;
    for writer in writers.collect::<Vec<_>>() {
        created += usize::from(writer.await.unwrap() == 201);
    }
    assert_eq!(created, 20, "20 objects and the tenant's binding");
    // Usage is counted again from the store.
    atoll.terminate();
    atoll.wait();
    atoll.restart();
    let again = atoll.admin().workspace("root:team").acting_as("team", &[]);
    let message = again.post(CONFIG_MAPS, config_map_with("more", "x")).await.expect_status(403, "Forbidden");
    assert!(message.ends_with("used: objects=21, limited: objects=21"), "{message}");
}

#[tokio::test]
async fn invalid_limits_are_rejected() {
    let atoll = Atoll::start_bare();
    let create = async |limits: Value| {
        let workspace = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "w" }, "spec": { "limits": limits },
        });
        atoll.admin().post(WORKSPACES, workspace).await
    };
    for (limits, field) in [
        (json!({ "objects": -1 }), "spec.limits.objects: Invalid value: -1"),
        (json!({ "bytes": "much" }), "spec.limits.bytes: Invalid value: \"much\": quantities must match"),
        (
            json!({ "bytes": "-1Gi" }),
            "spec.limits.bytes: Invalid value: \"-1Gi\": must be greater than or equal to 0",
        ),
    ] {
        let message = create(limits).await.expect_status(422, "Invalid");
        assert!(message.contains(field), "{message}");
    }
}

/// Changes the stored bytes of an object to what a version without the limit would have stored.
pub async fn rewrite_stored(directory: &Path, key: Key, change: impl FnOnce(&mut Value)) {
    let store = SqliteStore::open(directory, SqliteOptions::default()).unwrap();
    let range = Range { start: Bound::Included(key.clone()), end: Bound::Included(key.clone()) };
    let found = store.range(range, None, 1).await.unwrap();
    let mut object: Value = serde_json::from_slice(&found.entries[0].value).unwrap();
    change(&mut object);
    let value = Some(Bytes::from(object.to_string()));
    let write = Write { key, expect: Condition::Present, value, guards: Vec::new(), hint: None };
    store.write(write).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn definitions_stored_before_the_limit_do_not_stop_the_server() {
    let mut atoll = Atoll::start_bare();
    let bombs = |count| definition("bombs", properties(count, large_pattern));
    atoll.admin().post(DEFINITIONS, bombs(1)).await.expect(201);
    atoll.terminate();
    atoll.wait();
    let key =
        Key::object("apiextensions.k8s.io", "customresourcedefinitions", "root", "", "bombs.example.com");
    rewrite_stored(&atoll.directory, key, |stored| {
        stored["spec"]["versions"][0]["schema"] = bombs(2_000)["spec"]["versions"][0]["schema"].take();
    })
    .await;
    atoll.restart();
    let admin = atoll.admin();
    let path = format!("{DEFINITIONS}/bombs.example.com");
    let printed = async || {
        let found = admin.get(&path).await.expect(200);
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|own| own["type"] == "SchemaTooLarge").unwrap_or_default()
    };
    eventually("the definition reports that it is too large", async || printed().await["status"] == "True")
        .await;
    let message = printed().await["message"].to_string();
    assert!(message.contains("properties[f00001].pattern"), "{message}");
    let object = |name: &str, spec: Value| json!({ "apiVersion": "example.com/v1", "kind": "Kbombs", "metadata": { "name": name }, "spec": spec });
    let objects = "/apis/example.com/v1/namespaces/default/bombs";
    admin.post(objects, object("a", json!({}))).await.expect(201);
    admin.post(objects, object("b", json!({ "f00030": "x" }))).await.expect_status(422, "Invalid");
    // It can be labelled, and made smaller.
    admin.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(200);
    let mut smaller = admin.get(&path).await.expect(200);
    smaller["spec"]["versions"][0]["schema"] = json!({ "openAPIV3Schema": { "type": "object" } });
    admin.put(&path, smaller).await.expect(200);
    eventually("the condition is false", async || printed().await["status"] == "False").await;
}

/// Returns a user of the same workspace with `rules` as its only rights.
async fn limited_user(tenant: &Client, mut rules: Value) -> Client {
    let entering = json!({ "nonResourceURLs": ["/"], "verbs": ["access"] });
    rules.as_array_mut().unwrap().push(entering);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({ "metadata": { "name": "limited" }, "rules": rules });
    tenant.post(&format!("{rbac}/clusterroles"), role).await.expect(201);
    let binding = json!({
        "metadata": { "name": "limited" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited" }],
    });
    tenant.post(&format!("{rbac}/clusterrolebindings"), binding).await.expect(201);
    tenant.acting_as("limited", &[])
}

/// The name of a definition consists of a plural and a group and can be split in several ways.
#[tokio::test]
async fn definition_is_served_under_its_own_resource_only() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let mut hats = definition("foo", json!({ "type": "object" }));
    hats["metadata"]["name"] = "foo.bar.example.com".into();
    hats["spec"]["group"] = "bar.example.com".into();
    tenant.post(DEFINITIONS, hats).await.expect(201);
    let object =
        json!({ "apiVersion": "bar.example.com/v1", "kind": "Kfoo", "metadata": { "name": "precious" } });
    let own = "/apis/bar.example.com/v1/namespaces/default/foo";
    tenant.post(own, object).await.expect(201);
    let rules = json!([{ "apiGroups": ["example.com"], "resources": ["foo.bar"], "verbs": ["*"] }]);
    let limited = limited_user(&tenant, rules).await;
    limited.get(own).await.expect_status(403, "Forbidden");
    let other = "/apis/example.com/v1/namespaces/default/foo.bar";
    for path in [other.to_string(), format!("{other}/precious")] {
        limited.get(&path).await.expect_status_code(404);
    }
}

/// The names in the status are served. A user who may write the status must not be able to choose names of
/// other definitions in the group.
#[tokio::test]
async fn accepted_names_do_not_expose_objects_of_another_definition() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let mut decoy = definition("decoys", json!({ "type": "object" }));
    decoy["spec"]["names"]["singular"] = "foo".into();
    for one in ["foo", "treasures"].map(|plural| definition(plural, json!({ "type": "object" }))) {
        tenant.post(DEFINITIONS, one).await.expect(201);
    }
    tenant.post(DEFINITIONS, decoy).await.expect(201);
    let precious =
        json!({ "apiVersion": "example.com/v1", "kind": "Ktreasures", "metadata": { "name": "precious" } });
    tenant.post("/apis/example.com/v1/namespaces/default/treasures", precious).await.expect(201);
    let limited = limited_user(
        &tenant,
        json!([
            { "apiGroups": ["example.com"], "resources": ["foo"], "verbs": ["*"] },
            { "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions/status"], "verbs": ["*"] },
        ]),
    )
    .await;
    limited.get("/apis/example.com/v1/namespaces/default/treasures").await.expect_status(403, "Forbidden");
    // When another definition has taken its name, the definition does not get it back.
    let names = |names: Value| json!({ "status": { "acceptedNames": names } });
    let taken =
        names(json!({ "plural": "decoys", "singular": "foo", "kind": "Kdecoys", "listKind": "KdecoysList" }));
    limited.merge(&format!("{DEFINITIONS}/decoys.example.com/status"), taken).await.expect(200);
    let other = names(json!({ "plural": "treasures" }));
    limited.merge(&format!("{DEFINITIONS}/foo.example.com/status"), other).await.expect(200);
    let path = "/apis/example.com/v1/namespaces/default/foo";
    let answer = limited.get(path).await;
    assert!(!answer.text().contains("precious"), "{}", answer.text());
    limited.get(&format!("{path}/precious")).await.expect_status_code(404);
}
