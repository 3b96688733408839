//! No client uses up resources that all clients share.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;

use crate::bindings::{
    TenantServer, WORKSPACES, bind, create_account, create_namespace, create_tenant_workspace,
};
use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map_with};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Starts requests whose bodies are never sent, until the server rejects one. Returns those that it accepted.
async fn stall_requests(client: &Client, lines: &str, count: usize) -> Vec<Raw> {
    let mut stalled = Vec::new();
    for _ in 0..count {
        let mut raw = Raw::open(&client.anonymous()).await;
        let lines = format!(
            "{lines}Content-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n"
        );
        let head = raw.head("POST", &format!("{}{REVIEWS}", client.base()), &lines);
        raw.send(head).await.unwrap();
        match raw.answer().await.unwrap().status {
            100 => stalled.push(raw),
            429 => return stalled,
            status => panic!("{status} before the body was sent"),
        }
    }
    stalled
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_of_one_user_do_not_delay_other_users() {
    // Long timeouts, so that the server closes nothing during the test.
    let server =
        TenantServer::start(&["slow", "ann"], &[("--header-timeout", "600"), ("--request-timeout", "600")]);
    let admin = server.admin();
    bind(&admin, "ann", "edit", json!({ "kind": "User", "name": "ann" })).await;
    let (slow, ann) = (server.user("slow", "root"), server.user("ann", "root"));
    let stalled = stall_requests(&slow, "Authorization: Bearer slow\r\n", 205).await;
    assert!(!stalled.is_empty());
    ann.post(CONFIG_MAPS, config_map_with("mine", "1")).await.expect(201);
    slow.post(REVIEWS, json!({ "spec": {} })).await.expect_status(429, "TooManyRequests");
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_their_body_are_aborted() {
    let server = TenantServer::start(&["slow"], &[("--header-timeout", "1"), ("--request-timeout", "600")]);
    let slow = server.user("slow", "root");
    let mut stalled = stall_requests(&slow, "Authorization: Bearer slow\r\n", 1).await.pop().unwrap();
    stalled.send("{").await.unwrap();
    let answer = stalled.answer().await.unwrap();
    assert_eq!(answer.status, 504, "{}", answer.text);
    let rest = String::from_utf8_lossy(&stalled.rest().await).into_owned();
    assert!(rest.contains("the request body did not arrive fast enough"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonating_system_masters_in_a_workspace_does_not_bypass_limits() {
    let flags = [
        ("--max-requests-inflight", "4"),
        ("--max-mutating-requests-inflight", "4"),
        ("--header-timeout", "600"),
        ("--request-timeout", "600"),
    ];
    let server = TenantServer::start(&["owner", "ann"], &flags);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    bind(&admin, "ann", "edit", json!({ "kind": "User", "name": "ann" })).await;
    let owner = server.user("owner", "root:team");
    // The owner of a workspace administers workspaces below it from above.
    owner.post(WORKSPACES, json!({ "metadata": { "name": "x" } })).await.expect(201);
    let below = server.user("owner", "root:team:x");
    eventually("the workspace is there", async || {
        below.get("/api/v1/namespaces/default").await.status == 200
    })
    .await;
    // Whichever name the owner uses, and in whichever workspace: the owner has one of the four permits.
    let mut stalled = Vec::new();
    for (client, name) in [(&owner, "a"), (&owner, "b"), (&below, "a"), (&below, "b"), (&owner, "owner")] {
        let lines = format!(
            "Authorization: Bearer owner\r\nImpersonate-User: {name}\r\nImpersonate-Group: system:masters\r\n"
        );
        stalled.extend(stall_requests(client, &lines, 8).await);
    }
    assert_eq!(stalled.len(), 1);
    server.user("ann", "root").post(CONFIG_MAPS, config_map_with("mine", "1")).await.expect(201);
    admin.post(CONFIG_MAPS, config_map_with("urgent", "1")).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_service_account_does_not_delay_others() {
    let atoll = Setup::new()
        .flag("--max-mutating-requests-inflight", 16)
        .flag("--header-timeout", 600)
        .flag("--request-timeout", 600)
        .start();
    let admin = atoll.admin();
    // Each agent's account in atoll-system has a quarter of its own. Accounts in other namespaces share one.
    for (place, places) in [("atoll-system", 4), ("apps", 2)] {
        create_namespace(&admin, place).await;
        let hostile = create_account(&admin, place, "hostile").await;
        let other = create_account(&admin, place, "other").await;
        let stalled = stall_requests(&admin, &format!("Authorization: Bearer {hostile}\r\n"), 16).await;
        assert_eq!(stalled.len(), places, "{place}");
        let review = json!({ "spec": { "nonResourceAttributes": { "path": "/", "verb": "get" } } });
        admin.token(&other).post(REVIEWS, review).await.expect(201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_read_requests_are_not_read() {
    let server = TenantServer::start(&["ann"], &[]);
    bind(&server.admin(), "ann", "edit", json!({ "kind": "User", "name": "ann" })).await;
    let lines = "Authorization: Bearer ann\r\nContent-Length: 3000000\r\nExpect: 100-continue\r\n";
    for path in
        [format!("{CONFIG_MAPS}?watch=1"), CONFIG_MAPS.into(), format!("{CONFIG_MAPS}/kube-root-ca.crt")]
    {
        let mut raw = Raw::open(&server.admin().anonymous()).await;
        let head = raw.head("GET", &path, lines);
        raw.send(head).await.unwrap();
        let answer = raw.answer().await.unwrap();
        assert!(matches!(answer.status, 200 | 404), "{path}: {} {}", answer.status, answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_use_up_the_share_of_one_user_only() {
    let server = TenantServer::start(&["ann", "bob"], &[]);
    let admin = server.admin();
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
    // Ann's share is a quarter of a gibibyte, and each answer has more than seventeen mebibytes, twice as many
    // while it is made.
    assert_eq!((refused.status, unread.len()), (429, 13), "{}", refused.text);
    assert!(refused.text.to_lowercase().contains("retry-after: 1"), "{}", refused.text);
    let (ann, bob) = (server.user("ann", "root"), server.user("bob", "root"));
    let whole = bob.get(&path).await;
    assert!(whole.expect(200)["items"].as_array().is_some_and(|items| items.len() >= 20));
    ann.get(&format!("{CONFIG_MAPS}/large-1")).await.expect_status_code(200);
    drop(unread);
    eventually("the share of closed connections is free again", async || ann.get(&path).await.status == 200)
        .await;
}

/// Sends requests on a connection whose windows are closed, so that the server can send no body. Returns the answers
/// that it holds, and the status of the last one if that is an error.
async fn read_nothing(
    client: &Client,
    path: &str,
    token: &str,
    most: usize,
) -> (Vec<Response<Incoming>>, u16) {
    let stream = client.stream(&["h2"]).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut unread = Vec::new();
    while unread.len() < most {
        let request =
            Request::get(format!("https://server{path}")).header("Authorization", format!("Bearer {token}"));
        sender.ready().await.unwrap();
        let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        match answer.status().as_u16() {
            200 => unread.push(answer),
            status => return (unread, status),
        }
    }
    (unread, 200)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_unread_answers_of_moderate_size_use_up_the_share_of_one_user() {
    let server = TenantServer::start(&["ann", "bob"], &[]);
    let admin = server.admin();
    for name in ["ann", "bob"] {
        bind(&admin, name, "edit", json!({ "kind": "User", "name": name })).await;
    }
    admin.post(CONFIG_MAPS, config_map_with("moderate", &"x".repeat(250_000))).await.expect(201);
    let path = format!("{CONFIG_MAPS}/moderate");
    let mut unread = Vec::new();
    let refused = loop {
        let (more, status) = read_nothing(&admin.anonymous(), &path, "ann", 150).await;
        unread.extend(more);
        if status != 200 || unread.len() >= 1500 {
            break status;
        }
    };
    // A quarter of a gibibyte.
    assert_eq!((refused, unread.len() / 100), (429, 10), "{}", unread.len());
    server.user("bob", "root").get(&path).await.expect_status_code(200);
    drop(unread);
    let ann = server.user("ann", "root");
    eventually("the share of closed connections is free again", async || ann.get(&path).await.status == 200)
        .await;
}
