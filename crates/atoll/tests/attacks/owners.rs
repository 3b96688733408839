//! An object can only be owned by objects of its own workspace, even if an owner reference has the uid of an
//! object elsewhere.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, RequestContent};
use http::Method;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// Returns an owner reference to an object of another workspace.
fn reference(api_version: &str, kind: &str, owner: &Value) -> Value {
    let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Deletes an object of root with a propagation policy for its owned objects.
async fn delete_with_propagation(client: &Client, path: &str, propagation: &str) {
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation });
    client.request(Method::DELETE, path, RequestContent::Json(options)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_references_to_another_workspace_do_not_block_deletion() {
    let server = TenantServer::start(&["owner"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let tenant = server.user("owner", "root:team");
    for (name, propagation) in
        [("foreground", "Foreground"), ("orphan", "Orphan"), ("background", "Background")]
    {
        let owner = admin.post(CONFIG_MAPS, config_map_with(name, "1")).await.expect(201);
        // An object of root that is owned by it as well.
        let mut own = config_map_with(&format!("{name}-own"), "1");
        own["metadata"]["ownerReferences"] = reference("v1", "ConfigMap", &owner);
        admin.post(CONFIG_MAPS, own).await.expect(201);
        // The tenant's object has a finalizer: a collector that waits for it waits forever.
        let mut bait = config_map_with(name, "1");
        bait["metadata"]["ownerReferences"] = reference("v1", "ConfigMap", &owner);
        bait["metadata"]["finalizers"] = json!(["tenant.example/holds"]);
        tenant.post(CONFIG_MAPS, bait).await.expect(201);
        // In the tenant's workspace the owner does not exist.
        eventually("the tenant's object is collected because its owner does not exist", async || {
            let bait = tenant.get(&config_map(name)).await.expect(200);
            bait["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
        delete_with_propagation(&admin, &config_map(name), propagation).await;
        eventually(&format!("{name} is gone"), async || admin.get(&config_map(name)).await.status == 404)
            .await;
        let bait = tenant.get(&config_map(name)).await.expect(200);
        assert_eq!(
            bait["metadata"]["ownerReferences"][0]["uid"], owner["metadata"]["uid"],
            "the tenant's object must be unchanged"
        );
        if propagation == "Orphan" {
            let kept = admin.get(&config_map(&format!("{name}-own"))).await.expect(200);
            assert!(kept["metadata"].get("ownerReferences").is_none(), "{kept}");
        } else {
            eventually("the owned object is deleted", async || {
                admin.get(&config_map(&format!("{name}-own"))).await.status == 404
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_another_workspace_do_not_count_as_replicas() {
    const SETS: &str = "/apis/apps/v1/namespaces/work/replicasets";
    const PODS: &str = "/api/v1/namespaces/work/pods";
    let server = TenantServer::start(&["owner"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    let tenant = server.user("owner", "root:team");
    let namespace = json!({ "metadata": { "name": "work", "labels": { "atoll.dev/grain": "pod" } } });
    for client in [&admin, &tenant] {
        client.post("/api/v1/namespaces", namespace.clone()).await.expect(201);
    }
    let template = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "image": "x" }] },
    });
    let set = json!({
        "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template },
    });
    for client in [&admin, &tenant] {
        eventually("the namespace has its ServiceAccount", async || {
            client.get("/api/v1/namespaces/work/serviceaccounts/default").await.status == 200
        })
        .await;
    }
    let set = admin.post(SETS, set).await.expect(201);
    let live = async || {
        let list = admin.get(PODS).await.expect(200);
        let pods = list["items"].as_array().unwrap().iter();
        let mut uids: Vec<String> = pods
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_string())
            .collect();
        uids.sort();
        uids
    };
    eventually("the ReplicaSet has its pods", async || live().await.len() == 2).await;
    let before = live().await;
    for number in 0..4 {
        let pod = json!({
            "metadata": {
                "name": format!("bait-{number}"), "labels": { "app": "web" }, "finalizers": ["tenant.example/holds"],
                "ownerReferences": reference("apps/v1", "ReplicaSet", &set),
            },
            "spec": template["spec"],
        });
        tenant.post(PODS, pod).await.expect(201);
    }
    // However often the ReplicaSet is reconciled, only root's pods count.
    admin.merge(&format!("{SETS}/web"), json!({ "spec": { "replicas": 3 } })).await.expect(200);
    eventually("the ReplicaSet has observed its new size", async || {
        let set = admin.get(&format!("{SETS}/web")).await.expect(200);
        set["status"]["observedGeneration"] == set["metadata"]["generation"] && set["status"]["replicas"] == 3
    })
    .await;
    let after = live().await;
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?} {after:?}");
}
