//! Metadata that only the server sets cannot be written in other ways than by updates.

use atoll_testkit::{Client, RequestContent};
use http::Method;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
const PODS: &str = "/api/v1/namespaces/default/pods";
const PLACEMENT: &str = "atoll.dev/placement";
const WORKSPACE: &str = "atoll.dev/workspace-id";

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "main", "image": "app" }] } })
}

fn binding(name: &str, metadata: Value) -> Value {
    let mut binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": { "kind": "Node", "name": "node" },
    });
    binding["metadata"]["name"] = name.into();
    binding
}

/// Creates the ServiceAccount that Pods need, because no controller does.
pub async fn create_service_account(client: &Client) {
    let account = json!({ "metadata": { "name": "default" } });
    client.post("/api/v1/namespaces/default/serviceaccounts", account).await.expect(201);
}

async fn placed_on(client: &Client, cluster: &str) -> Value {
    client.get(&format!("/services/placed/{cluster}")).await.expect(200)["items"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_sets_no_placement() {
    let server = TenantServer::start(&["owner", "other"], &[("--controllers", "false")]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let other = create_tenant_workspace(&admin, "root", "other", "other").await;
    let tenant = server.user("owner", "root:team");
    let cluster = json!({ "metadata": { "name": "prod" }, "spec": { "mode": "none" } });
    let foreign = other.post(CLUSTERS, &cluster).await.expect(201);
    let forged = json!({ "clusters": [{ "name": "prod", "uid": foreign["metadata"]["uid"] }] }).to_string();
    let metadata = json!({
        "annotations": { PLACEMENT: forged, WORKSPACE: "root", "atoll.dev/grain": "object", "own": "kept" },
        "labels": { "internal.atoll.dev/intent": "kcp", "own": "kept" },
    });
    create_service_account(&tenant).await;
    for (name, path) in
        [("a", format!("{PODS}/a/binding")), ("b", "/api/v1/namespaces/default/bindings".into())]
    {
        tenant.post(PODS, pod(name)).await.expect(201);
        let before = tenant.get(&format!("{PODS}/{name}")).await.expect(200);
        let bound = tenant.post(&path, binding(name, metadata.clone())).await;
        bound.expect(201);
        let warning = bound.header("warning").unwrap_or_default().to_string();
        assert!(warning.contains("is ignored"), "{warning}");
        let after = tenant.get(&format!("{PODS}/{name}")).await.expect(200);
        let mut expected = before["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        expected.insert("own".into(), "kept".into());
        assert_eq!(after["metadata"]["annotations"], Value::Object(expected));
        assert_eq!(after["metadata"]["labels"], json!({ "own": "kept" }));
        assert_eq!(after["spec"]["nodeName"], "node");
    }
    assert_eq!(placed_on(&other, "prod").await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_annotations_cause_a_warning() {
    let server = TenantServer::start(&["owner"], &[("--controllers", "false")]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let tenant = server.user("owner", "root:team");
    let annotated = json!({ "metadata": { "annotations": { WORKSPACE: "root" } } });
    let mut created = config_map_with("a", "1");
    created["metadata"]["annotations"] = annotated["metadata"]["annotations"].clone();
    let mut applied = created.clone();
    applied["data"]["value"] = "2".into();
    let mut generated = created.clone();
    generated["metadata"]["name"] = Value::Null;
    generated["metadata"]["generateName"] = "b-".into();
    let apply = format!("{}?fieldManager=me&force=true", config_map("a"));
    let pointer = format!("/metadata/annotations/{}", WORKSPACE.replace('/', "~1"));
    let add = json!([
        { "op": "add", "path": "/metadata/annotations", "value": {} },
        { "op": "add", "path": pointer, "value": "root" },
    ]);
    let add = RequestContent::Raw("application/json-patch+json", add.to_string().into());
    for answer in [
        tenant.post(CONFIG_MAPS, created.clone()).await,
        tenant.post(CONFIG_MAPS, generated).await,
        tenant.merge(&config_map("a"), annotated).await,
        tenant.put(&config_map("a"), created).await,
        tenant.request(Method::PATCH, &config_map("a"), add).await,
        tenant.apply(&apply, applied).await,
    ] {
        let found = answer.json();
        assert!(matches!(answer.status, 200 | 201), "{found}");
        assert_eq!(found["metadata"]["annotations"], Value::Null);
        let warning = answer.header("warning").unwrap_or_default().to_string();
        assert!(warning.contains("metadata.annotations[atoll.dev/workspace-id] is ignored"), "{warning}");
    }
}
