//! A definition is served immediately, and its objects are deleted with it.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup, Watch, names};
use serde_json::{Value, json};

use crate::{DEFINITIONS, definition, free, object};

const HATS: &str = "/apis/example.com/v1/namespaces/default/hats";

fn hats() -> Value {
    definition("hats", "Hat", "Namespaced", json!([free("v1", true)]))
}

fn condition(definition: &Value, kind: &str) -> Value {
    let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

async fn wait_until_deleted(client: &Client, name: &str) {
    let path = format!("{DEFINITIONS}/{name}");
    eventually("the definition is gone", async || client.get(&path).await.status == 404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_served_immediately() {
    // Controllers are not needed.
    let mut atoll = Setup::new().flag("--controllers", false).start();
    let admin = atoll.admin();
    admin.get(HATS).await.expect_status_code(404);
    let created = admin.post(DEFINITIONS, hats()).await.expect(201);
    assert_eq!(created["spec"]["names"]["listKind"], "HatList", "{created}");
    // Without waiting: the resource is served once the create request was answered.
    let list = admin.get(HATS).await.expect(200);
    assert_eq!(list["kind"], "HatList");
    let settled = admin.get(&format!("{DEFINITIONS}/hats.example.com")).await.expect(200);
    for kind in ["NamesAccepted", "Established"] {
        assert_eq!(condition(&settled, kind)["status"], "True", "{settled}");
    }
    let group = admin.get("/apis/example.com/v1").await.expect(200);
    assert_eq!(group["resources"][0]["name"], "hats");
    let mut watch = Watch::open(&admin, &format!("{HATS}?watch=1")).await;
    admin.post(HATS, object("v1", "Hat", "one", json!({ "size": 1 }))).await.expect(201);
    let changed = admin.merge(&format!("{HATS}/one"), json!({ "spec": { "size": 2 } })).await.expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    admin.delete(&format!("{HATS}/one")).await.expect(200);
    for expected in ["ADDED", "MODIFIED", "DELETED"] {
        let event = watch.event().await;
        assert_eq!((event.kind.as_str(), event.name()), (expected, "one"));
    }
    admin.post(HATS, object("v1", "Hat", "two", json!({}))).await.expect(201);
    atoll.kill();
    atoll.restart();
    assert_eq!(names(&admin.get(HATS).await.expect(200)), ["two"]);
    let openapi = admin.get("/openapi/v2").await.expect(200);
    assert!(openapi["definitions"]["com.example.v1.Hat"].is_object());
    assert!(openapi["definitions"]["com.example.v1.HatList"].is_object());
    let openapi = admin.get("/openapi/v3/apis/example.com/v1").await.expect(200);
    assert!(openapi["components"]["schemas"]["com.example.v1.Hat"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_deleted_before_their_definition() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    admin.post(DEFINITIONS, hats()).await.expect(201);
    for name in ["free", "held"] {
        admin.post(HATS, object("v1", "Hat", name, json!({}))).await.expect(201);
    }
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    admin.merge(&format!("{HATS}/held"), hold).await.expect(200);
    let own = format!("{DEFINITIONS}/hats.example.com");
    let marked = admin.delete(&own).await.expect(200);
    assert_eq!(condition(&marked, "Terminating")["reason"], "InstanceDeletionPending", "{marked}");
    eventually("the object without a finalizer is deleted", async || {
        names(&admin.get(HATS).await.expect(200)) == ["held"]
    })
    .await;
    let refused = admin.post(HATS, object("v1", "Hat", "late", json!({}))).await;
    let message = refused.expect_status(403, "Forbidden");
    assert!(
        message.contains("create not allowed while custom resource definition is terminating"),
        "{message}"
    );
    admin.get(&own).await.expect(200);
    admin.merge(&format!("{HATS}/held"), json!({ "metadata": { "finalizers": null } })).await.expect(200);
    wait_until_deleted(&admin, "hats.example.com").await;
    admin.get(HATS).await.expect_status_code(404);
    admin.get("/apis/example.com").await.expect_status_code(404);
    // No object is left for a later definition of the same name.
    admin.post(DEFINITIONS, hats()).await.expect(201);
    assert!(names(&admin.get(HATS).await.expect(200)).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicting_names_are_accepted_when_the_other_definition_is_deleted() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    admin.post(DEFINITIONS, hats()).await.expect(201);
    let mut caps = definition("caps", "Hat", "Cluster", json!([free("v1", true)]));
    caps["spec"]["names"]["listKind"] = "CapList".into();
    admin.post(DEFINITIONS, caps).await.expect(201);
    let own = format!("{DEFINITIONS}/caps.example.com");
    let refused = admin.get(&own).await.expect(200);
    let accepted = condition(&refused, "NamesAccepted");
    assert_eq!((&accepted["status"], &accepted["reason"]), (&json!("False"), &json!("KindConflict")));
    assert_eq!(accepted["message"], "\"Hat\" is already in use");
    assert_eq!(condition(&refused, "Established")["status"], "False");
    admin.get("/apis/example.com/v1/caps").await.expect_status_code(404);
    admin.delete(&format!("{DEFINITIONS}/hats.example.com")).await.expect(200);
    wait_until_deleted(&admin, "hats.example.com").await;
    eventually("the other definition is served", async || {
        admin.get("/apis/example.com/v1/caps").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_objects_are_deleted_with_their_namespace() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    admin.post(DEFINITIONS, hats()).await.expect(201);
    let namespace = json!({ "metadata": { "name": "going" } });
    admin.post("/api/v1/namespaces", namespace).await.expect(201);
    let inside = "/apis/example.com/v1/namespaces/going/hats";
    admin.post(inside, object("v1", "Hat", "one", json!({}))).await.expect(201);
    admin.post(HATS, object("v1", "Hat", "stays", json!({}))).await.expect(201);
    admin.delete("/api/v1/namespaces/going").await.expect(200);
    eventually("the namespace is gone", async || admin.get("/api/v1/namespaces/going").await.status == 404)
        .await;
    assert_eq!(names(&admin.get("/apis/example.com/v1/hats").await.expect(200)), ["stays"]);
}
