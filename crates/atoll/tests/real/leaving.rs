//! Clusters leave with their workloads deleted or kept, and one joins again to be observed.

use atoll_testkit::{RealCluster, atoll, succeed};
use serde_json::{Value, json};

use crate::application::Site;
use crate::containers::running_containers;
use crate::joining::place;
use crate::objects::{create, object, wait_for, wait_until_deleted};
use crate::{cluster, command, is_ready};

/// Deploys a Deployment, a DaemonSet and a Service, after all earlier Pods are gone.
async fn deploy_workloads(site: &Site<'_>) {
    wait_until_empty(site).await;
    let labels = json!({ "app": "left" });
    let container = json!({ "name": "main", "image": "localhost/idle:1" });
    let spec = json!({
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
    });
    let service = json!({ "selector": labels, "ports": [{ "port": 80 }] });
    for (resource, api_version, kind, spec) in [
        ("deployments", "apps/v1", "Deployment", &spec),
        ("daemonsets", "apps/v1", "DaemonSet", &spec),
        ("services", "v1", "Service", &service),
    ] {
        let left = object(api_version, kind, "left", json!({ "spec": spec }));
        create(&site.above, &collection(site, resource), left).await;
    }
    let placed = ["deployments/left", "daemonsets/left", "services/left"];
    place(&site.control_plane, site.namespace, &placed, site.cluster);
    let is_available = |object: &Value| object["status"]["availableReplicas"] == 1;
    wait_for("the workload is available", &site.above, &site.path("deployments/left"), is_available).await;
    let agent = format!("{}/left", collection(site, "daemonsets"));
    wait_for("the workload is available", &site.above, &agent, |object| {
        object["status"]["numberAvailable"] == 1
    })
    .await;
}

async fn wait_until_empty(site: &Site<'_>) {
    let is_empty = |pods: &Value| pods["items"].as_array().unwrap().is_empty();
    wait_for("the application's Pods are gone", &site.below, &site.collection("pods"), is_empty).await;
}

/// Returns the path of a collection, also of resources that are not part of the application.
fn collection(site: &Site<'_>, resource: &str) -> String {
    let group = match resource {
        "endpointslices" => "apis/discovery.k8s.io/v1",
        "daemonsets" | "replicasets" | "controllerrevisions" => "apis/apps/v1",
        _ => return site.collection(resource),
    };
    format!("/{group}/namespaces/{}/{resource}", site.namespace)
}

/// Resources that are searched for traces of Atoll.
const SEARCHED_RESOURCES: [&str; 8] = [
    "deployments",
    "replicasets",
    "daemonsets",
    "controllerrevisions",
    "services",
    "endpoints",
    "endpointslices",
    "pods",
];

/// Waits until no trace of joining is left in the cluster.
async fn wait_until_clean(site: &Site<'_>) {
    for path in [
        "/api/v1/namespaces/atoll-system",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-syncer",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/atoll-syncer",
    ] {
        wait_until_deleted(&site.below, path).await;
    }
    wait_until_deleted(&site.above, &cluster(site.cluster)).await;
}

/// Removes a cluster together with its workloads.
pub async fn remove_with_workloads(site: &Site<'_>) {
    deploy_workloads(site).await;
    let printed = command(&site.control_plane, &format!("cluster remove {} --yes", site.cluster));
    assert!(printed.contains("has left the fleet"), "{printed}");
    wait_until_deleted(&site.below, &site.path("deployments/left")).await;
    site.above.get(&site.path("deployments/left")).await.expect(200);
    wait_until_empty(site).await;
    wait_until_clean(site).await;
}

/// Removes a cluster and keeps its workloads running, without traces of Atoll.
pub async fn remove_keeping_workloads(site: &Site<'_>) {
    deploy_workloads(site).await;
    let before = running_containers(site).await;
    let words = format!("cluster remove {} --keep-workloads --yes", site.cluster);
    let printed = command(&site.control_plane, &words);
    assert!(printed.contains("has left the fleet"), "{printed}");
    wait_until_clean(site).await;
    for resource in SEARCHED_RESOURCES {
        // Controllers remove copied labels from owned objects when the owner has lost its labels.
        wait_for(
            &format!("{resource} have no trace of Atoll"),
            &site.below,
            &collection(site, resource),
            |list| {
                let items = list["items"].as_array().unwrap();
                !items.is_empty() && !list.to_string().contains("atoll.dev")
            },
        )
        .await;
    }
    assert_eq!(running_containers(site).await, before, "containers must not be restarted");
}

/// Joins a cluster as observed: existing workloads are reported, and nothing is written.
pub async fn join_observed(site: &Site<'_>, real: &RealCluster) {
    let mut joining = atoll(&["cluster", "join", site.cluster, "--observe", "--kubeconfig"]);
    joining.arg(real.kubeconfig()).arg("--control-plane-kubeconfig").arg(&site.control_plane);
    let printed = succeed(&mut joining);
    assert!(printed.contains("kind: ClusterRole"), "{printed}");
    wait_for("the cluster is ready", &site.above, &cluster(site.cluster), is_ready).await;
    let nodes = |cluster: &Value| cluster["status"]["nodes"] == json!({ "total": 1, "ready": 1 });
    wait_for("the cluster's node is reported", &site.above, &cluster(site.cluster), nodes).await;
    let described = command(&site.control_plane, &format!("cluster describe {}", site.cluster));
    assert!(described.contains("v1.36."), "{described}");
    let runs = described.split("Running there:\n").nth(1).unwrap_or_default();
    assert!(runs.lines().any(|line| line.contains("Deployment") && line.contains(" left ")), "{described}");
    let left = site.below.get(&site.path("deployments/left")).await.expect(200);
    assert!(!left.to_string().contains("atoll.dev"), "{left}");
}
