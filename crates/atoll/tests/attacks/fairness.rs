//! No sender uses up what all senders share.

use serde_json::json;

use crate::bindings::{Tenancy, WORKSPACES, account, bind, namespace, workspace};
use crate::support::access::Access;
use crate::support::process::Setup;
use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map_with, eventually};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Begins requests whose bodies never come, until the server takes no more of them.
async fn stall(access: &Access, lines: &str, count: usize) -> Vec<Raw> {
    let mut stalled = Vec::new();
    for _ in 0..count {
        let mut raw = Raw::open(&access.anonymous()).await;
        let lines = format!(
            "{lines}Content-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n"
        );
        let head = raw.head("POST", &format!("{}{REVIEWS}", access.base()), &lines);
        raw.send(head).await.unwrap();
        match raw.answer().await.unwrap().status {
            100 => stalled.push(raw),
            429 => return stalled,
            status => panic!("{status} before the body is there"),
        }
    }
    stalled
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_of_one_user_keep_nobody_else_waiting() {
    // Long enough that nothing is cut while the test looks.
    let tenancy =
        Tenancy::start(&["slow", "ann"], &[("--header-timeout", "600"), ("--request-timeout", "600")]);
    let admin = tenancy.admin();
    bind(&admin, "ann", "edit", json!({ "kind": "User", "name": "ann" })).await;
    let (slow, ann) = (tenancy.person("slow", "root"), tenancy.person("ann", "root"));
    let stalled = stall(&slow, "Authorization: Bearer slow\r\n", 205).await;
    assert!(!stalled.is_empty());
    ann.post(CONFIG_MAPS, config_map_with("mine", "1")).await.expect(201);
    slow.post(REVIEWS, json!({ "spec": {} })).await.expect_status(429, "TooManyRequests");
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_come_are_cut() {
    let tenancy = Tenancy::start(&["slow"], &[("--header-timeout", "1"), ("--request-timeout", "600")]);
    let slow = tenancy.person("slow", "root");
    let mut stalled = stall(&slow, "Authorization: Bearer slow\r\n", 1).await.pop().unwrap();
    stalled.send("{").await.unwrap();
    let answer = stalled.answer().await.unwrap();
    assert_eq!(answer.status, 504, "{}", answer.text);
    let rest = String::from_utf8_lossy(&stalled.rest().await).into_owned();
    assert!(rest.contains("the body of the request did not arrive fast enough"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn acting_as_masters_of_a_workspace_does_not_skip_limits() {
    let flags = [
        ("--max-requests-inflight", "4"),
        ("--max-mutating-requests-inflight", "4"),
        ("--header-timeout", "600"),
        ("--request-timeout", "600"),
    ];
    let tenancy = Tenancy::start(&["owner", "ann"], &flags);
    let admin = tenancy.admin();
    workspace(&admin, "root", "team", "owner").await;
    bind(&admin, "ann", "edit", json!({ "kind": "User", "name": "ann" })).await;
    let owner = tenancy.person("owner", "root:team");
    // What the owner of a workspace makes below it, the owner administers from above.
    owner.post(WORKSPACES, json!({ "metadata": { "name": "x" } })).await.expect(201);
    let below = tenancy.person("owner", "root:team:x");
    eventually("the workspace is there", async || {
        below.get("/api/v1/namespaces/default").await.status == 200
    })
    .await;
    // Whatever name the owner uses, and wherever: one of four places is the owner's.
    let mut stalled = Vec::new();
    for (access, name) in [(&owner, "a"), (&owner, "b"), (&below, "a"), (&below, "b"), (&owner, "owner")] {
        let lines = format!(
            "Authorization: Bearer owner\r\nImpersonate-User: {name}\r\nImpersonate-Group: system:masters\r\n"
        );
        stalled.extend(stall(access, &lines, 8).await);
    }
    assert_eq!(stalled.len(), 1);
    tenancy.person("ann", "root").post(CONFIG_MAPS, config_map_with("mine", "1")).await.expect(201);
    admin.post(CONFIG_MAPS, config_map_with("urgent", "1")).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_service_account_keeps_no_other_waiting() {
    let atoll = Setup::new()
        .flag("--max-mutating-requests-inflight", 16)
        .flag("--header-timeout", 600)
        .flag("--request-timeout", 600)
        .start();
    let admin = atoll.admin();
    // Agents that are run by hand have accounts in atoll-system, each its own quarter; accounts elsewhere share one.
    for (place, places) in [("atoll-system", 4), ("apps", 2)] {
        namespace(&admin, place).await;
        let hostile = account(&admin, place, "hostile").await;
        let other = account(&admin, place, "other").await;
        let stalled = stall(&admin, &format!("Authorization: Bearer {hostile}\r\n"), 16).await;
        assert_eq!(stalled.len(), places, "{place}");
        let review = json!({ "spec": { "nonResourceAttributes": { "path": "/", "verb": "get" } } });
        admin.token(&other).post(REVIEWS, review).await.expect(201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_requests_that_read_are_not_read() {
    let tenancy = Tenancy::start(&["ann"], &[]);
    bind(&tenancy.admin(), "ann", "edit", json!({ "kind": "User", "name": "ann" })).await;
    let lines = "Authorization: Bearer ann\r\nContent-Length: 3000000\r\nExpect: 100-continue\r\n";
    for path in
        [format!("{CONFIG_MAPS}?watch=1"), CONFIG_MAPS.into(), format!("{CONFIG_MAPS}/kube-root-ca.crt")]
    {
        let mut raw = Raw::open(&tenancy.admin().anonymous()).await;
        let head = raw.head("GET", &path, lines);
        raw.send(head).await.unwrap();
        let answer = raw.answer().await.unwrap();
        assert!(matches!(answer.status, 200 | 404), "{path}: {} {}", answer.status, answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_not_read_use_up_the_share_of_one_user() {
    let tenancy = Tenancy::start(&["ann", "bob"], &[]);
    let admin = tenancy.admin();
    for name in ["ann", "bob"] {
        bind(&admin, name, "edit", json!({ "kind": "User", "name": name })).await;
    }
    let value = "x".repeat(900 << 10);
    for number in 0..20 {
        admin.post(CONFIG_MAPS, config_map_with(&format!("large-{number}"), &value)).await.expect(201);
    }
    let path = format!("{CONFIG_MAPS}?pretty=true");
    let mut unread = Vec::new();
    let refused = loop {
        let mut raw = Raw::open(&admin.anonymous()).await;
        let head = raw.head("GET", &path, "Authorization: Bearer ann\r\n");
        raw.send(head).await.unwrap();
        let answer = raw.answer().await.unwrap();
        match answer.status {
            200 if unread.len() < 40 => unread.push(raw),
            _ => break answer,
        }
    };
    // A quarter of a gibibyte is ann's, and each answer has more than seventeen mebibytes.
    assert_eq!((refused.status, unread.len()), (429, 14), "{}", refused.text);
    assert!(refused.text.to_lowercase().contains("retry-after: 1"), "{}", refused.text);
    let (ann, bob) = (tenancy.person("ann", "root"), tenancy.person("bob", "root"));
    let whole = bob.get(&path).await;
    assert!(whole.expect(200)["items"].as_array().is_some_and(|items| items.len() >= 20));
    ann.get(&format!("{CONFIG_MAPS}/large-1")).await.expect_status_code(200);
    drop(unread);
    eventually("what is gone is not counted", async || ann.get(&path).await.status == 200).await;
}
