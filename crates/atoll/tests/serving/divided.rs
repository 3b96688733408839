//! Workloads that are divided between real clusters: a Job completes exactly as often as it says, and the budget of a
//! rollout holds for all clusters together.

use atoll_fleet::Placement;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Client, RealCluster};
use serde_json::{Value, json};

use crate::application::POLICIES;

const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/sum";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/steady";
const REPLICAS: i64 = 10;

/// Returns the collection of an object.
fn collection(path: &str) -> &str {
    path.rsplit_once('/').unwrap().0
}

/// Lets a policy divide the objects of a kind that have this name evenly.
async fn divide(admin: &Client, kind: &str, name: &str) {
    let policy = json!({ "metadata": { "name": name }, "spec": {
        "objects": [{ "kind": kind, "name": name }],
        "replicas": { "division": "Even" },
    } });
    admin.post(POLICIES, policy).await.expect(201);
}

fn template(app: &str, image: &str, more: Value) -> Value {
    let mut container = json!({ "name": "main", "image": image, "imagePullPolicy": "Never" });
    for (field, value) in more.as_object().unwrap() {
        container[field] = value.clone();
    }
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [container], "automountServiceAccountToken": false },
    })
}

/// Returns the Pods of an application in all clusters.
async fn pods(clusters: &[&RealCluster], app: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for cluster in clusters {
        let below = Client::from_kubeconfig(&cluster.kubeconfig());
        let path = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{app}");
        let list = below.get(&path).await.expect(200);
        found.extend(list["items"].as_array().unwrap().iter().cloned());
    }
    found
}

/// A Job of ten completions over three clusters runs ten Pods.
pub async fn complete_a_job(admin: &Client, clusters: &[&RealCluster; 3]) {
    divide(admin, "Job", "sum").await;
    let mut template = template("sum", "localhost/web:1", json!({ "command": ["true"] }));
    template["spec"]["restartPolicy"] = "Never".into();
    let spec = json!({ "completions": REPLICAS, "parallelism": 6, "template": template });
    let job = json!({ "metadata": { "name": "sum" }, "spec": spec });
    admin.post(collection(JOB), job).await.expect(201);
    eventually("the Job is complete", async || {
        let job = admin.get(JOB).await.expect(200);
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|one| one["type"] == "Complete" && one["status"] == "True")
    })
    .await;
    let job = admin.get(JOB).await.expect(200);
    assert_eq!(job["status"]["succeeded"], REPLICAS, "{}", job["status"]);
    let mut parts: Vec<i64> =
        Placement::of(&job).clusters.iter().filter_map(|share| share.completions).collect();
    parts.sort_unstable();
    assert_eq!(parts, [3, 3, 4]);
    let phases: Vec<Value> =
        pods(clusters, "sum").await.iter().map(|pod| pod["status"]["phase"].clone()).collect();
    assert_eq!(phases, vec![json!("Succeeded"); 10]);
}

/// Number of Pods of an application that were ready in all clusters at the same time. The clusters are read one after
/// the other, so nothing may have changed when they are read again.
async fn available_at_once(clusters: &[&RealCluster], app: &str) -> usize {
    let mut before = pods(clusters, app).await;
    let waiting = Waiting::until("two readings of all clusters are equal");
    loop {
        let now = pods(clusters, app).await;
        if now == before {
            return available(&now);
        }
        before = now;
        waiting.again().await;
    }
}

/// Ready Pods that are not being deleted.
fn available(pods: &[Value]) -> usize {
    let is_available = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        pod["metadata"]["deletionTimestamp"].is_null()
            && conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    pods.iter().filter(is_available).count()
}

/// A new image reaches ten replicas over three clusters while at least nine are ready, both in the status above and as
/// counted in the clusters.
pub async fn roll_out_one_by_one(admin: &Client, clusters: &[&RealCluster; 3]) {
    divide(admin, "Deployment", "steady").await;
    let probe = json!({ "httpGet": { "path": "/", "port": 8080 }, "periodSeconds": 1, "timeoutSeconds": 5 });
    let deployment = json!({ "metadata": { "name": "steady" }, "spec": {
        "replicas": REPLICAS,
        "selector": { "matchLabels": { "app": "steady" } },
        "strategy": { "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } },
        "template": template("steady", "localhost/web:1", json!({ "readinessProbe": probe })),
    } });
    admin.post(collection(DEPLOYMENT), deployment).await.expect(201);
    eventually("all replicas are available", async || {
        let steady = admin.get(DEPLOYMENT).await.expect(200);
        steady["status"]["availableReplicas"] == REPLICAS && available_at_once(clusters, "steady").await == 10
    })
    .await;
    let image = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "localhost/web:2" }]);
    let body = atoll_testkit::RequestContent::Raw("application/json-patch+json", image.to_string().into());
    admin.request(http::Method::PATCH, DEPLOYMENT, body).await.expect(200);
    let (mut fewest, mut last) = ((REPLICAS, 10), Value::Null);
    let mut waiting = Waiting::until("the next replica is updated");
    loop {
        let steady = admin.get(DEPLOYMENT).await.expect(200);
        let status = &steady["status"];
        fewest.0 = fewest.0.min(status["availableReplicas"].as_i64().unwrap_or(0));
        fewest.1 = fewest.1.min(available_at_once(clusters, "steady").await);
        if status["observedGeneration"] == steady["metadata"]["generation"]
            && status["updatedReplicas"] == REPLICAS
            && status["availableReplicas"] == REPLICAS
        {
            break;
        }
        if last != *status {
            (waiting, last) = (Waiting::until("the next replica is updated"), status.clone());
        }
        waiting.again().await;
    }
    assert!(fewest.0 >= 9 && fewest.1 >= 9, "fewest in the status and in the clusters: {fewest:?}");
}
