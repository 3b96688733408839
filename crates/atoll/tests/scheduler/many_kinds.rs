//! A tenant that defines very many kinds: the number of watches is limited, and the user is told what to do.

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::fleet::{annotated, expect_placed, summary, wait_until, with_clusters};
use crate::other_kinds::{DEFINITIONS, POLICIES, WIDGETS, config_map, definition, widget};

const PREFIX: &str = "/clusters/root:team";
/// Kinds of a workspace that are watched.
const LIMIT: usize = 256;

fn object(number: &str) -> Value {
    let mut object = widget("a");
    object["kind"] = format!("Kind{number}").into();
    annotated(object, "east")
}

fn collection(number: &str) -> String {
    format!("{PREFIX}{}", WIDGETS.replace("widgets", &format!("kinds{number}")))
}

/// The kinds that are left out, by the events about their definitions.
async fn left_out(admin: &Client) -> Vec<String> {
    let events = admin.get(&format!("{PREFIX}/api/v1/namespaces/default/events")).await.expect(200);
    let all = events["items"].as_array().unwrap().iter();
    let found = all.filter(|event| event["reason"] == "NotWatched").map(|event| {
        let name = event["involvedObject"]["name"].as_str().unwrap();
        name.trim_start_matches("kinds").trim_end_matches(".example.com").to_string()
    });
    found.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_beyond_the_limit_are_left_out_until_a_policy_names_them() {
    let (_atoll, admin) = with_clusters(&[("east", 4)]).await;
    let team =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    admin.post("/apis/atoll.dev/v1alpha1/workspaces", team).await.expect(201);
    wait_until(&admin, "/apis/atoll.dev/v1alpha1/workspaces/team", "it is ready", |team| {
        team["status"]["phase"] == "Ready"
    })
    .await;
    for number in 0..=LIMIT {
        let made = definition(&format!("kinds{number:03}"), &format!("Kind{number:03}"));
        admin.post(&format!("{PREFIX}{DEFINITIONS}"), made).await.expect(201);
    }
    let events = format!("{PREFIX}/api/v1/namespaces/default/events");
    wait_until(&admin, &events, "a definition is left out", |events| {
        let all = events["items"].as_array().cloned().unwrap_or_default();
        all.iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["reason"] == "NotWatched" && message.contains("PlacementPolicy")
        })
    })
    .await;
    let left = left_out(&admin).await;
    assert_eq!(left.len(), 1, "{left:?}");
    let left = &left[0];
    let watched = if left == "000" { "001" } else { "000" };
    for number in [left.as_str(), watched] {
        admin.post(&collection(number), object(number)).await.expect(201);
    }
    expect_placed(&admin, &format!("{}/a", collection(watched)), "east by annotation").await;
    assert_eq!(summary(&admin.get(&format!("{}/a", collection(left))).await.expect(200)), "nowhere");
    // Other workspaces are not concerned, and a policy helps.
    let maps = "/api/v1/namespaces/default/configmaps";
    admin.post(maps, annotated(config_map("a"), "east")).await.expect(201);
    expect_placed(&admin, &format!("{maps}/a"), "east by annotation").await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "named" },
        "spec": { "objects": [{ "group": "example.com", "kind": format!("Kind{left}") }] },
    });
    admin.post(&format!("{PREFIX}{POLICIES}"), policy).await.expect(201);
    expect_placed(&admin, &format!("{}/a", collection(left)), "east by annotation").await;
}
