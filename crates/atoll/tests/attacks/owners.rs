//! An object belongs to what is in its own workspace, whatever uid somebody writes into a reference.

use http::Method;
use serde_json::{Value, json};

use crate::bindings::{Tenancy, workspace};
use crate::support::access::{Access, Body};
use crate::support::{CONFIG_MAPS, config_map, config_map_with, eventually};

/// A reference to an object of another workspace.
fn reference(api_version: &str, kind: &str, owner: &Value) -> Value {
    let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Deletes an object of root, and says what is to become of what belongs to it.
async fn delete(access: &Access, path: &str, propagation: &str) {
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation });
    access.request(Method::DELETE, path, Body::Json(options)).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn references_into_another_workspace_keep_nothing_there() {
    let tenancy = Tenancy::start(&["owner"], &[]);
    let admin = tenancy.admin();
    workspace(&admin, "root", "team", "owner").await;
    let tenant = tenancy.person("owner", "root:team");
    for (name, propagation) in
        [("foreground", "Foreground"), ("orphan", "Orphan"), ("background", "Background")]
    {
        let owner = admin.post(CONFIG_MAPS, config_map_with(name, "1")).await.expect(201);
        // One of root's own, which belongs to it as well.
        let mut own = config_map_with(&format!("{name}-own"), "1");
        own["metadata"]["ownerReferences"] = reference("v1", "ConfigMap", &owner);
        admin.post(CONFIG_MAPS, own).await.expect(201);
        // The tenant's cannot go, so that whoever waits for it waits for ever.
        let mut bait = config_map_with(name, "1");
        bait["metadata"]["ownerReferences"] = reference("v1", "ConfigMap", &owner);
        bait["metadata"]["finalizers"] = json!(["tenant.example/holds"]);
        tenant.post(CONFIG_MAPS, bait).await.expect(201);
        // As far as the tenant's workspace goes the owner is not there.
        eventually("the tenant's object is found to belong to nothing", async || {
            let bait = tenant.get(&config_map(name)).await.expect(200);
            bait["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
        delete(&admin, &config_map(name), propagation).await;
        eventually(&format!("{name} is gone"), async || admin.get(&config_map(name)).await.status == 404)
            .await;
        let bait = tenant.get(&config_map(name)).await.expect(200);
        assert_eq!(
            bait["metadata"]["ownerReferences"][0]["uid"], owner["metadata"]["uid"],
            "nobody touched it"
        );
        if propagation == "Orphan" {
            let kept = admin.get(&config_map(&format!("{name}-own"))).await.expect(200);
            assert!(kept["metadata"].get("ownerReferences").is_none(), "{kept}");
        } else {
            eventually("what belonged to it is gone", async || {
                admin.get(&config_map(&format!("{name}-own"))).await.status == 404
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_another_workspace_are_nobodys_replicas() {
    const SETS: &str = "/apis/apps/v1/namespaces/work/replicasets";
    const PODS: &str = "/api/v1/namespaces/work/pods";
    let tenancy = Tenancy::start(&["owner"], &[]);
    let admin = tenancy.admin();
    workspace(&admin, "root", "team", "owner").await;
    let tenant = tenancy.person("owner", "root:team");
    let namespace = json!({ "metadata": { "name": "work", "labels": { "atoll.dev/grain": "pod" } } });
    for access in [&admin, &tenant] {
        access.post("/api/v1/namespaces", namespace.clone()).await.expect(201);
    }
    let template = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "image": "x" }] },
    });
    let set = json!({
        "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template },
    });
    for access in [&admin, &tenant] {
        eventually("the namespace has its ServiceAccount", async || {
            access.get("/api/v1/namespaces/work/serviceaccounts/default").await.status == 200
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
    eventually("root has its pods", async || live().await.len() == 2).await;
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
    // However often the set is looked at, only root's pods count.
    admin.merge(&format!("{SETS}/web"), json!({ "spec": { "replicas": 3 } })).await.expect(200);
    eventually("the set has seen its new size", async || {
        let set = admin.get(&format!("{SETS}/web")).await.expect(200);
        set["status"]["observedGeneration"] == set["metadata"]["generation"] && set["status"]["replicas"] == 3
    })
    .await;
    let after = live().await;
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?} {after:?}");
}
