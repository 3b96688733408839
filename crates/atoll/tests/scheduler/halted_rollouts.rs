//! Rollouts of StatefulSets and DaemonSets that do not continue, because new Pods do not become ready.

use atoll_fleet::Placement;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{has_event, summary, wait_until};
use crate::simulated::{SimulatedFleet, template};

const APPS: &str = "/apis/apps/v1/namespaces/default";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A workload with a readiness probe.
fn workload(name: &str, more: Value) -> Value {
    let mut template = template(name, "Always", json!({}));
    template["spec"]["containers"][0]["readinessProbe"] =
        json!({ "httpGet": { "port": 80 }, "periodSeconds": 1 });
    let mut spec = json!({ "selector": { "matchLabels": { "app": name } }, "template": template });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// Whether the probe of a Pod of an app fails.
fn is_failing(pod: &Value, app: &str) -> bool {
    let metadata = &pod["metadata"];
    metadata["labels"]["app"] == app && metadata["annotations"]["sim.atoll.dev/readiness-probe"] == "fail"
}

/// Number of Pods on all clusters whose probe fails.
async fn failing(fleet: &SimulatedFleet, app: &str) -> usize {
    fleet.objects(PODS).await.values().flatten().filter(|pod| is_failing(pod, app)).count()
}

async fn delete_failing(fleet: &SimulatedFleet, app: &str) {
    for cluster in fleet.below.values() {
        let below = cluster.admin();
        let pods = below.get(PODS).await.expect(200);
        for pod in pods["items"].as_array().unwrap().iter().filter(|pod| is_failing(pod, app)) {
            below.delete(&format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap())).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rollouts_of_stateful_sets_and_daemon_sets_halt_and_say_so() {
    let fleet = SimulatedFleet::start(&["east", "west"]).await;
    let policy = json!({ "replicas": { "division": "Even" }, "rollout": { "deadline": "5s" } });
    fleet.create_policy("careful", policy).await;
    let set = workload("db", json!({ "replicas": 4, "serviceName": "db" }));
    fleet.admin.post(&format!("{APPS}/statefulsets"), set).await.expect(201);
    fleet.admin.post(&format!("{APPS}/daemonsets"), workload("agent", json!({}))).await.expect(201);
    let (db, agent) = (format!("{APPS}/statefulsets/db"), format!("{APPS}/daemonsets/agent"));
    let is_db_done = |object: &Value| {
        let status = &object["status"];
        status["observedGeneration"] == object["metadata"]["generation"]
            && status["updatedReplicas"] == 4
            && status["readyReplicas"] == 4
    };
    let is_agent_done = |object: &Value| {
        let status = &object["status"];
        status["observedGeneration"] == object["metadata"]["generation"]
            && status["updatedNumberScheduled"] == 2
            && status["numberAvailable"] == 2
    };
    wait_until(&fleet.admin, &db, "all Pods of the StatefulSet are ready", is_db_done).await;
    wait_until(&fleet.admin, &agent, "all Pods of the DaemonSet are ready", is_agent_done).await;
    let with = |probe: Option<&str>| {
        let annotations = json!({ "sim.atoll.dev/readiness-probe": probe });
        json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } })
    };
    for (name, at) in [("db", &db), ("agent", &agent)] {
        fleet.admin.merge(at, with(Some("fail"))).await.expect(200);
        let what = format!("an event of {name} says so");
        eventually(&what, async || has_event(&fleet.admin, name, "RolloutHalted").await).await;
        let halted = fleet.admin.get(at).await.expect(200);
        let held = Placement::of(&halted).clusters.iter().filter(|share| share.held).count();
        assert_eq!(held, 1, "{}", summary(&halted));
        // On a busy machine, the cluster may replace its first Pod only after the deadline.
        let what = format!("one Pod of {name} has the new template");
        eventually(&what, async || failing(&fleet, name).await == 1).await;
    }
    let events = fleet.admin.get("/api/v1/namespaces/default/events").await.expect(200);
    for event in events["items"].as_array().unwrap() {
        let message = event["message"].as_str().unwrap_or_default();
        assert!(event["reason"] != "RolloutHalted" || message.contains("within 5 seconds"), "{message}");
    }
    // The earlier template continues everywhere. As in one cluster, Pods that never became ready are replaced by hand.
    let is_free = |object: &Value| Placement::of(object).clusters.iter().all(|share| !share.held);
    for (name, at) in [("db", &db), ("agent", &agent)] {
        fleet.admin.merge(at, with(None)).await.expect(200);
        eventually(&format!("the rollout of {name} has ended"), async || {
            delete_failing(&fleet, name).await;
            let object = fleet.admin.get(at).await.expect(200);
            is_free(&object) && if name == "db" { is_db_done(&object) } else { is_agent_done(&object) }
        })
        .await;
    }
}
