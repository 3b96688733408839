//! Definitions that are changed again and again: their former compiled forms must not stay in memory.

use atoll_testkit::{Atoll, Client, RequestContent};
use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};

use crate::definitions::{DEFINITIONS, definition, tenant};

/// Returns a schema of 60 kB that takes about 14 MiB when it is compiled: every rule declares all nodes.
fn dense() -> Value {
    let properties: Map<String, Value> =
        (0..1_800).map(|index| (format!("f{index}"), json!({ "type": "string" }))).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    for _ in 0..30 {
        let rules = json!([{ "rule": "has(self.a)" }]);
        schema =
            json!({ "type": "object", "properties": { "a": schema }, "x-kubernetes-validations": rules });
    }
    schema
}

/// Changes the definition, checks an object so that all rules are compiled, and lists a page so that the
/// snapshot is pinned.
async fn change(tenant: &Client, number: usize) {
    let path = format!("{DEFINITIONS}/dense.example.com");
    let patch = json!([{
        "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": number.to_string(),
    }]);
    let body = RequestContent::Raw("application/json-patch+json", Bytes::from(patch.to_string()));
    tenant.request(Method::PATCH, &path, body).await.expect(200);
    let spec = (0..30).fold(json!({ "f1": "x" }), |inner, _| json!({ "a": inner }));
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Kdense", "metadata": { "name": "a" }, "spec": spec,
    });
    tenant.post("/apis/example.com/v1/namespaces/default/dense?dryRun=All", object).await.expect(201);
    let page = tenant.get("/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=1").await.expect(200);
    assert!(page["metadata"]["continue"].is_string(), "{page}");
}

#[tokio::test]
async fn former_definitions_do_not_stay_compiled() {
    const CHANGES: usize = 40;
    let atoll = Atoll::start_bare();
    let tenant = tenant(&atoll, "team", json!({})).await;
    tenant.post(DEFINITIONS, definition("dense", dense())).await.expect(201);
    for number in 0..4 {
        change(&tenant, number).await;
    }
    let before = atoll.resident();
    for number in 0..CHANGES {
        change(&tenant, number).await;
    }
    let grown = atoll.resident().saturating_sub(before);
    assert!(grown < 150 << 20, "{CHANGES} changes used {} MiB", grown >> 20);
}
