//! kubectl with workloads that are divided between two simulated clusters: rollouts, waiting, scaling.

use atoll_testkit::Kubectl;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{DEPLOYMENTS, has_event, path, summary, wait_until};
use crate::simulated::{SimulatedFleet, template};

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Images of the Pods with a label, by name of the Pod.
async fn images(fleet: &SimulatedFleet, app: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for pod in fleet.objects(PODS).await.values().flatten() {
        if pod["metadata"]["labels"]["app"] == app && pod["metadata"].get("deletionTimestamp").is_none() {
            let text = |value: &Value| value.as_str().unwrap().to_string();
            found.push((text(&pod["metadata"]["name"]), text(&pod["spec"]["containers"][0]["image"])));
        }
    }
    found.sort();
    found
}

fn workload(name: &str, more: Value) -> Value {
    let mut spec = json!({
        "replicas": 4, "selector": { "matchLabels": { "app": name } }, "template": template(name, "Always", json!({})),
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({ "metadata": { "name": name }, "spec": spec })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_rolls_out_divided_workloads() {
    let fleet = SimulatedFleet::start(&["east", "west"]).await;
    let Some(kubectl) = Kubectl::new(&fleet.above.kubeconfig()) else { return };
    fleet.create_policy("spread", json!({ "replicas": { "division": "Even" } })).await;
    fleet.admin.post(DEPLOYMENTS, workload("web", json!({}))).await.expect(201);
    let status = |object: &str| kubectl.run(&format!("rollout status {object} --timeout=60s"));
    assert!(status("deployment/web").contains("successfully rolled out"));
    kubectl.run("wait deployment/web --for=condition=Available --timeout=60s");
    let web = fleet.admin.get(&path("web")).await.expect(200);
    assert_eq!(summary(&web), "east=2 west=2 by placementpolicy/spread");

    // While it is paused, no cluster rolls out.
    kubectl.run("rollout pause deployment/web");
    kubectl.run("set image deployment/web main=example/app:2");
    wait_until(&fleet.admin, &path("web"), "the pause is observed", |web| {
        let conditions = web["status"]["conditions"].as_array().into_iter().flatten();
        web["status"]["observedGeneration"] == web["metadata"]["generation"]
            && conditions.into_iter().any(|one| one["reason"] == "DeploymentPaused")
    })
    .await;
    assert!(images(&fleet, "web").await.iter().all(|(_, image)| image == "example/app:1"));
    kubectl.run("rollout resume deployment/web");
    assert!(status("deployment/web").contains("successfully rolled out"));
    assert!(images(&fleet, "web").await.iter().all(|(_, image)| image == "example/app:2"));
    let before = images(&fleet, "web").await;
    kubectl.run("rollout restart deployment/web");
    assert!(status("deployment/web").contains("successfully rolled out"));
    let after = images(&fleet, "web").await;
    assert!(after.len() == 4 && after.iter().all(|pod| !before.contains(pod)), "{before:?} {after:?}");
    kubectl.run("scale deployment/web --replicas=6");
    kubectl.run("wait deployment/web --for=jsonpath={.status.availableReplicas}=6 --timeout=60s");

    // A partition counts over all clusters.
    let set = workload("db", json!({ "serviceName": "db" }));
    fleet.admin.post(STATEFUL_SETS, set).await.expect(201);
    assert!(status("statefulset/db").contains("4 new pods have been updated"));
    let partition = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}"#;
    let mut command = kubectl.program();
    command.args(["patch", "statefulset", "db", "--type=merge", "-p", partition]);
    assert!(command.status().unwrap().success());
    kubectl.run("set image statefulset/db main=example/app:2");
    assert!(status("statefulset/db").contains("1 new pods have been updated"));
    let expected = |count: usize| -> Vec<(String, String)> {
        let image = |ordinal: usize| if ordinal >= 4 - count { "example/app:2" } else { "example/app:1" };
        (0..4).map(|ordinal| (format!("db-{ordinal}"), image(ordinal).to_string())).collect()
    };
    assert_eq!(images(&fleet, "db").await, expected(1));
    kubectl.run("rollout restart statefulset/db");
    assert!(status("statefulset/db").contains("1 new pods have been updated"));
    let mut command = kubectl.program();
    command.args(["patch", "statefulset", "db", "--type=json", "-p"]);
    command.arg(r#"[{"op":"remove","path":"/spec/updateStrategy/rollingUpdate"}]"#);
    assert!(command.status().unwrap().success());
    eventually("all Pods are updated", async || images(&fleet, "db").await == expected(4)).await;
    assert!(status("statefulset/db").contains("roll"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_does_not_work_stops_at_the_first_cluster() {
    let fleet = SimulatedFleet::start(&["east", "west"]).await;
    let policy = json!({ "replicas": { "division": "Even" }, "rollout": { "strategy": "OneByOne" } });
    fleet.create_policy("careful", policy).await;
    let mut api = workload("api", json!({ "progressDeadlineSeconds": 3 }));
    api["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
        json!({ "httpGet": { "port": 80 }, "periodSeconds": 1 });
    fleet.admin.post(DEPLOYMENTS, api).await.expect(201);
    let at = path("api");
    let is_done = |object: &Value| {
        let status = &object["status"];
        status["observedGeneration"] == object["metadata"]["generation"]
            && status["updatedReplicas"] == 4
            && status["availableReplicas"] == 4
            && status["replicas"] == 4
    };
    wait_until(&fleet.admin, &at, "all replicas are available", is_done).await;
    let with = |probe: Option<&str>| {
        let annotations = json!({ "sim.atoll.dev/readiness-probe": probe });
        json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } })
    };
    fleet.admin.merge(&at, with(Some("fail"))).await.expect(200);
    let halted = wait_until(&fleet.admin, &at, "the deadline is exceeded", |object| {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|one| one["reason"] == "ProgressDeadlineExceeded")
    })
    .await;
    eventually("an event says so", async || has_event(&fleet.admin, "api", "RolloutHalted").await).await;
    let held = atoll_fleet::Placement::of(&halted).clusters.iter().filter(|share| share.held).count();
    assert_eq!(held, 1, "{}", summary(&halted));
    // Only one cluster has a Pod of the new template.
    let failing: Vec<usize> = fleet
        .objects(PODS)
        .await
        .values()
        .map(|pods| {
            let is_new =
                |pod: &&Value| pod["metadata"]["annotations"]["sim.atoll.dev/readiness-probe"] == "fail";
            pods.iter().filter(is_new).count()
        })
        .collect();
    assert_eq!(failing.iter().filter(|count| **count > 0).count(), 1, "{failing:?}");
    if let Some(kubectl) = Kubectl::new(&fleet.above.kubeconfig()) {
        let told = kubectl.run_failing("rollout status deployment/api --timeout=60s");
        assert!(told.contains("exceeded its progress deadline"), "{told}");
    }
    // The earlier template continues everywhere.
    fleet.admin.merge(&at, with(None)).await.expect(200);
    wait_until(&fleet.admin, &at, "the earlier template runs everywhere", |object| {
        is_done(object) && atoll_fleet::Placement::of(object).clusters.iter().all(|share| !share.held)
    })
    .await;
}
