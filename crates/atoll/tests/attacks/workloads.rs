//! Numbers in the specs of a tenant's workloads do not determine the memory of controllers.

use atoll_testkit::wait::eventually;
use serde_json::json;

use crate::bindings::{TenantServer, create_tenant_workspace};

/// Memory that the controllers may use for a workload of any size.
const MEMORY: u64 = 256 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_stateful_set_uses_little_memory() {
    let server = TenantServer::start(&["owner"], &[]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    let namespace = json!({ "metadata": { "name": "apps", "labels": { "atoll.dev/grain": "pod" } } });
    owner.post("/api/v1/namespaces", namespace).await.expect(201);
    let before = server.atoll.resident();
    for policy in ["OrderedReady", "Parallel"] {
        let name = policy.to_lowercase();
        let set = json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": i32::MAX,
                "serviceName": name,
                "podManagementPolicy": policy,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "main", "image": "app" }] },
                },
            },
        });
        owner.post("/apis/apps/v1/namespaces/apps/statefulsets", set).await.expect(201);
        let first_pod = format!("/api/v1/namespaces/apps/pods/{name}-0");
        eventually("the first pod exists", async || owner.get(&first_pod).await.status == 200).await;
        let grown = server.atoll.resident().saturating_sub(before);
        assert!(grown < MEMORY, "{policy}: {} MiB more", grown >> 20);
    }
}
