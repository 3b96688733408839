//! Status and events of placed and unplaced workloads, and the commands that they suggest.

use atoll_testkit::Setup;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, plain_pods, wait_for, web};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const COMMAND: &str = "atoll place deployment/web --namespace default --on east";

fn condition(object: &Value, kind: &str) -> (String, String, String) {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|one| one["type"] == kind).cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_string();
    (text("status"), text("reason"), text("message"))
}

fn is_reported_unplaced(web: &Value) -> bool {
    let (status, reason, message) = condition(web, "Placed");
    let (_, given_up, _) = condition(web, "Progressing");
    let (available, _, _) = condition(web, "Available");
    (status.as_str(), reason.as_str()) == ("False", "NotPlaced")
        && message.ends_with(COMMAND)
        && (available.as_str(), given_up.as_str()) == ("False", "ProgressDeadlineExceeded")
        && web["status"]["observedGeneration"] == web["metadata"]["generation"]
        && web["status"].get("availableReplicas").is_none()
        && web["status"].get("replicas").is_none()
}

fn is_running(web: &Value) -> bool {
    web["status"]["availableReplicas"] == 2 && condition(web, "Placed").0 == "True"
}

#[tokio::test(flavor = "multi_thread")]
async fn unplaced_workload_reports_it() {
    let fleet = TestFleet::without_scheduler();
    let above = fleet.admin();
    let created = above.post(DEPLOYMENTS, web(2, plain_pods())).await;
    created.expect(201);
    let warning = created.header("warning").unwrap_or_default();
    assert!(warning.contains(COMMAND), "{warning}");
    wait_for("the Deployment is reported as unplaced", &above, WEB, is_reported_unplaced).await;
    eventually("an event is written", async || {
        let events = above.get(EVENTS).await.expect(200);
        let all = events["items"].as_array().unwrap();
        all.iter().any(|event| event["reason"] == "NotPlaced" && event["involvedObject"]["name"] == "web")
    })
    .await;
    // Only a cluster that accepts it is suggested.
    fleet.run("cluster cordon east");
    let is_refused = |web: &Value| {
        let (_, reason, message) = condition(web, "Placed");
        let why = "; no cluster accepts the object: east is cordoned (atoll cluster uncordon east)";
        reason == "NotPlaced" && message.ends_with(why)
    };
    wait_for("the condition says that no cluster accepts it", &above, WEB, is_refused).await;
    fleet.run("cluster uncordon east");
    wait_for("the condition suggests a cluster", &above, WEB, is_reported_unplaced).await;
    assert_eq!(fleet.run("place deployment/web"), "Deployment default/web is placed on no cluster.\n");
    fleet.run("place deployment/web --on east");
    wait_for("the workload is available", &above, WEB, is_running).await;
    assert_eq!(fleet.run("place deployment/web"), "Deployment default/web is placed on east.\n");

    // Clients that need a pod to connect to get an error that names the cluster. Others get an empty list.
    let pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb";
    for command in ["kubectl logs", "kubectl exec", "kubectl port-forward"] {
        let message =
            above.with_header("kubectl-command", command).get(pods).await.expect_status(400, "BadRequest");
        assert!(message.contains("the pods of Deployment default/web run in cluster east"), "{message}");
    }
    above.with_header("kubectl-command", "kubectl get").get(pods).await.expect(200);
    above.get(pods).await.expect(200);

    let settings = object("v1", "ConfigMap", "settings", json!({}));
    create(&above, "/api/v1/namespaces/default/configmaps", settings).await;
    fleet.run("place cm/settings --on east");
    let record = "/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses";
    wait_for("the ConfigMap is applied", &above, record, |list| {
        list["items"].as_array().into_iter().flatten().any(|one| one["spec"]["name"] == "settings")
    })
    .await;
    fleet.run("place deployment/web cm/settings --on none");
    wait_for("the Deployment is unplaced again", &above, WEB, is_reported_unplaced).await;
    eventually("other kinds have an event", async || {
        let events = above.get(EVENTS).await.expect(200);
        let all = events["items"].as_array().unwrap();
        all.iter()
            .any(|event| event["reason"] == "NotPlaced" && event["involvedObject"]["name"] == "settings")
    })
    .await;

    // Not for a workload with grain `pod`.
    let grain = json!({ "metadata": { "name": "here", "labels": { "atoll.dev/grain": "pod" } } });
    create(&above, "/api/v1/namespaces", grain).await;
    let created = above.post("/apis/apps/v1/namespaces/here/deployments", web(1, plain_pods())).await;
    created.expect(201);
    assert_eq!(created.header("warning"), None);
    let here = "/apis/apps/v1/namespaces/here/deployments/web";
    let web =
        wait_for("its controller observes it", &above, here, |web| web["status"]["observedGeneration"] == 1)
            .await;
    assert_eq!(condition(&web, "Placed").0, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_lost_cluster_are_not_available() {
    let mut fleet = TestFleet::not_joined();
    fleet.above = Setup::new().flag("--cluster-grace-period", 4).start();
    fleet.run(&format!("cluster join east --kubeconfig {}", fleet.east.kubeconfig().display()));
    let above = fleet.admin();
    create(&above, DEPLOYMENTS, web(2, plain_pods())).await;
    fleet.run("place deployment/web --on east");
    wait_for("the workload is available", &above, WEB, is_running).await;
    fleet.east.fault("add partition");
    let lost = |web: &Value| {
        let (status, reason, _) = condition(web, "Placed");
        (status.as_str(), reason.as_str()) == ("Unknown", "ClusterNotReady")
            && condition(web, "Available").0 == "False"
            && web["status"].get("availableReplicas").is_none()
            && web["status"]["unavailableReplicas"] == 2
    };
    wait_for("no replica is reported as available", &above, WEB, lost).await;
    // Nothing new is placed there without `--force`.
    let settings = object("v1", "ConfigMap", "settings", json!({}));
    create(&above, "/api/v1/namespaces/default/configmaps", settings).await;
    let errors = fleet.run_failing("place cm/settings --on east");
    assert!(errors.contains("cluster east is not ready"), "{errors}");
    fleet.run("place cm/settings --on east --force");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejection_by_a_cluster_is_reported() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    // Another user has an object of that name there.
    create(&below, DEPLOYMENTS, web(1, plain_pods())).await;
    create(&above, DEPLOYMENTS, web(2, plain_pods())).await;
    fleet.run("place deployment/web --on east");
    let conflicts = |web: &Value| {
        let (status, reason, message) = condition(web, "Placed");
        (status.as_str(), reason.as_str()) == ("False", "Conflict")
            && message.starts_with("east: ")
            && condition(web, "Progressing").1 == "ProgressDeadlineExceeded"
    };
    wait_for("the conflict is reported", &above, WEB, conflicts).await;
    eventually("an event is written", async || {
        let events = above.get(EVENTS).await.expect(200);
        let all = events["items"].as_array().unwrap();
        all.iter().any(|event| event["reason"] == "Conflict" && event["type"] == "Warning")
    })
    .await;
    let path = "/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses";
    let mut connection = above.http1().await.unwrap();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = connection.get_accepting(path, accept).await.unwrap().expect(200);
    let columns = table["columnDefinitions"].as_array().unwrap();
    let shown: Vec<&str> =
        columns.iter().filter(|one| one["priority"] == 0).filter_map(|one| one["name"].as_str()).collect();
    assert!(shown.contains(&"Message"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_cluster_gets_no_objects_and_can_be_removed() {
    let fleet = TestFleet::start();
    let above = fleet.admin();
    create(&above, DEPLOYMENTS, web(1, plain_pods())).await;
    fleet.run("place deployment/web --on east");
    wait_for("the workload is available", &above, WEB, |web| web["status"]["availableReplicas"] == 1).await;
    let observed = json!({ "spec": { "access": "observe" } });
    above.merge("/apis/atoll.dev/v1alpha1/clusters/east", observed).await.expect(200);
    let settings = object("v1", "ConfigMap", "settings", json!({}));
    create(&above, "/api/v1/namespaces/default/configmaps", settings).await;
    let errors = fleet.run_failing("place cm/settings --on east --force");
    assert!(errors.contains("cluster east is only observed"), "{errors}");
    let printed = fleet.run("cluster remove east --yes");
    assert!(printed.ends_with("Cluster east has left the fleet.\n"), "{printed}");
    let nowhere =
        |web: &Value| condition(web, "Placed").1 == "NotPlaced" && web["status"].get("replicas").is_none();
    wait_for("the Deployment is reported as unplaced", &above, WEB, nowhere).await;
}

/// Without any joined cluster, no condition is set.
#[tokio::test(flavor = "multi_thread")]
async fn without_clusters_nothing_is_reported() {
    let fleet = TestFleet::not_joined();
    let above = fleet.admin();
    let created = above.post(DEPLOYMENTS, web(1, plain_pods())).await;
    assert_eq!((created.status, created.header("warning")), (201, None));
    let found = above.get(WEB).await.expect(200);
    assert_eq!(found["status"].as_object().map_or(0, |status| status.len()), 0, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn label_with_an_unknown_cluster_is_reported() {
    let fleet = TestFleet::start();
    let above = fleet.admin();
    fleet.run("dialect enable kcp");
    let labelled = |name: &str| json!({ "metadata": { "labels": { "workloads.kcp.dev/cluster": name } } });
    let mut deployment = web(2, plain_pods());
    deployment["metadata"]["labels"] = labelled("east")["metadata"]["labels"].clone();
    let created = above.post(DEPLOYMENTS, deployment).await;
    assert_eq!((created.status, created.header("warning")), (201, None));
    wait_for("the workload is available", &above, WEB, is_running).await;
    let changed = above.merge(WEB, labelled("absent")).await;
    let warning = changed.header("warning").unwrap_or_default();
    assert!(warning.contains("names the cluster \\\"absent\\\", which does not exist"), "{warning}");
    let uid = changed.expect(200)["metadata"]["uid"].clone();
    eventually("an event says that the cluster does not exist", async || {
        let events = above.get("/api/v1/namespaces/default/events").await.expect(200);
        events["items"].as_array().unwrap().iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["uid"] == uid
                && message.contains("names the cluster \"absent\", which does not exist; it stays on east")
        })
    })
    .await;
    // A misspelt label takes nothing away.
    let web = above.get(WEB).await.expect(200);
    assert_eq!(condition(&web, "Placed").0, "True", "{}", web["status"]);
    assert!(is_running(&web), "{}", web["status"]);
}

/// A cluster with the name of a deleted one does not count for objects that were placed on the first.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_with_the_name_of_a_deleted_one_does_not_count() {
    const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
    let fleet = TestFleet::start();
    let above = fleet.admin();
    create(&above, DEPLOYMENTS, web(2, plain_pods())).await;
    fleet.run("place deployment/web --on east");
    wait_for("the workload is available", &above, WEB, is_running).await;
    above.delete(&format!("{CLUSTERS}/east")).await.expect(200);
    eventually("the Cluster is gone", async || above.get(&format!("{CLUSTERS}/east")).await.status == 404)
        .await;
    // The scheduler follows the annotation to a cluster of that name, unless it takes nothing.
    let unknown =
        json!({ "metadata": { "name": "east" }, "spec": { "mode": "none", "unschedulable": true } });
    above.post(CLUSTERS, unknown).await.expect(201);
    wait_for("the Deployment is not reported as placed", &above, WEB, |web| {
        let (status, reason, _) = condition(web, "Placed");
        (status.as_str(), reason.as_str()) == ("False", "ClusterNotFound")
            && web["status"].get("availableReplicas").is_none()
    })
    .await;
    // A deleted cluster is waited for neither by moved nor by deleted objects.
    let elsewhere = json!({ "spec": { "clusters": [{ "name": "east" }], "force": true } });
    let moved = above.merge(&format!("{WEB}/placement"), elsewhere).await.expect(200);
    assert_eq!(moved["status"]["leaving"], json!(null), "{moved}");
    above.delete(&format!("{CLUSTERS}/east")).await.expect(200);
    eventually("the second Cluster is deleted", async || {
        above.get(&format!("{CLUSTERS}/east")).await.status == 404
    })
    .await;
    above.delete(WEB).await.expect(200);
    eventually("the object is deleted", async || above.get(WEB).await.status == 404).await;
}

/// A cluster that accepts nothing new does not block the others.
#[tokio::test(flavor = "multi_thread")]
async fn dependents_are_placed_on_clusters_that_accept_them() {
    let fleet = TestFleet::start();
    let above = fleet.admin();
    let other = json!({ "metadata": { "name": "west" }, "spec": { "mode": "none" } });
    above.post("/apis/atoll.dev/v1alpha1/clusters", other).await.expect(201);
    create(&above, DEPLOYMENTS, web(2, plain_pods())).await;
    fleet.run("place deployment/web --on east,west");
    fleet.run("cluster fence west --yes");
    let maps = "/api/v1/namespaces/default/configmaps";
    create(&above, maps, object("v1", "ConfigMap", "late", json!({ "data": { "a": "1" } }))).await;
    let environment = json!([{ "configMapRef": { "name": "late" } }]);
    let container = json!({ "name": "main", "image": "example/web:1", "envFrom": environment });
    let patch = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
    above.merge(WEB, patch).await.expect(200);
    wait_for(
        "the ConfigMap exists in the cluster that accepts it",
        &fleet.east.admin(),
        &format!("{maps}/late"),
        |_| true,
    )
    .await;
    let late = above.get(&format!("{maps}/late")).await.expect(200);
    let placement = late["metadata"]["annotations"]["atoll.dev/placement"].as_str().unwrap();
    assert!(placement.contains("east") && !placement.contains("west"), "{placement}");
}
