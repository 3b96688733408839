//! Clusters leave: with what was placed on them, or without; and one comes back to be looked at only.

use atoll_testkit::RealCluster;
use serde_json::{Value, json};

use crate::application::Site;
use crate::containers::run;
use crate::joining::place;
use crate::objects::{becomes, create, goes, object};
use crate::support::process::atoll;
use crate::support::programs::succeed;
use crate::{cluster, command, is_ready};

/// A Deployment, a DaemonSet and a Service that run on the cluster, and nothing else that ran there before.
async fn deployed(site: &Site<'_>) {
    emptied(site).await;
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
    becomes("it runs", &site.above, &site.path("deployments/left"), is_available).await;
    let agent = format!("{}/left", collection(site, "daemonsets"));
    becomes("it runs", &site.above, &agent, |object| object["status"]["numberAvailable"] == 1).await;
}

async fn emptied(site: &Site<'_>) {
    let is_empty = |pods: &Value| pods["items"].as_array().unwrap().is_empty();
    becomes("its Pods are gone", &site.below, &site.collection("pods"), is_empty).await;
}

/// Where objects are that are not part of the application.
fn collection(site: &Site<'_>, resource: &str) -> String {
    let group = match resource {
        "endpointslices" => "apis/discovery.k8s.io/v1",
        "daemonsets" | "replicasets" | "controllerrevisions" => "apis/apps/v1",
        _ => return site.collection(resource),
    };
    format!("/{group}/namespaces/{}/{resource}", site.namespace)
}

/// Whatever there is that could say that it once was Atoll's.
const TRACES: [&str; 8] = [
    "deployments",
    "replicasets",
    "daemonsets",
    "controllerrevisions",
    "services",
    "endpoints",
    "endpointslices",
    "pods",
];

/// Nothing says any more that the cluster had joined.
async fn is_clean(site: &Site<'_>) {
    for path in [
        "/api/v1/namespaces/atoll-system",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-syncer",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/atoll-syncer",
    ] {
        goes(&site.below, path).await;
    }
    goes(&site.above, &cluster(site.cluster)).await;
}

/// What was placed there goes with it.
pub async fn with_workloads(site: &Site<'_>) {
    deployed(site).await;
    let said = command(&site.control_plane, &format!("cluster remove {} --yes", site.cluster));
    assert!(said.contains("has left the fleet"), "{said}");
    goes(&site.below, &site.path("deployments/left")).await;
    site.above.get(&site.path("deployments/left")).await.expect(200);
    emptied(site).await;
    is_clean(site).await;
}

/// What was placed there goes on running, and is nobody's.
pub async fn without_workloads(site: &Site<'_>) {
    deployed(site).await;
    let before = run(site).await;
    let words = format!("cluster remove {} --keep-workloads --yes", site.cluster);
    let said = command(&site.control_plane, &words);
    assert!(said.contains("has left the fleet"), "{said}");
    is_clean(site).await;
    for resource in TRACES {
        // Controllers take labels off what they have made when ours are off what they made it for.
        becomes(&format!("{resource} say nothing of us"), &site.below, &collection(site, resource), |list| {
            let items = list["items"].as_array().unwrap();
            !items.is_empty() && !list.to_string().contains("atoll.dev")
        })
        .await;
    }
    assert_eq!(run(site).await, before, "containers are not those of before");
}

/// What runs there already is seen, and nothing is written.
pub async fn observed(site: &Site<'_>, real: &RealCluster) {
    let mut joining = atoll(&["cluster", "join", site.cluster, "--observe", "--kubeconfig"]);
    joining.arg(real.kubeconfig()).arg("--control-plane-kubeconfig").arg(&site.control_plane);
    let said = succeed(&mut joining);
    assert!(said.contains("kind: ClusterRole"), "{said}");
    becomes("the cluster is ready", &site.above, &cluster(site.cluster), is_ready).await;
    let nodes = |cluster: &Value| cluster["status"]["nodes"] == json!({ "total": 1, "ready": 1 });
    becomes("its node is seen", &site.above, &cluster(site.cluster), nodes).await;
    let described = command(&site.control_plane, &format!("cluster describe {}", site.cluster));
    assert!(described.contains("v1.36."), "{described}");
    let runs = described.split("Running there:\n").nth(1).unwrap_or_default();
    assert!(runs.lines().any(|line| line.contains("Deployment") && line.contains(" left ")), "{described}");
    let left = site.below.get(&site.path("deployments/left")).await.expect(200);
    assert!(!left.to_string().contains("atoll.dev"), "{left}");
}
