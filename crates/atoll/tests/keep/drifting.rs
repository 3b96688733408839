//! What others change in a cluster is put right, or left and told, as somebody wants it.

use http::Method;
use serde_json::{Value, json};

use crate::support::access::Body;
use crate::support::{CONFIG_MAPS, config_map, config_map_with};
use crate::world::{World, becomes, create, object, plain_pods, record, web};

const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_others_are_put_right_or_told() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    let mut maps = Vec::new();
    for name in ["plain", "own"] {
        maps.push(create(&above, CONFIG_MAPS, config_map_with(name, "1")).await);
        world.says(&format!("place cm/{name} --on east"));
        becomes("it arrives", &below, &config_map(name), |_| true).await;
    }
    let theirs = |name: &str| format!("{}?fieldManager=somebody", config_map(name));
    let change = |value: &str| json!({ "data": { "value": value } });
    let is = |value: &'static str| move |map: &Value| map["data"]["value"] == value;
    // Usually they are put right.
    below.merge(&theirs("plain"), change("2")).await.expect(200);
    becomes("it is put right", &below, &config_map("plain"), is("1")).await;
    let uid = maps[0]["metadata"]["uid"].clone();
    becomes("an event says so", &above, "/api/v1/namespaces/default/events", |list| {
        list["items"].as_array().unwrap().iter().any(|event| {
            event["reason"] == "DriftCorrected"
                && event["involvedObject"]["uid"] == uid
                && event["message"] == "[east] somebody changed .data.value; that was put right"
        })
    })
    .await;
    // What is taken away comes back, and nobody notes who has taken it.
    below.merge(&theirs("plain"), json!({ "data": { "value": null } })).await.expect(200);
    becomes("it is put right", &below, &config_map("plain"), is("1")).await;

    // One object says that its changes are left.
    let left = json!({ "metadata": { "annotations": { "atoll.dev/drift": "report" } } });
    above.merge(&config_map("own"), left).await.expect(200);
    // That has arrived with this.
    above.merge(&config_map("own"), json!({ "data": { "more": "1" } })).await.expect(200);
    becomes("it follows", &below, &config_map("own"), |map| map["data"]["more"] == "1").await;
    below.merge(&theirs("own"), change("2")).await.expect(200);
    let told =
        record(&above, "default", &maps[1], |status| message(status).contains("somebody changed")).await;
    assert_eq!(
        (message(&told["status"]), &told["status"]["state"]),
        ("changes of others are left: somebody changed .data.value", &json!("Applied"))
    );
    let events = "/api/v1/namespaces/default/events";
    becomes("it is said in an event", &above, events, |list| {
        list["items"].as_array().unwrap().iter().any(|event| {
            event["reason"] == "Drift"
                && event["involvedObject"]["name"] == "own"
                && event["message"] == "in cluster east, somebody changed .data.value"
        })
    })
    .await;
    // What is changed here still arrives, but for what others have changed.
    let both = json!({ "data": { "value": "3", "more": "2" } });
    above.merge(&config_map("own"), both).await.expect(200);
    let found =
        becomes("the rest follows", &below, &config_map("own"), |map| map["data"]["more"] == "2").await;
    assert_eq!(found["data"]["value"], "2");
    // Once they put it back themselves, there is nothing to tell.
    below.merge(&theirs("own"), change("3")).await.expect(200);
    record(&above, "default", &maps[1], |status| message(status).is_empty()).await;

    // A whole cluster can be so; what says otherwise itself is not.
    let correct = json!({ "metadata": { "annotations": { "atoll.dev/drift": "correct" } } });
    above.merge(&config_map("own"), correct).await.expect(200);
    above.merge(EAST, json!({ "spec": { "drift": "report" } })).await.expect(200);
    above.merge(&config_map("plain"), json!({ "data": { "more": "1" } })).await.expect(200);
    becomes("it follows", &below, &config_map("plain"), |map| map["data"]["more"] == "1").await;
    below.merge(&theirs("plain"), change("2")).await.expect(200);
    record(&above, "default", &maps[0], |status| message(status).contains("somebody changed .data.value"))
        .await;
    below.merge(&theirs("own"), change("4")).await.expect(200);
    becomes("it is put right", &below, &config_map("own"), is("3")).await;
    assert_eq!(below.get(&config_map("plain")).await.expect(200)["data"]["value"], "2");
    // And back: what was left is put right.
    above.merge(EAST, json!({ "spec": { "drift": "correct" } })).await.expect(200);
    becomes("it is put right", &below, &config_map("plain"), is("1")).await;
    let refused = above.merge(EAST, json!({ "spec": { "drift": "ignore" } })).await;
    refused.expect_status(422, "Invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_left_to_an_autoscaler_of_the_cluster() {
    const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
    const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    create(&above, "/apis/apps/v1/namespaces/default/deployments", web(2, plain_pods())).await;
    world.says("place deploy/web --on east");
    becomes("it arrives", &below, WEB, |web| web["spec"]["replicas"] == 2).await;
    // Somebody in the cluster lets it be scaled. Without measurements the autoscaler changes nothing yet.
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
        let patch = Body::Raw("application/json-patch+json", image(new).to_string().into());
        above.request(Method::PATCH, WEB, patch).await.expect(200);
        becomes("the rest follows", &below, WEB, |web| {
            web["spec"]["template"]["spec"]["containers"][0]["image"] == new
        })
        .await["spec"]["replicas"]
            .clone()
    };
    assert_eq!(change(7, "example/web:2").await, 2, "what it was is kept");
    // The autoscaler sets it, and keeps it.
    let scale = format!("{WEB}/scale?fieldManager=kube-controller-manager");
    below.merge(&scale, json!({ "spec": { "replicas": 5 } })).await.expect(200);
    assert_eq!(change(3, "example/web:3").await, 5);
    // What comes to where an autoscaler waits for it begins as the cluster has it.
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
    world.says("place deploy/next --on east");
    let next = "/apis/apps/v1/namespaces/default/deployments/next";
    assert_eq!(becomes("it arrives", &below, next, |_| true).await["spec"]["replicas"], 1);
}
