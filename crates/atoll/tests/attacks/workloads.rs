//! Numbers in the specs of a tenant's workloads do not determine the memory of controllers.

use atoll_testkit::wait::eventually;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};

/// Memory that the controllers may use for a workload of any size.
const MEMORY: u64 = 256 << 20;
/// Pods that a Service selects, and its ports. Their product is 240,000.
const PODS: usize = 600;
const PORTS: usize = 400;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_many_ports_and_pods_uses_little_memory() {
    let server = TenantServer::start(&["owner"], &[]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    let namespace = json!({ "metadata": { "name": "apps", "labels": { "atoll.dev/grain": "pod" } } });
    owner.post("/api/v1/namespaces", namespace).await.expect(201);
    let pods = "/api/v1/namespaces/apps/pods";
    let create = async |number: usize| {
        let name = format!("web-{number}");
        let spec = json!({ "nodeName": "node", "containers": [{ "name": "main", "image": "app" }] });
        let pod = json!({ "metadata": { "name": name, "labels": { "app": "web" } }, "spec": spec });
        owner.post(pods, pod).await.expect(201);
        let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
        let status = json!({
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{ "ip": ip }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        });
        owner.merge(&format!("{pods}/{name}/status"), json!({ "status": status })).await.expect(200);
    };
    futures_util::stream::iter(0..PODS).for_each_concurrent(16, create).await;
    let before = server.atoll.resident();
    let port = |number: usize| json!({ "name": format!("p{number}"), "port": number + 1 });
    let ports: Vec<Value> = (0..PORTS).map(port).collect();
    let spec = json!({ "selector": { "app": "web" }, "ports": ports });
    let service = json!({ "metadata": { "name": "web" }, "spec": spec });
    owner.post("/api/v1/namespaces/apps/services", service).await.expect(201);
    let mut most = 0;
    eventually("all pods are endpoints", async || {
        most = most.max(server.atoll.resident());
        let slices = owner.get("/apis/discovery.k8s.io/v1/namespaces/apps/endpointslices").await.expect(200);
        let length = |list: &Value| list.as_array().map_or(0, Vec::len);
        let slices = slices["items"].as_array().unwrap();
        let endpoints = owner.get("/api/v1/namespaces/apps/endpoints/web").await.json();
        let subset = &endpoints["subsets"][0];
        slices.iter().map(|slice| length(&slice["endpoints"])).sum::<usize>() == PODS
            && (length(&subset["addresses"]), length(&subset["ports"])) == (PODS, PORTS)
    })
    .await;
    let grown = most.saturating_sub(before);
    assert!(grown < MEMORY, "{} MiB more", grown >> 20);
}

/// A tenant can serve a list of any length as an external metric.
#[tokio::test(flavor = "multi_thread")]
async fn long_lists_of_external_metrics_are_refused() {
    let server = TenantServer::start(&["owner"], &[]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "metadata": {
            "name": "depth.external.metrics.k8s.io",
            "annotations": { "api-approved.kubernetes.io": "unapproved, for a test" },
        },
        "spec": {
            "group": "external.metrics.k8s.io", "scope": "Namespaced", "names": { "plural": "depth", "kind": "Depth" },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    owner.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let namespace = json!({ "metadata": { "name": "apps", "labels": { "atoll.dev/grain": "pod" } } });
    owner.post("/api/v1/namespaces", namespace).await.expect(201);
    let create = async |number: usize| {
        let metric = json!({
            "apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "Depth", "value": "1",
            "metadata": { "name": format!("m{number}") },
        });
        let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/apps/depth";
        owner.post(path, metric).await.expect(201);
    };
    futures_util::stream::iter(0..1001).for_each_concurrent(8, create).await;
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "app" }] },
            },
        },
    });
    owner.post("/apis/apps/v1/namespaces/apps/deployments", deployment).await.expect(201);
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let metric =
        json!({ "type": "External", "external": { "metric": { "name": "depth" }, "target": target } });
    let autoscaler = json!({
        "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 3, "metrics": [metric],
        },
    });
    let path = "/apis/autoscaling/v2/namespaces/apps/horizontalpodautoscalers";
    owner.post(path, autoscaler).await.expect(201);
    eventually("the autoscaler does not read the list", async || {
        let found = owner.get(&format!("{path}/web")).await.expect(200);
        let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        let mut active = conditions.filter(|one| one["type"] == "ScalingActive");
        active.any(|one| one["message"].to_string().contains("the response contains more than 1000 metrics"))
    })
    .await;
}
