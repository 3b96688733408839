//! Controllers act in the workspace of an object, whatever its annotations say.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// The annotation that the server adds to objects in lists of several workspaces.
const WORKSPACE: &str = "atoll.dev/workspace-id";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn names(client: &Client, path: &str) -> Vec<String> {
    let list = client.get(path).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_do_not_name_their_workspace() {
    let server = TenantServer::start(&["owner"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let tenant = server.user("owner", "root:team");
    let grain = json!({ "metadata": { "labels": { "atoll.dev/grain": "pod" } } });
    tenant.merge("/api/v1/namespaces/default", grain).await.expect(200);
    let labels = json!({ "app": "web" });
    let set = json!({
        "metadata": { "name": "web", "annotations": { WORKSPACE: "root", "own": "kept" } },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels, "annotations": { WORKSPACE: "root" } },
                "spec": { "containers": [{ "name": "main", "image": "app" }] },
            },
        },
    });
    let created = tenant.post(SETS, set).await.expect(201);
    assert_eq!(created["metadata"]["annotations"], json!({ "atoll.dev/grain": "pod", "own": "kept" }));
    eventually("the tenant's pods exist", async || names(&tenant, PODS).await.len() == 2).await;
    assert_eq!(names(&admin, PODS).await, Vec::<String>::new());

    // No way of writing keeps the annotation, and lists of all workspaces contain the true one.
    tenant.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let annotated = json!({ "metadata": { "annotations": { WORKSPACE: "root", "z": "z" } } });
    tenant.merge(&config_map("a"), annotated.clone()).await.expect(200);
    let mut applied = annotated;
    applied["apiVersion"] = json!("v1");
    applied["kind"] = json!("ConfigMap");
    applied["metadata"]["name"] = json!("a");
    let path = format!("{}?fieldManager=me&force=true", config_map("a"));
    tenant.apply(&path, applied).await.expect(200);
    let stored = tenant.get(&config_map("a")).await.expect(200);
    assert_eq!(stored["metadata"]["annotations"], json!({ "z": "z" }));
    let id = admin.get("/apis/atoll.dev/v1alpha1/workspaces/team").await.expect(200)["status"]["id"].clone();
    let everywhere = admin.get(&format!("/clusters/*{CONFIG_MAPS}")).await;
    let everywhere = everywhere.expect(200);
    let items: Vec<&Value> = everywhere["items"].as_array().unwrap().iter().collect();
    let found = items.iter().find(|item| item["metadata"]["name"] == "a").unwrap();
    assert_eq!(found["metadata"]["annotations"], json!({ WORKSPACE: id, "z": "z" }));
}
