//! A tenant's Clusters neither block names of other workspaces nor receive their objects.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Watch};
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
const STATUSES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses";
const VIEW: &str = "/services/sync/prod";

fn cluster() -> Value {
    json!({ "metadata": { "name": "prod" }, "spec": { "mode": "none" } })
}

fn placement() -> String {
    format!("{}/placement", config_map("a"))
}

fn on_prod() -> Value {
    json!({ "spec": { "clusters": [{ "name": "prod" }] } })
}

/// Returns names and workspaces of all objects in the initial list of a sync view.
async fn objects_in_view(client: &Client) -> Vec<(String, String)> {
    let mut view = Watch::open(client, VIEW).await;
    let mut placed = Vec::new();
    loop {
        let line = view.line().await;
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_string();
        match line["type"].as_str().unwrap() {
            "Synced" => return placed,
            "Object" | "Remove" => placed.push((text("workspace"), text("name"))),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_name_of_a_tenant_stays_available_above() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let workspace = json!({ "metadata": { "name": "team" } });
    let workspace = admin.post("/apis/atoll.dev/v1alpha1/workspaces", workspace).await.expect(201);
    let id = workspace["status"]["id"].as_str().unwrap().to_string();
    let team = admin.workspace("root:team");
    // The tenant is first to use a name that other workspaces will use.
    let tenant_cluster = team.post(CLUSTERS, cluster()).await.expect(201);
    team.post(CONFIG_MAPS, config_map_with("a", "theirs")).await.expect(201);
    let placed_there = team.merge(&placement(), on_prod()).await.expect(200);
    let own = admin.post(CLUSTERS, cluster()).await.expect(201);
    assert_eq!(placed_there["spec"]["clusters"][0]["uid"], tenant_cluster["metadata"]["uid"]);
    admin.post(CONFIG_MAPS, config_map_with("a", "own")).await.expect(201);
    admin.merge(&placement(), on_prod()).await.expect(200);

    // Each cluster gets the objects of its own workspace.
    let of = |workspace: &str| vec![(workspace.to_string(), "a".to_string())];
    assert_eq!((objects_in_view(&admin).await, objects_in_view(&team).await), (of("root"), of(&id)));
    // Neither can change objects on the other cluster.
    let uid = team.get(&config_map("a")).await.expect(200)["metadata"]["uid"].clone();
    let record = |state: &str| {
        json!({ "records": [{
            "resource": { "version": "v1", "resource": "configmaps", "kind": "ConfigMap", "namespaced": true },
            "workspace": id, "namespace": "default", "name": "a", "uid": uid, "state": state, "generation": 1,
        }] })
    };
    for state in ["Applied", "Gone"] {
        admin.post(VIEW, record(state)).await.expect(200);
    }
    assert_eq!(team.get(STATUSES).await.expect(200)["items"], json!([]));
    team.post(VIEW, record("Applied")).await.expect(200);
    assert_eq!(team.get(STATUSES).await.expect(200)["items"].as_array().unwrap().len(), 1);

    // With the tenant's Cluster deleted, the name means the Cluster above. Objects on the first are not moved
    // to the second.
    team.delete(&format!("{CLUSTERS}/prod")).await.expect(200);
    eventually("the Cluster is deleted", async || team.get(&format!("{CLUSTERS}/prod")).await.status == 404)
        .await;
    assert_eq!(objects_in_view(&admin).await, of("root"));
    let kept = team.get(&placement()).await.expect(200);
    assert_eq!(kept["spec"]["clusters"][0]["uid"], tenant_cluster["metadata"]["uid"]);
    // Placing the object again places it on the Cluster above.
    let moved = team.merge(&placement(), on_prod()).await.expect(200);
    assert_eq!(moved["spec"]["clusters"][0]["uid"], own["metadata"]["uid"]);
    assert_eq!(moved["status"]["leaving"], Value::Null, "a deleted cluster must not be listed as leaving");
    let mut both = objects_in_view(&admin).await;
    both.sort();
    let mut expected = [of("root"), of(&id)].concat();
    expected.sort();
    assert_eq!(both, expected);
    // A uid that no Cluster has is rejected.
    let other =
        json!({ "spec": { "clusters": [{ "name": "prod", "uid": tenant_cluster["metadata"]["uid"] }] } });
    let mut fresh = config_map_with("b", "1");
    fresh["metadata"]["name"] = "b".into();
    team.post(CONFIG_MAPS, fresh).await.expect(201);
    let refused = team.merge(&format!("{}/placement", config_map("b")), other).await;
    assert!(refused.expect_status(422, "Invalid").contains("spec.clusters[0].uid: Not found"));
}
