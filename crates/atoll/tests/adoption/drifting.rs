//! Changes that other clients make in a cluster are corrected or reported, as configured.

use atoll_testkit::RequestContent;
use http::Method;
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, plain_pods, wait_for, wait_for_record, web};
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_corrected_or_reported() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let mut maps = Vec::new();
    for name in ["plain", "own"] {
        maps.push(create(&above, CONFIG_MAPS, config_map_with(name, "1")).await);
        fleet.run(&format!("place cm/{name} --on east"));
        wait_for("the object exists below", &below, &config_map(name), |_| true).await;
    }
    let as_other_manager = |name: &str| format!("{}?fieldManager=kubectl-edit", config_map(name));
    let change = |value: &str| json!({ "data": { "value": value } });
    let is = |value: &'static str| move |map: &Value| map["data"]["value"] == value;
    // By default drift is corrected.
    below.merge(&as_other_manager("plain"), change("2")).await.expect(200);
    wait_for("the drift is corrected", &below, &config_map("plain"), is("1")).await;
    let uid = maps[0]["metadata"]["uid"].clone();
    wait_for("an event reports the correction", &above, "/api/v1/namespaces/default/events", |list| {
        list["items"].as_array().unwrap().iter().any(|event| {
            event["reason"] == "DriftCorrected"
                && event["involvedObject"]["uid"] == uid
                && event["message"] == "[east] kubectl-edit changed .data.value; this was corrected"
        })
    })
    .await;
    // A removed field is restored. Its remover is unknown, because managedFields do not record it.
    below.merge(&as_other_manager("plain"), json!({ "data": { "value": null } })).await.expect(200);
    wait_for("the drift is corrected", &below, &config_map("plain"), is("1")).await;

    // One object is set to report drift.
    let left = json!({ "metadata": { "annotations": { "atoll.dev/drift": "report" } } });
    above.merge(&config_map("own"), left).await.expect(200);
    // The setting has arrived together with this change.
    above.merge(&config_map("own"), json!({ "data": { "more": "1" } })).await.expect(200);
    wait_for("the change is applied below", &below, &config_map("own"), |map| map["data"]["more"] == "1")
        .await;
    below.merge(&as_other_manager("own"), change("2")).await.expect(200);
    let recorded = wait_for_record(&above, "default", &maps[1], |status| {
        message(status).contains("kubectl-edit changed")
    })
    .await;
    assert_eq!(
        (message(&recorded["status"]), &recorded["status"]["state"]),
        ("changes of others are left: kubectl-edit changed .data.value", &json!("Applied"))
    );
    let events = "/api/v1/namespaces/default/events";
    wait_for("an event reports the drift", &above, events, |list| {
        list["items"].as_array().unwrap().iter().any(|event| {
            event["reason"] == "Drift"
                && event["involvedObject"]["name"] == "own"
                && event["message"] == "in cluster east, kubectl-edit changed .data.value"
        })
    })
    .await;
    // Changes above are still applied, except to the fields that another client changed.
    let both = json!({ "data": { "value": "3", "more": "2" } });
    above.merge(&config_map("own"), both).await.expect(200);
    let found = wait_for("the other change is applied below", &below, &config_map("own"), |map| {
        map["data"]["more"] == "2"
    })
    .await;
    assert_eq!(found["data"]["value"], "2");
    // When the other client restores the value, there is no drift to report.
    below.merge(&as_other_manager("own"), change("3")).await.expect(200);
    wait_for_record(&above, "default", &maps[1], |status| message(status).is_empty()).await;

    // The setting of a Cluster applies to all objects without their own setting.
    let correct = json!({ "metadata": { "annotations": { "atoll.dev/drift": "correct" } } });
    above.merge(&config_map("own"), correct).await.expect(200);
    above.merge(EAST, json!({ "spec": { "drift": "report" } })).await.expect(200);
    above.merge(&config_map("plain"), json!({ "data": { "more": "1" } })).await.expect(200);
    wait_for("the change is applied below", &below, &config_map("plain"), |map| map["data"]["more"] == "1")
        .await;
    below.merge(&as_other_manager("plain"), change("2")).await.expect(200);
    wait_for_record(&above, "default", &maps[0], |status| {
        message(status).contains("kubectl-edit changed .data.value")
    })
    .await;
    below.merge(&as_other_manager("own"), change("4")).await.expect(200);
    wait_for("the drift is corrected", &below, &config_map("own"), is("3")).await;
    assert_eq!(below.get(&config_map("plain")).await.expect(200)["data"]["value"], "2");
    // Back to correcting: reported drift is corrected.
    above.merge(EAST, json!({ "spec": { "drift": "correct" } })).await.expect(200);
    wait_for("the drift is corrected", &below, &config_map("plain"), is("1")).await;
    let refused = above.merge(EAST, json!({ "spec": { "drift": "ignore" } })).await;
    refused.expect_status(422, "Invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_left_to_an_autoscaler_in_the_cluster() {
    const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
    const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&above, "/apis/apps/v1/namespaces/default/deployments", web(2, plain_pods())).await;
    fleet.run("place deploy/web --on east");
    wait_for("the object exists below", &below, WEB, |web| web["spec"]["replicas"] == 2).await;
    // A user of the cluster creates an autoscaler. Without metrics it changes nothing yet.
    let autoscaler = object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "web",
        json!({ "spec": {
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        "minReplicas": 1, "maxReplicas": 9,
    } }),
    );
    create(&below, AUTOSCALERS, autoscaler).await;
    let image = |image: &str| json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image }]);
    let change = async |replicas: u32, new: &str| {
        above.merge(WEB, json!({ "spec": { "replicas": replicas } })).await.expect(200);
        let patch = RequestContent::Raw("application/json-patch+json", image(new).to_string().into());
        above.request(Method::PATCH, WEB, patch).await.expect(200);
        wait_for("the other change is applied below", &below, WEB, |web| {
            web["spec"]["template"]["spec"]["containers"][0]["image"] == new
        })
        .await["spec"]["replicas"]
            .clone()
    };
    assert_eq!(change(7, "example/web:2").await, 2, "the previous replicas must be kept");
    // The autoscaler sets the replicas, and its value is kept.
    let scale = format!("{WEB}/scale?fieldManager=kube-controller-manager");
    below.merge(&scale, json!({ "spec": { "replicas": 5 } })).await.expect(200);
    assert_eq!(change(3, "example/web:3").await, 5);
    // A workload for which an autoscaler already exists starts with the cluster's default.
    let mut waiting = object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "next",
        json!({ "spec": {
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "next" },
        "minReplicas": 1, "maxReplicas": 9,
    } }),
    );
    waiting["spec"]["behavior"] = json!({ "scaleUp": { "selectPolicy": "Disabled" } });
    create(&below, AUTOSCALERS, waiting).await;
    let mut next = web(4, plain_pods());
    next["metadata"]["name"] = "next".into();
    create(&above, "/apis/apps/v1/namespaces/default/deployments", next).await;
    fleet.run("place deploy/next --on east");
    let next = "/apis/apps/v1/namespaces/default/deployments/next";
    assert_eq!(wait_for("the object exists below", &below, next, |_| true).await["spec"]["replicas"], 1);
}
