//! Adoption and release with the real kube-apiserver, kube-controller-manager and kube-scheduler, and KWOK's
//! nodes.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client};
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};

/// The simulated behaviour of KWOK's nodes and pods.
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upstream/stages.yaml");
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const SETS: &str = "/apis/apps/v1/namespaces/shop/replicasets";

async fn create(below: &Client, path: &str, object: Value) {
    // The namespace and its ServiceAccount may not exist yet.
    eventually(&format!("{path} accepts the object"), async || {
        matches!(below.post(path, &object).await.status, 201 | 409)
    })
    .await;
}

async fn get(below: &Client, path: &str) -> Value {
    below.get(path).await.expect(200)
}

/// Returns everything that must stay byte for byte the same.
async fn invariant_state(below: &Client) -> String {
    let web = get(below, WEB).await;
    let identities = async |path: &str| {
        let list = get(below, path).await;
        let items = list["items"].as_array().unwrap().clone();
        let mut found: Vec<String> = items.iter().map(|item| item["metadata"]["uid"].to_string()).collect();
        found.sort();
        found
    };
    json!({
        "uid": web["metadata"]["uid"], "spec": web["spec"],
        "sets": identities(SETS).await,
        "pods": identities("/api/v1/namespaces/shop/pods").await,
    })
    .to_string()
}

#[test]
fn workloads_of_a_real_cluster_are_adopted_and_released_without_a_restart() {
    let Some(programs) = cluster::programs() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    // Child programs end with the thread that starts them, which is this one.
    let (cluster, above) = (Cluster::of_kube_apiserver(&programs, STAGES), Atoll::start());
    let run = |line: &str| above.run(line);
    let below = cluster.admin();
    runtime.block_on(async {
        let labels = json!({ "kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux" });
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-1", "labels": labels } });
        create(&below, "/api/v1/nodes", node).await;
        create(&below, "/api/v1/namespaces", json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } })).await;
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "a": "1" } });
        create(&below, "/api/v1/namespaces/shop/configmaps", map).await;
        let template = json!({
            "metadata": { "labels": { "app": "web" } },
            "spec": {
                "containers": [{
                    "name": "main", "image": "example.com/main:1", "resources": { "requests": { "cpu": "1000m" } },
                    "ports": [{ "containerPort": 80 }],
                }],
                "volumes": [{ "name": "settings", "configMap": { "name": "settings" } }],
            },
        });
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
            "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "web" } }, "template": template },
        });
        create(&below, "/apis/apps/v1/namespaces/shop/deployments", web).await;
        eventually("the workload is available", async || {
            let web = get(&below, WEB).await;
            web["status"]["availableReplicas"] == 3
                && web["status"]["observedGeneration"] == web["metadata"]["generation"]
        })
        .await;
        let before = invariant_state(&below).await;
        run(&format!("cluster join east --kubeconfig {}", cluster.kubeconfig().display()));
        run("adopt deploy/web -n shop --cluster east --dry-run");
        assert_eq!(invariant_state(&below).await, before);
        run("adopt deploy/web -n shop --cluster east");
        let admin = above.admin();
        eventually("the status is reported above", async || {
            admin.get(WEB).await.json()["status"]["availableReplicas"] == 3
        })
        .await;
        assert_eq!(get(&below, WEB).await["metadata"]["annotations"]["atoll.dev/adopted"], "true");
        assert_eq!(invariant_state(&below).await, before);
        eventually("the ReplicaSet has copied the annotation", async || {
            get(&below, SETS).await.to_string().contains("atoll.dev/uid")
        })
        .await;
        run("release deploy/web -n shop --delete");
        let web = get(&below, WEB).await;
        assert!(!web["metadata"].to_string().contains("atoll"), "{web}");
        let sets = get(&below, SETS).await;
        assert!(!sets.to_string().contains("atoll.dev"), "{sets}");
        assert_eq!(invariant_state(&below).await, before);

        // The same into a namespace of another name.
        run("adopt deploy/web -n shop --into market --cluster east");
        let moved = WEB.replace("/shop/", "/market/");
        eventually("the status is reported above", async || {
            admin.get(&moved).await.json()["status"]["availableReplicas"] == 3
        })
        .await;
        assert_eq!(below.get("/api/v1/namespaces/market").await.status, 404);
        assert_eq!(invariant_state(&below).await, before);
        run("release deploy/web -n market --delete");
        for path in [WEB, "/api/v1/namespaces/shop"] {
            let found = get(&below, path).await;
            assert!(!found["metadata"].to_string().contains("atoll"), "{found}");
        }
        assert_eq!(invariant_state(&below).await, before);
    });
}
