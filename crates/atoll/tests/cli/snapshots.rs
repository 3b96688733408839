//! `atoll snapshot save|restore` on running servers.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use atoll_testkit::{Atoll, Client, Setup, Watch, atoll, fail, names, revision, succeed};
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

fn save(server: &Atoll, file: &Path) -> String {
    succeed(atoll(&["snapshot", "save"]).arg(file).arg("--kubeconfig").arg(server.kubeconfig()))
}

fn restore(server: &Atoll, file: &Path) -> String {
    succeed(atoll(&["snapshot", "restore", "--yes"]).arg(file).arg("--kubeconfig").arg(server.kubeconfig()))
}

/// Returns all objects of `populate` in both workspaces, without resource versions.
async fn contents(admin: &Client) -> BTreeMap<String, Value> {
    let mut contents = BTreeMap::new();
    for client in [admin.clone(), admin.workspace("root:team")] {
        for path in ["/api/v1/configmaps", "/api/v1/secrets", "/api/v1/namespaces", WORKSPACES] {
            let list = client.get(path).await.expect(200);
            for item in list["items"].as_array().unwrap() {
                let mut item = item.clone();
                let metadata = item["metadata"].as_object_mut().unwrap();
                let is_bootstrap = metadata["resourceVersion"] == "1";
                metadata.remove("resourceVersion");
                // Bootstrap objects that describe the server itself differ.
                if (is_bootstrap && path == "/api/v1/configmaps") || metadata["name"] == "kube-root-ca.crt" {
                    continue;
                }
                // Bootstrap objects that were never written have the age of the server, and are not in
                // snapshots.
                if path == "/api/v1/namespaces" && metadata["labels"]["mine"].is_null() {
                    metadata.remove("creationTimestamp");
                    metadata.remove("managedFields");
                }
                let location = format!("{}{path}/{}", client.base(), metadata["name"]);
                contents.insert(location, item);
            }
        }
    }
    contents
}

#[track_caller]
fn assert_same_contents(found: &BTreeMap<String, Value>, expected: &BTreeMap<String, Value>) {
    for (location, object) in expected {
        assert_eq!(found.get(location), Some(object), "{location}");
    }
    assert_eq!(found.len(), expected.len());
}

async fn populate(admin: &Client) {
    let team =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    admin.post(WORKSPACES, team).await.expect(201);
    for client in [admin.clone(), admin.workspace("root:team")] {
        for number in 0..50 {
            let value = format!("{number} in {} \u{1f3dd} \"quoted\" \\ <&>", client.base());
            client
                .post(CONFIG_MAPS, config_map_with(&format!("object-{number:02}"), &value))
                .await
                .expect(201);
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "password", "finalizers": ["example.com/kept"] },
            "data": { "password": "c2VjcmV0" }, "type": "Opaque",
        });
        client.post("/api/v1/namespaces/default/secrets", secret).await.expect(201);
        // A changed bootstrap object is no longer the shared one.
        let labels = json!({ "metadata": { "labels": { "mine": "yes" } } });
        client.merge("/api/v1/namespaces/kube-public", labels).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_moves_everything_to_a_new_server() {
    let location = tempfile::tempdir().unwrap();
    let file = location.path().join("everything.snapshot");
    let old = Atoll::start();
    populate(&old.admin()).await;
    let expected = contents(&old.admin()).await;
    let seen = revision(&old.admin().get(CONFIG_MAPS).await.expect(200));
    let printed = save(&old, &file);
    assert!(printed.starts_with("Saved ") && printed.contains("Keep encryption.yaml with it"), "{printed}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(location.path()).unwrap().count(), 1, "no other file must be left behind");
    // Secrets can be restored with their key only.
    let directory = location.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(old.directory.join("encryption.yaml"), directory.join("encryption.yaml")).unwrap();
    drop(old);

    let mut new = Setup::new().directory(&directory).start();
    let admin = new.admin();
    admin.post(CONFIG_MAPS, config_map_with("not-in-it", "1")).await.expect(201);
    let printed = restore(&new, &file);
    assert!(printed.contains("\nRestored ") && printed.contains("Revisions continue from "), "{printed}");
    assert_same_contents(&contents(&admin).await, &expected);
    admin.get(&config_map("not-in-it")).await.expect_status(404, "NotFound");
    // Clients of the old server must not mistake new revisions for those that they know.
    let list = admin.get(CONFIG_MAPS).await.expect(200);
    assert!(revision(&list) > seen, "{} is not greater than {seen}", revision(&list));
    // Bootstrap objects have revision 1 on every server.
    let is_new = |item: &Value| matches!(revision(item), 1) || revision(item) > seen;
    assert!(list["items"].as_array().unwrap().iter().all(is_new));
    let stale = format!("{CONFIG_MAPS}?watch=1&resourceVersion={seen}");
    let event = Watch::open(&admin, &stale).await.event().await;
    assert_eq!((event.kind.as_str(), &event.object["code"]), ("ERROR", &json!(410)), "{event:?}");

    let after = admin.post(CONFIG_MAPS, config_map_with("after", "1")).await.expect(201);
    assert!(revision(&after) > revision(&list));
    new.kill();
    new.restart();
    new.admin().delete(&config_map("after")).await.expect(200);
    assert_same_contents(&contents(&new.admin()).await, &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_sends_changes_to_watchers() {
    let location = tempfile::tempdir().unwrap();
    let file = location.path().join("snapshot");
    // No controllers write meanwhile.
    let server = Atoll::start_bare();
    let admin = server.admin();
    for name in ["changed", "deleted", "same"] {
        admin.post(CONFIG_MAPS, config_map_with(name, "old")).await.expect(201);
    }
    let expected = names(&admin.get(CONFIG_MAPS).await.expect(200));
    save(&server, &file);
    let same = admin.get(&config_map("same")).await.expect(200);
    admin.merge(&config_map("changed"), json!({ "data": { "value": "new" } })).await.expect(200);
    admin.delete(&config_map("deleted")).await.expect(200);
    admin.post(CONFIG_MAPS, config_map_with("extra", "new")).await.expect(201);

    let start = revision(&admin.get(CONFIG_MAPS).await.expect(200));
    let mut watch = Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).await;
    let printed = restore(&server, &file);
    assert!(printed.contains(" 3 of them changed."), "{printed}");
    let mut events = BTreeMap::new();
    let mut last = start;
    for _ in 0..3 {
        let event = watch.event().await;
        assert!(event.revision() > last);
        last = event.revision();
        events.insert(event.name().to_string(), (event.kind.clone(), event.value().to_string()));
    }
    let event = |kind: &str, value: &str| (kind.to_string(), value.to_string());
    let expected_events = BTreeMap::from([
        ("changed".to_string(), event("MODIFIED", "old")),
        ("deleted".to_string(), event("ADDED", "old")),
        ("extra".to_string(), event("DELETED", "new")),
    ]);
    assert_eq!(events, expected_events);
    assert_eq!(names(&admin.get(CONFIG_MAPS).await.expect(200)), expected);
    assert_eq!(
        admin.get(&config_map("same")).await.expect(200),
        same,
        "unchanged objects must not be written"
    );

    // Restoring again changes nothing, and the watch stays open.
    assert!(restore(&server, &file).contains(" 0 of them changed."));
    admin.post(CONFIG_MAPS, config_map_with("later", "1")).await.expect(201);
    assert_eq!(watch.event().await.name(), "later");
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_snapshot_changes_nothing() {
    let location = tempfile::tempdir().unwrap();
    let file = location.path().join("snapshot");
    // No controllers write meanwhile.
    let server = Atoll::start_bare();
    let admin = server.admin();
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    save(&server, &file);
    let whole = std::fs::read_to_string(&file).unwrap();
    admin.post(CONFIG_MAPS, config_map_with("b", "1")).await.expect(201);
    let before = admin.get(CONFIG_MAPS).await.expect(200);
    let without_end = whole.trim_end().rsplit_once('\n').unwrap().0.to_string() + "\n";
    let broken = [
        String::new(),
        "not a snapshot\n".into(),
        "{}\n".into(),
        without_end,
        whole[..whole.len() / 2].to_string(),
        whole.replacen("\"format\":2", "\"format\":3", 1),
        whole.lines().skip(1).map(|line| format!("{line}\n")).collect(),
    ];
    for text in broken {
        std::fs::write(&file, &text).unwrap();
        let mut command = atoll(&["snapshot", "restore"]);
        let errors = fail(command.arg(&file).arg("--kubeconfig").arg(server.kubeconfig()));
        assert!(errors.contains("the snapshot is not valid"), "{text:?}: {errors}");
        assert_eq!(admin.get(CONFIG_MAPS).await.expect(200), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_lists_what_it_destroys_and_asks() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    admin.post(CONFIG_MAPS, config_map_with("kept", "1")).await.expect(201);
    let file = server.directory.join("backup");
    save(&server, &file);
    let cluster = json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } });
    admin.post("/apis/atoll.dev/v1alpha1/clusters", cluster).await.expect(201);
    admin.post(WORKSPACES, json!({ "metadata": { "name": "team" } })).await.expect(201);
    admin.post("/api/v1/namespaces", json!({ "metadata": { "name": "shop" } })).await.expect(201);
    admin.post(CONFIG_MAPS, config_map_with("new", "1")).await.expect(201);
    let placed = json!({ "spec": { "clusters": [{ "name": "east" }] } });
    admin.merge(&format!("{}/placement", config_map("new")), placed).await.expect(200);
    admin.merge(&config_map("kept"), json!({ "data": { "value": "2" } })).await.expect(200);
    let mut command = atoll(&["snapshot", "restore"]);
    command.arg(&file).arg("--kubeconfig").arg(server.kubeconfig()).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && errors.contains("add --yes"), "{errors}");
    assert!(
        printed.contains("That deletes 1 workspace, 1 namespace and 2 other objects, changes 1 object"),
        "{printed}"
    );
    assert!(printed.contains("as orphans: 1 on east."), "{printed}");
    admin.get(&config_map("new")).await.expect(200);
    let printed = restore(&server, &file);
    assert!(printed.contains("That deletes 1 workspace, 1 namespace"), "also with --yes: {printed}");
    assert_eq!(admin.get(&config_map("new")).await.status, 404);
    // Clients without the right get no preview, and the endpoint exists in root only.
    let body =
        atoll_testkit::RequestContent::Raw("application/x-ndjson", std::fs::read(&file).unwrap().into());
    let path = "/atoll/snapshot/preview";
    let without_rights = admin.acting_as("eve", &[]);
    assert_eq!(without_rights.request(http::Method::POST, path, body.clone()).await.status, 403);
    assert_eq!(admin.request(http::Method::GET, path, body).await.status, 405);
}
