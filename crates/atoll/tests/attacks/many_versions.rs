//! Definitions with thousands of versions.

use atoll_store::Key;
use atoll_testkit::Atoll;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::definitions::{DEFINITIONS, definition, rewrite_stored, tenant};

fn versions(count: usize) -> Vec<Value> {
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let version = |number: usize| json!({ "name": format!("v{number}"), "served": true, "storage": number == 1, "schema": schema });
    (1..=count).map(version).collect()
}

fn with_versions(count: usize) -> Value {
    let mut many = definition("many", json!({ "type": "object" }));
    many["spec"]["versions"] = versions(count).into();
    many
}

#[tokio::test]
async fn definitions_with_thousands_of_versions_are_rejected() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let before = atoll.resident();
    let message = tenant.post(DEFINITIONS, with_versions(12_000)).await.expect_status(422, "Invalid");
    assert!(
        message.contains(": spec.versions[982]: Invalid value: \"v983\": with this version"),
        "{message}"
    );
    assert!(message.contains("takes more than 16 MiB of memory when it is compiled"), "{message}");
    let grown = atoll.resident().saturating_sub(before);
    assert!(grown < 100 << 20, "used {} MiB", grown >> 20);
    atoll.admin().get("/readyz").await.expect_status_code(200);
}

#[tokio::test]
async fn hundreds_of_versions_are_served_and_take_little_memory() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let before = atoll.resident();
    tenant.post(DEFINITIONS, with_versions(900)).await.expect(201);
    let group = tenant.get("/apis/example.com").await.expect(200);
    assert_eq!(group["versions"].as_array().map(Vec::len), Some(900));
    assert_eq!(group["preferredVersion"]["version"], "v900");
    let listed = tenant.get("/apis/example.com/v77").await.expect(200);
    assert_eq!(listed["resources"][0]["name"], "many");
    let object = json!({ "apiVersion": "example.com/v5", "kind": "Kmany", "metadata": { "name": "a" } });
    tenant.post("/apis/example.com/v5/namespaces/default/many", object).await.expect(201);
    let shown = tenant.get("/apis/example.com/v900/namespaces/default/many/a").await.expect(200);
    assert_eq!(shown["apiVersion"], "example.com/v900");
    let grown = atoll.resident().saturating_sub(before);
    assert!(grown < 120 << 20, "used {} MiB", grown >> 20);
}

/// Every version has the accepted names, which a client may write.
#[tokio::test]
async fn accepted_names_do_not_multiply_with_versions() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    tenant.post(DEFINITIONS, with_versions(500)).await.expect(201);
    let path = format!("{DEFINITIONS}/many.example.com");
    let before = atoll.resident();
    let short: Vec<String> = (0..20_000).map(|number| format!("n{number}")).collect();
    let names = json!({ "status": { "acceptedNames": { "shortNames": short } } });
    tenant.merge(&format!("{path}/status"), names).await.expect(200);
    eventually("the names are as in the spec again", async || {
        let names = tenant.get(&path).await.expect(200)["status"]["acceptedNames"].take();
        names["shortNames"].is_null()
    })
    .await;
    tenant.get("/apis/example.com/v500/namespaces/default/many").await.expect(200);
    let grown = atoll.resident().saturating_sub(before);
    assert!(grown < 150 << 20, "used {} MiB", grown >> 20);
}

#[tokio::test]
async fn stored_definitions_with_thousands_of_versions_do_not_stop_the_server() {
    let mut atoll = Atoll::start_bare();
    let admin = atoll.admin();
    admin.post(DEFINITIONS, with_versions(1)).await.expect(201);
    let objects = "/apis/example.com/v1/namespaces/default/many";
    let object = json!({ "apiVersion": "example.com/v1", "kind": "Kmany", "metadata": { "name": "a" } });
    admin.post(objects, object).await.expect(201);
    atoll.terminate();
    atoll.wait();
    let key =
        Key::object("apiextensions.k8s.io", "customresourcedefinitions", "root", "", "many.example.com");
    rewrite_stored(&atoll.directory, key, |stored| stored["spec"]["versions"] = versions(4_000).into()).await;
    atoll.restart();
    let admin = atoll.admin();
    let path = format!("{DEFINITIONS}/many.example.com");
    let condition = async |kind: &str| {
        let found = admin.get(&path).await.expect(200);
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|own| own["type"] == kind).unwrap_or_default()
    };
    eventually("the definition reports that it is too large", async || {
        condition("SchemaTooLarge").await["status"] == "True"
    })
    .await;
    let message = condition("SchemaTooLarge").await["message"].to_string();
    assert!(message.contains("the definition is not served: spec.versions[982]: "), "{message}");
    assert_eq!(condition("Established").await["status"], "False");
    admin.get(objects).await.expect_status_code(404);
    assert!(atoll.resident() < 400 << 20, "uses {} MiB", atoll.resident() >> 20);
    // It can be labelled, and made smaller: its objects are still there.
    admin.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(200);
    let mut smaller = admin.get(&path).await.expect(200);
    smaller["spec"]["versions"] = versions(2).into();
    admin.put(&path, smaller).await.expect(200);
    eventually("the definition is served again", async || admin.get(objects).await.status == 200).await;
    admin.get(&format!("{objects}/a")).await.expect(200);
    assert_eq!(condition("SchemaTooLarge").await["status"], "False");
}
