//! Objects that are small to write and expensive to hold, to validate or to report errors about.

use atoll_testkit::wait::eventually;
use atoll_testkit::{APPLY, Atoll, RequestContent, Setup};
use serde_json::{Value, json};

use crate::definitions::{DEFINITIONS, definition, tenant};

fn deployment(name: &str, variables: usize) -> Value {
    let variables: Vec<Value> = (0..variables).map(|_| json!({ "name": "a" })).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "a", "image": "a", "env": variables }] },
            },
        },
    })
}

#[tokio::test]
async fn dense_object_does_not_stop_controllers() {
    let mut atoll = Setup::new().flag("--grain", "pod").start();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    // The controller gets the object from a watch, and after a restart from a list.
    tenant.post(deployments, deployment("dense", 100_000)).await.expect(201);
    for name in ["watched", "listed"] {
        let admin = atoll.admin();
        admin.post(deployments, deployment(name, 1)).await.expect(201);
        eventually(&format!("{name} has a ReplicaSet"), async || {
            let path = format!("/apis/apps/v1/namespaces/default/replicasets?labelSelector=app%3D{name}");
            let found = admin.get(&path).await.expect(200);
            found["items"].as_array().is_some_and(|items| !items.is_empty())
        })
        .await;
        atoll.kill();
        atoll.restart();
    }
}

#[tokio::test]
async fn validation_errors_are_limited_in_size() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let known = json!({ "type": "string", "enum": ["x".repeat(1 << 20)] });
    tenant
        .post(DEFINITIONS, definition("lists", json!({ "type": "array", "items": known })))
        .await
        .expect(201);
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Klists", "metadata": { "name": "a" }, "spec": vec!["a"; 1000],
    });
    let before = atoll.resident();
    let refused = tenant.post("/apis/example.com/v1/namespaces/default/lists", object).await;
    let message = refused.expect_status(422, "Invalid");
    assert!(message.len() < 1 << 20, "{} bytes", message.len());
    assert!(message.contains("the others are not shown"), "{}", &message[..1000]);
    let grown = atoll.resident().saturating_sub(before);
    assert!(grown < 200 << 20, "used {} MiB", grown >> 20);
}

#[tokio::test]
async fn long_validations_are_aborted_while_other_clients_are_served() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let parts: Vec<Value> = (0..8_000).map(|number| json!({ "enum": [number.to_string()] })).collect();
    let spec = json!({ "type": "array", "items": { "type": "string", "anyOf": parts } });
    tenant.post(DEFINITIONS, definition("parts", spec)).await.expect(201);
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Kparts", "metadata": { "name": "a" },
        "spec": vec!["7999"; 300_000],
    });
    let checking =
        tokio::spawn(
            async move { tenant.post("/apis/example.com/v1/namespaces/default/parts", object).await },
        );
    let others = atoll.admin();
    while !checking.is_finished() {
        others.get("/api/v1/namespaces/default").await.expect(200);
    }
    let message = checking.await.unwrap().expect_status(504, "Timeout");
    assert!(message.contains("checking the object took more than 10 seconds"), "{message}");
}

#[tokio::test]
async fn objects_that_need_much_memory_are_refused() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let items = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    tenant
        .post(DEFINITIONS, definition("lists", json!({ "type": "array", "items": items })))
        .await
        .expect(201);
    let path = "/apis/example.com/v1/namespaces/default/lists";
    let object = |count: usize| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Klists", "metadata": { "name": "a" },
            "spec": vec![json!({ "a": 1 }); count],
        })
    };
    let message = tenant.post(path, object(300_000)).await.expect_status(413, "RequestEntityTooLarge");
    assert!(message.contains("contains too many JSON objects"), "{message}");
    tenant.post(path, object(100_000)).await.expect(201);
    let before = atoll.resident();
    let mut most = 0;
    for number in 0..5 {
        let label = json!({ "metadata": { "labels": { "number": number.to_string() } } });
        tenant.merge(&format!("{path}/a"), label).await.expect(200);
        most = most.max(atoll.resident());
    }
    let grown = most.saturating_sub(before);
    assert!(grown < 600 << 20, "used {} MiB", grown >> 20);
}

/// Each manager that applies an object adds a list of its fields.
#[tokio::test]
async fn managed_fields_are_limited_in_size() {
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let data: serde_json::Map<String, Value> =
        (0..60_000).map(|number| (format!("key-{number}"), json!("x"))).collect();
    let object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data });
    let body = bytes::Bytes::from(object.to_string());
    let mut applied = 0;
    let refused = loop {
        let path = format!("/api/v1/namespaces/default/configmaps/a?fieldManager=m{applied}");
        let body = RequestContent::Raw(APPLY, body.clone());
        let answer = tenant.request(http::Method::PATCH, &path, body).await;
        if !matches!(answer.status, 200 | 201) {
            break answer.expect_status(413, "RequestEntityTooLarge");
        }
        applied += 1;
        assert!(applied < 30, "{applied} managers are accepted");
    };
    assert!(applied > 3, "{applied} managers are accepted");
    assert!(refused.contains("the managed fields of the object are too large"), "{refused}");
}
