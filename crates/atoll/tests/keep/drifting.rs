//! What others change in a cluster is put right, or left and told, as somebody wants it.

use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};
use crate::world::{World, becomes, create, record};

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
