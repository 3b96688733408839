//! Overrides of a tenant's own Cluster do not determine the memory of the server.

use atoll_testkit::Watch;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};

const CONTAINERS: usize = 5000;
/// Memory that a shape may use.
const MEMORY: u64 = 256 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn overrides_of_many_containers_use_little_memory() {
    // The test places the objects itself.
    let server = TenantServer::start(&["owner"], &[("--controllers", "*,-placementscheduler")]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    let variables: Vec<Value> =
        (0..2000).map(|number| json!({ "name": format!("V{number}"), "value": "x" })).collect();
    for (name, row) in [
        ("registry", json!({ "registry": { "to": format!("a.io/{}", "b".repeat(200_000)) } })),
        ("env", json!({ "env": variables })),
    ] {
        let cluster = json!({ "metadata": { "name": name }, "spec": { "mode": "none", "overrides": [row] } });
        owner.post("/apis/atoll.dev/v1alpha1/clusters", cluster).await.expect(201);
        let containers: Vec<Value> =
            (0..CONTAINERS).map(|number| json!({ "name": format!("c{number}"), "image": "app" })).collect();
        let deployment = json!({
            "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": { "app": name } }, "spec": { "containers": containers } },
            },
        });
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        let created = owner.post(deployments, deployment).await.expect(201);
        let placement = json!({ "spec": { "clusters": [{ "name": name }] } });
        owner.merge(&format!("{deployments}/{name}/placement"), placement).await.expect(200);
        let before = server.atoll.resident();
        let _view = Watch::open(&owner, &format!("/services/sync/{name}")).await;
        let uid = created["metadata"]["uid"].as_str().unwrap();
        let record = format!("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses/{uid}.{name}");
        eventually("the shape is refused", async || owner.get(&record).await.status == 200).await;
        let status = owner.get(&record).await.expect(200)["status"].clone();
        assert_eq!(status["state"], "Refused");
        let message = status["message"].as_str().unwrap();
        let expected = format!("spec.overrides[0].{name}: the overrides of the cluster would add more than");
        assert!(message.starts_with(&expected), "{message}");
        let grown = server.atoll.resident().saturating_sub(before);
        assert!(grown < MEMORY, "{name}: {} MiB more", grown >> 20);
    }
}
