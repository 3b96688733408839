//! Watches that a client opens and does not read use little memory, and one user cannot open all of them. The
//! same applies to sync views.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup, Watch};
use serde_json::json;

use crate::bindings::{TenantServer, bind, create_tenant_workspace};
use crate::support::raw::{Head, Raw};
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// Watches that are never read.
const UNREAD: usize = 80;
/// Existing objects, and their size. Together they do not fit into the buffers of a connection.
const OBJECTS: usize = 16;
const SIZE: usize = 900 << 10;
/// Memory that each unread watch may use: the buffers of its connection, not its events.
const MEMORY_PER_WATCH: u64 = 1 << 20;

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

async fn open_watch(client: &Client, path: &str, lines: &str) -> (Raw, Head) {
    let mut raw = Raw::open(&client.anonymous()).await;
    let head = raw.head("GET", path, lines);
    raw.send(head).await.unwrap();
    let answer = raw.answer().await.unwrap();
    (raw, answer)
}

/// Creates a definition of Widgets, which may contain anything.
async fn define_widgets(admin: &Client) {
    let definition = json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin.post(path, definition).await.expect(201);
    eventually("widgets are served", async || admin.get(WIDGETS).await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_watches_use_little_memory() {
    let server = TenantServer::start(&["ann", "bob"], &[("--controllers", "false")]);
    let admin = server.admin();
    for name in ["ann", "bob"] {
        bind(&admin, name, "cluster-admin", json!({ "kind": "User", "name": name })).await;
    }
    define_widgets(&admin).await;
    for number in 0..OBJECTS {
        let mut object = config_map_with(&format!("large-{number:02}"), &"x".repeat(SIZE));
        admin.post(CONFIG_MAPS, object.clone()).await.expect(201);
        object["apiVersion"] = "example.com/v1".into();
        object["kind"] = "Widget".into();
        admin.post(WIDGETS, object).await.expect(201);
    }
    let before = server.atoll.resident();
    let mut unread = Vec::new();
    for path in [CONFIG_MAPS, WIDGETS] {
        let path = format!("{path}?watch=1");
        for _ in 0..UNREAD / 2 {
            let (raw, answer) = open_watch(&admin, &path, "Authorization: Bearer ann\r\n").await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            unread.push(raw);
        }
        // Another user gets all objects meanwhile, whole and in order.
        let mut watch = Watch::open(&server.user("bob", "root"), &path).await;
        let mut received = Vec::new();
        while received.len() < OBJECTS {
            let event = watch.event().await;
            assert_eq!(event.kind, "ADDED");
            if event.name().starts_with("large-") {
                assert_eq!(event.value().len(), SIZE);
                received.push(event.name().to_string());
            }
        }
        assert!(received.is_sorted(), "{received:?}");
    }
    // Changes are not kept for each of them either.
    let mut watch = Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=1")).await;
    for letter in ["y", "z"].repeat(20) {
        admin
            .put(&config_map("large-00"), config_map_with("large-00", &letter.repeat(SIZE)))
            .await
            .expect(200);
    }
    while watch.event().await.kind != "MODIFIED" {}
    let grown = server.atoll.resident().saturating_sub(before);
    println!("{UNREAD} unread watches: {} MiB more", grown >> 20);
    let most = MEMORY_PER_WATCH * UNREAD as u64 + (96 << 20);
    assert!(grown < most, "{} MiB more in use for unread watches", grown >> 20);
    // The user's other requests are answered.
    let ann = server.user("ann", "root");
    ann.get(&config_map("large-01")).await.expect_status_code(200);
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_a_quarter_of_the_watches() {
    let server = TenantServer::start(&["ann", "bob"], &[("--max-watches", "16"), ("--controllers", "false")]);
    let admin = server.admin();
    for name in ["ann", "bob"] {
        bind(&admin, name, "cluster-admin", json!({ "kind": "User", "name": name })).await;
    }
    let path = format!("{CONFIG_MAPS}?watch=1");
    let mut held = Vec::new();
    let refused = loop {
        let (raw, answer) = open_watch(&admin, &path, "Authorization: Bearer ann\r\n").await;
        match answer.status {
            200 if held.len() < 16 => held.push(raw),
            _ => break answer,
        }
    };
    assert_eq!((refused.status, held.len()), (429, 4), "{}", refused.text);
    assert!(refused.text.to_lowercase().contains("retry-after: 1"), "{}", refused.text);
    let (ann, bob) = (server.user("ann", "root"), server.user("bob", "root"));
    ann.get(CONFIG_MAPS).await.expect(200);
    ann.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    for client in [&bob, &admin] {
        let only = format!("{path}&fieldSelector=metadata.name=a");
        assert_eq!(Watch::open(client, &only).await.event().await.name(), "a");
    }
    drop(held);
    eventually("the watches of closed connections do not count", async || {
        open_watch(&admin, &path, "Authorization: Bearer ann\r\n").await.1.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_watches_of_one_client_are_allowed() {
    let atoll = Setup::new().idle().start();
    let admin = atoll.admin();
    bind(&admin, "manager", "cluster-admin", json!({ "kind": "User", "name": "manager" })).await;
    let manager = admin.acting_as("manager", &[]);
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let path = format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name=a");
    let mut watches = Vec::new();
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut http = manager.http2().await.unwrap();
        for _ in 0..200 {
            watches.push(Watch::on(&mut http, &path).await.unwrap());
        }
        connections.push(http);
    }
    for watch in &mut watches {
        assert_eq!(watch.event().await.name(), "a");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_has_few_sync_views() {
    let server = TenantServer::start(&["owner"], &[("--controllers", "false")]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    let cluster = json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } });
    owner.post("/apis/atoll.dev/v1alpha1/clusters", cluster).await.expect(201);
    let path = "/clusters/root:team/services/sync/east";
    let mut open = Vec::new();
    let refused = loop {
        let (raw, answer) = open_watch(&owner, path, "Authorization: Bearer owner\r\n").await;
        match answer.status {
            200 if open.len() < 100 => open.push(raw),
            _ => break answer,
        }
    };
    assert_eq!((refused.status, open.len()), (429, 8), "{}", refused.text);
    // A syncer connects again once the old connections are closed.
    drop(open);
    eventually("views can be opened again", async || {
        open_watch(&owner, path, "Authorization: Bearer owner\r\n").await.1.status == 200
    })
    .await;
}
