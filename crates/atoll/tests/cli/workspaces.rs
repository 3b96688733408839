//! Several workspaces in one server.

use std::collections::BTreeSet;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Watch, names, revision};
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
const NAMESPACES: &str = "/api/v1/namespaces";

/// Creates a workspace below `parent` and returns a client of it.
async fn create_workspace(admin: &Client, parent: &str, name: &str) -> Client {
    let workspace =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": name } });
    let created = admin.workspace(parent).post(WORKSPACES, workspace).await.expect(201);
    assert_eq!(created["status"]["phase"], "Ready", "{created}");
    admin.workspace(&format!("{parent}:{name}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_visible_in_their_workspace_only() {
    let mut atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let (first, second) =
        (create_workspace(&admin, "root", "first").await, create_workspace(&admin, "root", "second").await);
    let nested = create_workspace(&admin, "root:first", "second").await;
    let all = [&admin, &first, &second, &nested];
    let mut watches = Vec::new();
    for client in all {
        watches.push(Watch::open(client, &format!("{CONFIG_MAPS}?watch=1")).await);
    }
    // The same name in each workspace, each a different object.
    let mut uids = BTreeSet::new();
    for (number, client) in all.iter().enumerate() {
        let created =
            client.post(CONFIG_MAPS, config_map_with("same", &number.to_string())).await.expect(201);
        uids.insert(created["metadata"]["uid"].to_string());
    }
    assert_eq!(uids.len(), all.len());
    second.delete(&config_map("same")).await.expect(200);
    first.merge(&config_map("same"), json!({ "data": { "value": "changed" } })).await.expect(200);
    let mut values: Vec<Vec<String>> = Vec::new();
    for client in all {
        let list = client.get(CONFIG_MAPS).await.expect(200);
        let items = list["items"].as_array().unwrap();
        values.push(
            items.iter().filter_map(|item| Some(item["data"]["value"].as_str()?.to_string())).collect(),
        );
    }
    assert_eq!(values, [vec!["0"], vec!["changed"], vec![], vec!["3"]]);
    let expected: [&[&str]; 4] =
        [&["ADDED 0"], &["ADDED 1", "MODIFIED changed"], &["ADDED 2", "DELETED 2"], &["ADDED 3"]];
    for ((watch, expected), client) in watches.iter_mut().zip(expected).zip(all) {
        // A last object in each workspace shows that no other event came in between.
        client.post(CONFIG_MAPS, config_map_with("last", "last")).await.expect(201);
        for expected in expected.iter().chain(&["ADDED last"]) {
            let event = watch.event().await;
            assert_eq!(format!("{} {}", event.kind, event.value()), *expected);
        }
    }
    // Revisions are global, so they order changes of all workspaces. Everything survives a crash.
    atoll.kill();
    atoll.restart();
    assert_eq!(names(&nested.get(CONFIG_MAPS).await.expect(200)), ["last", "same"]);
    assert_eq!(names(&second.get(CONFIG_MAPS).await.expect(200)), ["last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_have_their_own_system_namespaces() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let (first, second) =
        (create_workspace(&admin, "root", "first").await, create_workspace(&admin, "root", "second").await);
    let system = ["default", "kube-node-lease", "kube-public", "kube-system"];
    for client in [&admin, &first, &second] {
        assert_eq!(names(&client.get(NAMESPACES).await.expect(200)), system);
    }
    let start = revision(&second.get(NAMESPACES).await.expect(200));
    let labels = json!({ "metadata": { "labels": { "owner": "first" } } });
    first.merge("/api/v1/namespaces/default", labels).await.expect(200);
    first.post(NAMESPACES, json!({ "metadata": { "name": "extra" } })).await.expect(201);
    let owner = async |client: &Client| {
        client.get("/api/v1/namespaces/default").await.expect(200)["metadata"]["labels"]["owner"].clone()
    };
    assert_eq!(owner(&first).await, "first");
    assert_eq!(owner(&second).await, Value::Null);
    assert_eq!(owner(&admin).await, Value::Null);
    assert_eq!(names(&second.get(NAMESPACES).await.expect(200)), system);
    // No event of it in a watch of the other workspace.
    let mut watch = Watch::open(&second, &format!("{NAMESPACES}?watch=1&resourceVersion={start}")).await;
    second.post(NAMESPACES, json!({ "metadata": { "name": "later" } })).await.expect(201);
    assert_eq!(watch.event().await.name(), "later");
    let refused = first.delete("/api/v1/namespaces/kube-system").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_workspaces_are_not_found() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    create_workspace(&admin, "root", "known").await;
    for path in
        ["root:unknown", "root:known:unknown", "root:unknown:known", "unknown", "known", "root:", ":", "Root"]
    {
        let client = admin.workspace(path);
        let message = client.get(CONFIG_MAPS).await.expect_status(404, "NotFound");
        assert_eq!(message, format!("workspaces.atoll.dev {path:?} not found"));
        for path in ["/api/v1", "/apis", "/api"] {
            assert_eq!(client.get(path).await.status, 404);
        }
        client.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect_status(404, "NotFound");
    }
    for path in ["/api/v1", "/apis", "/api", "/version", "/readyz"] {
        assert_eq!(admin.workspace("root:known").get(path).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_watches_can_span_all_workspaces() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let (first, second) = (
        create_workspace(&admin, "root", "first").await,
        create_workspace(&admin, "root:first", "second").await,
    );
    let all = admin.workspace("*");
    for (client, name) in [(&admin, "a"), (&first, "b"), (&second, "c")] {
        client.post(CONFIG_MAPS, config_map_with(name, "1")).await.expect(201);
    }
    let list = all.get("/api/v1/configmaps").await.expect(200);
    assert_eq!(BTreeSet::from_iter(names(&list)), BTreeSet::from(["a", "b", "c"].map(String::from)));
    // Each item names its workspace.
    let origins: BTreeSet<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["annotations"]["atoll.dev/workspace-id"].to_string())
        .collect();
    assert_eq!(origins.len(), 3, "{list}");
    assert!(origins.contains("\"root\""), "{origins:?}");
    // That annotation is not part of the stored object.
    let own = first.get(&config_map("b")).await.expect(200);
    assert!(own["metadata"]["annotations"].is_null(), "{own}");

    // Pages and selectors span workspaces as well.
    let page = all.get("/api/v1/configmaps?limit=2").await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = all.get(&format!("/api/v1/configmaps?limit=2&continue={token}")).await.expect(200);
    assert_eq!((names(&page).len(), names(&rest).len()), (2, 1));
    let selected = all.get("/api/v1/configmaps?fieldSelector=metadata.name%3Db").await.expect(200);
    assert_eq!(names(&selected), ["b"]);

    let mut watch =
        Watch::open(&all, &format!("/api/v1/configmaps?watch=1&resourceVersion={}", revision(&list))).await;
    second.delete(&config_map("c")).await.expect(200);
    first.post(CONFIG_MAPS, config_map_with("d", "1")).await.expect(201);
    let (deleted, added) = (watch.event().await, watch.event().await);
    assert_eq!((deleted.kind.as_str(), deleted.name()), ("DELETED", "c"));
    assert_eq!((added.kind.as_str(), added.name()), ("ADDED", "d"));
    assert!(added.object["metadata"]["annotations"]["atoll.dev/workspace-id"].is_string());

    // Single objects cannot be read or written across workspaces.
    for answer in [
        all.get(&config_map("b")).await,
        all.post(CONFIG_MAPS, config_map_with("e", "1")).await,
        all.delete(&config_map("b")).await,
    ] {
        answer.expect_status(400, "BadRequest");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_deletion_starts_with_children_and_waits_for_finalizers() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let parent = create_workspace(&admin, "root", "parent").await;
    let child = create_workspace(&admin, "root:parent", "child").await;
    let sibling = create_workspace(&admin, "root", "sibling").await;
    for client in [&parent, &child, &sibling] {
        client.post(NAMESPACES, json!({ "metadata": { "name": "extra" } })).await.expect(201);
        client.post(CONFIG_MAPS, config_map_with("plain", "1")).await.expect(201);
    }
    let mut held = config_map_with("held", "1");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    child.post(CONFIG_MAPS, held).await.expect(201);
    let id = |workspace: &Value| workspace["status"]["id"].as_str().unwrap().to_string();
    let own = format!("{WORKSPACES}/parent");
    let first_id = id(&admin.get(&own).await.expect(200));

    admin.delete(&own).await.expect(200);
    let marked = admin.get(&own).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    assert_eq!(marked["status"]["phase"], "Deleting");
    // Nothing can be created any more, not even in children.
    for client in [&parent, &child] {
        client.post(CONFIG_MAPS, config_map_with("late", "1")).await.expect_status(403, "Forbidden");
        let workspace = json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "late" } });
        client.post(WORKSPACES, workspace).await.expect_status(403, "Forbidden");
    }
    eventually("all objects without finalizers are deleted in the child", async || {
        names(&child.get(CONFIG_MAPS).await.expect(200)) == ["held"]
    })
    .await;
    // The parent's contents are kept until the child is deleted, and a condition says what it waits for.
    assert_eq!(names(&parent.get(CONFIG_MAPS).await.expect(200)), ["plain"]);
    eventually("the parent reports what it waits for", async || {
        let message = admin.get(&own).await.expect(200)["status"]["message"].as_str().map(str::to_string);
        message.is_some_and(|message| message.contains("child"))
    })
    .await;

    let released = json!({ "metadata": { "finalizers": null } });
    child.merge(&config_map("held"), released).await.expect(200);
    eventually("the workspace is gone", async || admin.get(&own).await.status == 404).await;
    for client in [&parent, &child] {
        client.get(CONFIG_MAPS).await.expect_status(404, "NotFound");
    }
    assert_eq!(names(&sibling.get(CONFIG_MAPS).await.expect(200)), ["plain"]);
    let everything = admin.workspace("*").get("/api/v1/configmaps").await.expect(200);
    assert_eq!(names(&everything), ["plain"], "all other objects must be deleted");

    // The name can be used again. The id never is.
    let again = create_workspace(&admin, "root", "parent").await;
    assert_ne!(id(&admin.get(&own).await.expect(200)), first_id);
    assert_eq!(names(&again.get(CONFIG_MAPS).await.expect(200)), Vec::<String>::new());
    assert_eq!(names(&again.get(NAMESPACES).await.expect(200)).len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_deletion_continues_after_a_restart() {
    let mut atoll = Atoll::start();
    let admin = atoll.admin();
    let workspace = create_workspace(&admin, "root", "doomed").await;
    let mut held = config_map_with("held", "1");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    workspace.post(CONFIG_MAPS, held).await.expect(201);
    let own = format!("{WORKSPACES}/doomed");
    admin.delete(&own).await.expect(200);
    atoll.kill();
    atoll.restart();
    workspace.post(CONFIG_MAPS, config_map_with("late", "1")).await.expect_status(403, "Forbidden");
    workspace.merge(&config_map("held"), json!({ "metadata": { "finalizers": null } })).await.expect(200);
    eventually("the workspace is gone", async || admin.get(&own).await.status == 404).await;
}
