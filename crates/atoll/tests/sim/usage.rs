//! Resource usage of nodes and Pods, metrics and autoscaling.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Kubectl, names};
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const PODS: &str = "/api/v1/namespaces/default/pods";
const USED_BY_PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
const USED_BY_NODES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

fn pod(name: &str, annotations: Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": name }, "annotations": annotations },
        "spec": { "containers": [{
            "name": "main", "image": "web:1", "resources": { "requests": { "cpu": "200m", "memory": "64Mi" } },
        }] },
    })
}

/// Returns the usage of a pod, if there are metrics.
async fn pod_usage(admin: &Client, name: &str) -> Option<Value> {
    let answer = admin.get(&format!("{USED_BY_PODS}/{name}")).await;
    (answer.status == 200).then(|| answer.json()["containers"][0]["usage"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_and_nodes_have_the_configured_usage() {
    let cluster = Atoll::simulate(&["--nodes=1"]);
    let admin = cluster.admin();
    let usage = json!({ "sim.atoll.dev/usage": "cpu=300m,memory=100Mi" });
    for pod in [pod("told", usage), pod("plain", json!({}))] {
        admin.post(PODS, pod).await.expect(201);
    }
    eventually("both pods have metrics", async || {
        pod_usage(&admin, "told").await.is_some() && pod_usage(&admin, "plain").await.is_some()
    })
    .await;
    assert_eq!(pod_usage(&admin, "told").await, Some(json!({ "cpu": "300m", "memory": "100Mi" })));
    assert_eq!(
        pod_usage(&admin, "plain").await,
        Some(json!({ "cpu": "100m", "memory": "32Mi" })),
        "half of the request"
    );
    let list = admin.get(USED_BY_PODS).await.expect(200);
    assert_eq!(
        (list["kind"].as_str(), names(&list)),
        (Some("PodMetricsList"), vec!["plain".into(), "told".into()])
    );
    let selected = admin.get(&format!("{USED_BY_PODS}?labelSelector=app%3Dtold")).await.expect(200);
    assert_eq!(names(&selected), ["told"]);
    let node = admin.get(&format!("{USED_BY_NODES}/sim-node-1")).await.expect(200);
    assert_eq!(
        (&node["kind"], &node["usage"]),
        (&json!("NodeMetrics"), &json!({ "cpu": "400m", "memory": "132Mi" }))
    );
    let message = admin.get(&format!("{USED_BY_NODES}/other")).await.expect_status(404, "NotFound");
    assert_eq!(message, "nodes \"other\" not found");
    let message =
        admin.get(&format!("{USED_BY_PODS}?watch=true")).await.expect_status(405, "MethodNotAllowed");
    assert_eq!(message, "watch is not supported on resources of kind \"pods.metrics.k8s.io\"");

    let changed = json!({ "metadata": { "annotations": { "sim.atoll.dev/usage": "cpu=50%" } } });
    admin.merge(&format!("{PODS}/told"), changed).await.expect(200);
    eventually("the usage has changed", async || {
        pod_usage(&admin, "told").await == Some(json!({ "cpu": "100m", "memory": "32Mi" }))
    })
    .await;

    let of_node = "/api/v1/nodes/sim-node-1/proxy";
    let summary = admin.get(&format!("{of_node}/stats/summary")).await.expect(200);
    assert_eq!(summary["node"]["nodeName"], "sim-node-1");
    assert_eq!(summary["node"]["cpu"]["usageNanoCores"], 200_000_000);
    assert_eq!(summary["pods"][0]["podRef"]["name"], "plain");
    assert_eq!(summary["pods"][0]["containers"][0]["memory"]["workingSetBytes"], 32 << 20);
    let figures = admin.get(&format!("{of_node}/metrics/resource")).await;
    let figures = figures.text();
    let line =
        r#"container_memory_working_set_bytes{container="main",namespace="default",pod="told"} 33554432 "#;
    assert!(figures.contains(line), "{figures}");

    cluster.fault("add dead-node sim-node-1");
    eventually("the metrics are gone", async || pod_usage(&admin, "told").await.is_none()).await;
    let message = admin.get(&format!("{USED_BY_PODS}/told")).await.expect_status(404, "NotFound");
    assert_eq!(message, "podmetrics.metrics.k8s.io \"default/told\" not found");
    assert_eq!(admin.get(USED_BY_NODES).await.expect(200)["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_api_is_in_openapi() {
    let cluster = Atoll::simulate(&["--nodes=0", "--controllers=false"]);
    let admin = cluster.admin();
    let package = "io.k8s.metrics.pkg.apis.metrics.v1beta1";
    let index = admin.get("/openapi/v3").await.expect(200);
    let address = index["paths"]["apis/metrics.k8s.io/v1beta1"]["serverRelativeURL"].as_str().unwrap();
    let document = admin.get(address).await.expect(200);
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let root = "/apis/metrics.k8s.io/v1beta1";
    let expected = [
        "/",
        "/namespaces/{namespace}/pods",
        "/namespaces/{namespace}/pods/{name}",
        "/nodes",
        "/nodes/{name}",
        "/pods",
    ];
    assert_eq!(paths, expected.map(|path| format!("{root}{path}")).iter().collect::<Vec<_>>());
    for definitions in
        [&document["components"]["schemas"], &admin.get("/openapi/v2").await.expect(200)["definitions"]]
    {
        let of = |kind: &str| &definitions[format!("{package}.{kind}")];
        assert_eq!(of("PodMetrics")["required"], json!(["timestamp", "window", "containers"]));
        assert_eq!(of("NodeMetrics")["required"], json!(["timestamp", "window", "usage"]));
        assert_eq!(of("ContainerMetrics")["required"], json!(["name", "usage"]));
        assert_eq!(of("PodMetricsList")["required"], json!(["items"]));
        let kind = json!([{ "group": "metrics.k8s.io", "kind": "PodMetrics", "version": "v1beta1" }]);
        assert_eq!(of("PodMetrics")["x-kubernetes-group-version-kind"], kind);
        assert_eq!(of("ContainerMetrics").get("x-kubernetes-group-version-kind"), None);
    }
    let silent = Atoll::simulate(&["--nodes=0", "--controllers=false", "--metrics-api=false"]);
    let index = silent.admin().get("/openapi/v3").await.expect(200);
    assert_eq!(index["paths"].get("apis/metrics.k8s.io/v1beta1"), None, "without metrics");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_top_shows_usage() {
    let cluster = Atoll::simulate(&["--nodes=1", "--node-cpu=2", "--node-memory=1Gi"]);
    let Some(kubectl) = Kubectl::new(&cluster.kubeconfig()) else { return };
    let admin = cluster.admin();
    let usage = json!({ "sim.atoll.dev/usage": "cpu=500m,memory=256Mi" });
    admin.post(PODS, pod("web", usage)).await.expect(201);
    eventually("the pod has metrics", async || pod_usage(&admin, "web").await.is_some()).await;
    let kubectl = |words: &str| {
        let shown = kubectl.run(words);
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let of_pods = ["NAME CPU(cores) MEMORY(bytes)", "web 500m 256Mi"];
    assert_eq!(kubectl("top pods"), of_pods);
    assert_eq!(kubectl("top pods --use-protocol-buffers=false"), of_pods);
    assert_eq!(
        kubectl("top pod web --containers"),
        ["POD NAME CPU(cores) MEMORY(bytes)", "web main 500m 256Mi"]
    );
    let of_nodes = ["NAME CPU(cores) CPU(%) MEMORY(bytes) MEMORY(%)", "sim-node-1 500m 25% 256Mi 25%"];
    assert_eq!(kubectl("top nodes"), of_nodes);
    assert_eq!(kubectl("get podmetrics"), ["NAME CPU MEMORY WINDOW", "web 500m 256Mi 1s"]);
    let explained = kubectl("explain podmetrics");
    for line in
        ["GROUP: metrics.k8s.io", "KIND: PodMetrics", "VERSION: v1beta1", "window <string> -required-"]
    {
        assert!(explained.iter().any(|known| known == line), "{line}: {explained:#?}");
    }
    let explained = kubectl("explain podmetrics.containers.usage --output=plaintext-openapiv2");
    assert!(explained.iter().any(|line| line == "FIELD: usage <map[string]string>"), "{explained:#?}");
    assert!(kubectl("explain nodemetrics.usage").iter().any(|line| line.starts_with("FIELD: usage <map")));
    let groups = kubectl("api-resources --api-group=metrics.k8s.io -o name");
    assert_eq!(groups, ["nodes.metrics.k8s.io", "pods.metrics.k8s.io"]);
    eventually("the API is in discovery", async || {
        let announced = admin.get("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io").await;
        announced.status == 200 && announced.json()["status"]["conditions"][0]["status"] == "True"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn load_scales_a_deployment_up_and_down() {
    let cluster = Atoll::simulate(&["--nodes=2", "--horizontal-pod-autoscaler-sync-period=1s"]);
    let admin = cluster.admin();
    let template = pod("web", json!({ "sim.atoll.dev/usage": "cpu=50%" }));
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"] },
            "spec": template["spec"],
        } },
    });
    admin.post(DEPLOYMENTS, deployment).await.expect(201);
    let at_once = json!({ "stabilizationWindowSeconds": 0 });
    let autoscaler = json!({
        "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [{ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 },
            } }],
            "behavior": { "scaleDown": at_once, "scaleUp": at_once },
        },
    });
    admin.post(AUTOSCALERS, autoscaler).await.expect(201);
    let seen = async || {
        let found = admin.get(&format!("{AUTOSCALERS}/web")).await.expect(200);
        found["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"].as_i64()
    };
    eventually("a utilization of 50 % is reported", async || seen().await == Some(50)).await;
    let replicas =
        async || admin.get(&format!("{DEPLOYMENTS}/web")).await.expect(200)["status"]["replicas"].clone();
    assert_eq!(replicas().await, 2, "the replicas that the load needs");
    let load = async |usage: &str| {
        let list = admin.get(PODS).await.expect(200);
        for name in names(&list) {
            let patch = json!({ "metadata": { "annotations": { "sim.atoll.dev/usage": usage } } });
            let answer = admin.merge(&format!("{PODS}/{name}"), patch).await;
            // Pods may be created and deleted meanwhile.
            assert!(matches!(answer.status, 200 | 404), "{}", answer.text());
        }
    };
    load("cpu=400%").await;
    eventually("the Deployment is scaled up", async || replicas().await == 5).await;
    eventually("the load has ended", async || {
        load("cpu=1%").await;
        replicas().await == 1
    })
    .await;
}
