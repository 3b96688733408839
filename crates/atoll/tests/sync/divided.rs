//! Work that is divided between clusters, rollouts that are held, and reports about capacity and Pods.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};

use crate::health::condition;
use crate::{Fleet, Mode, create, object, wait_for};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const REPORTS: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses";

fn template(restart: &str, annotations: Value) -> Value {
    let requests = json!({ "requests": { "cpu": "100m", "memory": "64Mi" } });
    json!({
        "metadata": { "labels": { "app": "a" }, "annotations": annotations },
        "spec": {
            "restartPolicy": restart, "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": "example/app:1", "resources": requests }],
        },
    })
}

async fn place(admin: &Client, path: &str, shares: Value) {
    admin.merge(&format!("{path}/placement"), json!({ "spec": { "clusters": shares } })).await.expect(200);
}

async fn pods(cluster: &Client) -> Vec<Value> {
    cluster.get(PODS).await.expect(200)["items"].as_array().unwrap().clone()
}

async fn pod_names(cluster: &Client) -> Vec<String> {
    let mut names: Vec<String> =
        pods(cluster).await.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().into()).collect();
    names.sort();
    names
}

/// Returns the report of a cluster about an object.
async fn report(admin: &Client, cluster: &str, name: &str) -> Value {
    let reports = admin.get(REPORTS).await.expect(200);
    let of = |report: &&Value| report["spec"]["cluster"] == cluster && report["spec"]["name"] == name;
    reports["items"].as_array().unwrap().iter().find(of).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn divided_work_runs_once() {
    let fleet = Fleet::start_unscheduled(Mode::Push, &["east", "west"]);
    let above = fleet.admin();
    let (east, west) = (fleet.clusters[0].admin(), fleet.clusters[1].admin());
    let quick = json!({ "sim.atoll.dev/exit-after": "100ms" });
    let spec = json!({ "completions": 10, "parallelism": 4, "template": template("Never", quick) });
    create(&above, JOBS, object("batch/v1", "Job", "sum", json!({ "spec": spec }))).await;
    let part =
        |name: &str, completions: i64| json!({ "name": name, "completions": completions, "parallelism": 2 });
    place(&above, &format!("{JOBS}/sum"), json!([part("east", 6), part("west", 4)])).await;
    wait_for("the job is complete", &above, &format!("{JOBS}/sum"), |job| {
        condition(job, "Complete").0 == "True"
    })
    .await;
    let job = above.get(&format!("{JOBS}/sum")).await.expect(200);
    assert_eq!(job["status"]["succeeded"], 10, "{}", job["status"]);
    assert_eq!((pods(&east).await.len(), pods(&west).await.len()), (6, 4));

    let spec = json!({
        "replicas": 5, "serviceName": "db", "selector": { "matchLabels": { "app": "a" } },
        "template": template("Always", json!({})),
    });
    create(&above, STATEFUL_SETS, object("apps/v1", "StatefulSet", "db", json!({ "spec": spec }))).await;
    let part = |name: &str, first: i64, replicas: i64| json!({ "name": name, "firstOrdinal": first, "replicas": replicas });
    place(&above, &format!("{STATEFUL_SETS}/db"), json!([part("east", 0, 2), part("west", 2, 3)])).await;
    wait_for("all pods are ready", &above, &format!("{STATEFUL_SETS}/db"), |set| {
        set["status"]["readyReplicas"] == 5 && set["status"]["replicas"] == 5
    })
    .await;
    let of_set =
        |names: Vec<String>| names.into_iter().filter(|name| name.starts_with("db-")).collect::<Vec<_>>();
    assert_eq!(of_set(pod_names(&east).await), ["db-0", "db-1"]);
    assert_eq!(of_set(pod_names(&west).await), ["db-2", "db-3", "db-4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_cluster_gets_a_new_template_when_it_is_released() {
    let fleet = Fleet::start_unscheduled(Mode::Push, &["east", "west"]);
    let above = fleet.admin();
    let (east, west) = (fleet.clusters[0].admin(), fleet.clusters[1].admin());
    let web = format!("{DEPLOYMENTS}/web");
    let spec = json!({
        "replicas": 4, "selector": { "matchLabels": { "app": "a" } }, "template": template("Always", json!({})),
    });
    create(&above, DEPLOYMENTS, object("apps/v1", "Deployment", "web", json!({ "spec": spec }))).await;
    let share = |name: &str, is_held: bool| json!({ "name": name, "replicas": 2, "held": is_held });
    place(&above, &web, json!([share("east", false), share("west", false)])).await;
    wait_for("all replicas are ready", &above, &web, |web| web["status"]["readyReplicas"] == 4).await;

    place(&above, &web, json!([share("east", false), share("west", true)])).await;
    let image = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example/app:2" }]);
    let body = atoll_testkit::RequestContent::Raw("application/json-patch+json", image.to_string().into());
    above.request(http::Method::PATCH, &web, body).await.expect(200);
    let image = |web: &Value| web["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    wait_for("east has the new template", &east, &web, |web| {
        image(web) == "example/app:2" && web["status"]["updatedReplicas"] == 2
    })
    .await;
    eventually("west is held", async || report(&above, "west", "web").await["status"]["held"] == true).await;
    assert_eq!(image(&west.get(&web).await.expect(200)), "example/app:1");
    let mut http = above.http1().await.unwrap();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = http.get_accepting(REPORTS, accept).await.unwrap().expect(200);
    assert!(table["rows"].to_string().contains("\"Applied,Held\""), "{table}");
    wait_for("the rollout is not complete", &above, &web, |web| {
        let status = &web["status"];
        status["updatedReplicas"] == 2
            && status["replicas"] == 4
            && status["observedGeneration"] == web["metadata"]["generation"]
    })
    .await;

    place(&above, &web, json!([share("east", false), share("west", false)])).await;
    wait_for("the rollout is complete", &above, &web, |web| {
        web["status"]["updatedReplicas"] == 4 && web["status"]["readyReplicas"] == 4
    })
    .await;
    assert_eq!(image(&west.get(&web).await.expect(200)), "example/app:2");
    eventually("west is released", async || {
        report(&above, "west", "web").await["status"].get("held").is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_and_capacity_are_reported() {
    // Classes, rights and usage are read every few heartbeats. The scheduler would not place a pod that has no room.
    let setup =
        Setup::new().flag("--cluster-heartbeat-interval", 1).flag("--controllers", "*,-placementscheduler");
    let fleet = Fleet::start_with(setup, Mode::Push, &["east"]);
    let (above, east) = (fleet.admin(), fleet.clusters[0].admin());
    let path = "/apis/atoll.dev/v1alpha1/clusters/east";
    let storage = json!({ "metadata": { "name": "fast" }, "provisioner": "example.com/disk" });
    east.post("/apis/storage.k8s.io/v1/storageclasses", storage).await.expect(201);
    let mut large = template("Always", json!({}));
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "5".into();
    let spec = json!({ "replicas": 4, "selector": { "matchLabels": { "app": "a" } }, "template": large });
    let web =
        create(&above, DEPLOYMENTS, object("apps/v1", "Deployment", "web", json!({ "spec": spec }))).await;
    fleet.place("deployment/web", "east");
    // Three nodes of eight cores have room for three of the four pods.
    eventually("the pods are counted", async || {
        let pods = &report(&above, "east", "web").await["status"]["pods"];
        let counts = ["total", "ready", "pending", "unschedulable", "bound"].map(|name| pods[name].as_i64());
        let reason = pods["reason"].as_str().unwrap_or_default();
        counts == [4, 3, 1, 1, 3].map(Some) && reason.contains("Insufficient cpu")
    })
    .await;
    eventually("their usage is reported", async || {
        let usage = &report(&above, "east", "web").await["status"]["pods"]["usage"];
        usage["cpu"].is_string() && usage["memory"].is_string()
    })
    .await;
    let uid = web["metadata"]["uid"].as_str().unwrap();
    wait_for("free capacity and bound pods are reported", &above, path, |cluster| {
        let status = &cluster["status"];
        let free = status["free"].as_array().cloned().unwrap_or_default();
        let nodes: i64 = free.iter().filter_map(|group| group["nodes"].as_i64()).sum();
        status["bound"][uid] == 3
            && nodes == 3
            && free.iter().all(|group| {
                group["resources"]["cpu"] == "3" && group["labels"]["kubernetes.io/os"] == "linux"
            })
    })
    .await;
    // Three of the pods have a node. The fourth is not counted, because the control plane reserves what it needs.
    let hard = json!({ "requests.cpu": "40", "pods": "10", "limits.cpu": "1" });
    let quota = json!({ "metadata": { "name": "team" }, "spec": { "hard": hard } });
    east.post("/api/v1/namespaces/default/resourcequotas", quota).await.expect(201);
    wait_for("what the quota leaves is reported", &above, path, |cluster| {
        let left = json!({ "cpu": "25000m", "pods": "7" });
        cluster["status"]["quotas"] == json!([{ "workspace": "root", "namespace": "default", "left": left }])
    })
    .await;
    wait_for("classes and APIs are reported", &above, path, |cluster| {
        let status = &cluster["status"];
        let apps = status["apis"].as_array().into_iter().flatten().find(|api| api["group"] == "apps");
        let contains =
            |list: &Value, name: &str| list.as_array().is_some_and(|list| list.contains(&json!(name)));
        contains(&status["classes"]["storage"], "fast")
            && apps.is_some_and(|apps| {
                contains(&apps["resources"], "deployments") && contains(&apps["versions"], "v1")
            })
    })
    .await;
    let cluster = above.get(path).await.expect(200);
    let core = cluster["status"]["apis"].as_array().unwrap().iter().find(|api| api["group"] == "").cloned();
    let refused = core.unwrap()["refused"].clone();
    assert!(refused.as_array().is_some_and(|refused| refused.contains(&json!("pods"))), "{refused}");
    assert!(cluster["status"].get("missingRights").is_none(), "{}", cluster["status"]);

    // A cluster that has joined with an earlier version lacks a right.
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-syncer";
    let mut rules = east.get(role).await.expect(200)["rules"].clone();
    rules.as_array_mut().unwrap().retain(|rule| rule["apiGroups"] != json!(["metrics.k8s.io"]));
    east.merge(role, json!({ "rules": rules })).await.expect(200);
    wait_for("the condition names the right and the command", &above, path, |cluster| {
        let (status, reason, message) = condition(cluster, "RightsComplete");
        (status.as_str(), reason.as_str()) == ("False", "RightsMissing")
            && message.contains("list pods.metrics.k8s.io")
            && message.contains("atoll cluster join east --kubeconfig FILE")
    })
    .await;
    assert_eq!(condition(&above.get(path).await.expect(200), "Ready").0, "True");
    let printed = crate::join(
        &fleet.atoll.kubeconfig(),
        "east",
        &fleet.clusters[0].kubeconfig(),
        Mode::Push,
        "/".as_ref(),
    );
    assert!(printed.contains("east"), "{printed}");
    wait_for("the condition is gone", &above, path, |cluster| {
        condition(cluster, "RightsComplete").0.is_empty()
    })
    .await;
}
