//! Every page of a list has the correct remainingItemCount.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup, names};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// Returns a continue token as older versions wrote it, without the remaining count.
fn without_remaining_count(token: &str) -> String {
    let mut token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    token.as_object_mut().unwrap().remove("rest").unwrap();
    URL_SAFE_NO_PAD.encode(token.to_string())
}

/// Reads all pages and calls `between` after the first one. Returns the items of each page and its remaining
/// count.
async fn pages(
    client: &Client,
    path: &str,
    between: impl AsyncFnOnce(),
    old_tokens: bool,
) -> Vec<(usize, Option<u64>)> {
    let mut pages = Vec::new();
    let mut page = client.get(&format!("{path}?limit=7")).await.expect(200);
    between().await;
    loop {
        let left = page["metadata"]["remainingItemCount"].as_u64();
        pages.push((names(&page).len(), left));
        let Some(token) = page["metadata"]["continue"].as_str() else { return pages };
        let token = if old_tokens { without_remaining_count(token) } else { token.to_string() };
        page = client.get(&format!("{path}?limit=7&continue={token}")).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_has_the_remaining_count() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    admin
        .post("/apis/atoll.dev/v1alpha1/workspaces", json!({ "metadata": { "name": "team" } }))
        .await
        .expect(201);
    let team = admin.workspace("root:team");
    for number in 0..25 {
        team.post(CONFIG_MAPS, config_map_with(&format!("c-{number:02}"), "1")).await.expect(201);
    }
    for old_tokens in [false, true] {
        // Across all namespaces there are more objects: the bootstrap objects of every workspace.
        for path in [CONFIG_MAPS, "/api/v1/configmaps", "/apis/rbac.authorization.k8s.io/v1/clusterroles"] {
            let total = names(&team.get(path).await.expect(200)).len();
            let change = async || {
                team.delete(&config_map("c-20")).await.expect(200);
                team.post(CONFIG_MAPS, config_map_with("c-20", "1")).await.expect(201);
                team.post(CONFIG_MAPS, config_map_with("new", "1")).await.expect(201);
                team.delete(&config_map("c-00")).await.expect(200);
            };
            let seen = pages(&team, path, change, old_tokens).await;
            let mut expected = Vec::new();
            for begin in (0..total).step_by(7) {
                let left = total.saturating_sub(begin + 7);
                expected.push((7.min(total - begin), (left > 0).then_some(left as u64)));
            }
            assert_eq!(seen, expected, "{path}");
            team.delete(&config_map("new")).await.expect(200);
            team.post(CONFIG_MAPS, config_map_with("c-00", "1")).await.expect(201);
        }
    }
    // With a selector the remaining count is unknown, and upstream omits it as well.
    let selected = team.get(&format!("{CONFIG_MAPS}?limit=7&labelSelector=a!=b")).await.expect(200);
    assert_eq!(selected["metadata"]["remainingItemCount"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn list_continued_after_expiry_counts_again() {
    let server = Setup::new().flag("--controllers", false).flag("--history", 2).start();
    let admin = server.admin();
    for number in 0..25 {
        admin.post(CONFIG_MAPS, config_map_with(&format!("c-{number:02}"), "1")).await.expect(201);
    }
    let first = admin.get(&format!("{CONFIG_MAPS}?limit=7")).await.expect(200);
    let continued = |token: &Value| format!("{CONFIG_MAPS}?limit=7&continue={}", token.as_str().unwrap());
    let path = continued(&first["metadata"]["continue"]);
    for number in 20..25 {
        admin.delete(&config_map(&format!("c-{number}"))).await.expect(200);
    }
    let mut expired = Value::Null;
    eventually("the list has expired", async || {
        let answer = admin.get(&path).await;
        if answer.status == 410 {
            expired = answer.json();
        }
        answer.status != 200
    })
    .await;
    let mut path = continued(&expired["metadata"]["continue"]);
    let mut seen = Vec::new();
    loop {
        let page = admin.get(&path).await.expect(200);
        seen.push((names(&page).len(), page["metadata"]["remainingItemCount"].as_u64()));
        if page["metadata"]["continue"].is_null() {
            break;
        }
        path = continued(&page["metadata"]["continue"]);
    }
    assert_eq!(seen, [(7, Some(6)), (6, None)]);
}
