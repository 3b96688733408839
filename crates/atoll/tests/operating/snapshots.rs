//! `atoll snapshot save|restore`, on running servers.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::access::{Access, names, revision};
use crate::support::process::{Atoll, Setup, atoll};
use crate::support::programs::{fail, succeed};
use crate::support::watching::Watch;
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

fn save(server: &Atoll, file: &Path) -> String {
    succeed(atoll(&["snapshot", "save"]).arg(file).arg("--kubeconfig").arg(server.admin_kubeconfig()))
}

fn restore(server: &Atoll, file: &Path) -> String {
    succeed(
        atoll(&["snapshot", "restore", "--yes"]).arg(file).arg("--kubeconfig").arg(server.admin_kubeconfig()),
    )
}

/// Everything that was put in by `populate`, in both workspaces, as it is without revisions.
async fn contents(admin: &Access) -> BTreeMap<String, Value> {
    let mut contents = BTreeMap::new();
    for access in [admin.clone(), admin.workspace("root:team")] {
        for path in ["/api/v1/configmaps", "/api/v1/secrets", "/api/v1/namespaces", WORKSPACES] {
            let list = access.get(path).await.expect(200);
            for item in list["items"].as_array().unwrap() {
                let mut item = item.clone();
                let metadata = item["metadata"].as_object_mut().unwrap();
                let is_born = metadata["resourceVersion"] == "1";
                metadata.remove("resourceVersion");
                // What a server says of itself is its own.
                if (is_born && path == "/api/v1/configmaps") || metadata["name"] == "kube-root-ca.crt" {
                    continue;
                }
                // What nobody has written is as old as the server that shows it, and in no snapshot.
                if path == "/api/v1/namespaces" && metadata["labels"]["mine"].is_null() {
                    metadata.remove("creationTimestamp");
                    metadata.remove("managedFields");
                }
                let place = format!("{}{path}/{}", access.base(), metadata["name"]);
                contents.insert(place, item);
            }
        }
    }
    contents
}

#[track_caller]
fn same(found: &BTreeMap<String, Value>, expected: &BTreeMap<String, Value>) {
    for (place, object) in expected {
        assert_eq!(found.get(place), Some(object), "{place}");
    }
    assert_eq!(found.len(), expected.len());
}

async fn populate(admin: &Access) {
    let team =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    admin.post(WORKSPACES, team).await.expect(201);
    for access in [admin.clone(), admin.workspace("root:team")] {
        for number in 0..50 {
            let value = format!("{number} in {} \u{1f3dd} \"quoted\" \\ <&>", access.base());
            access
                .post(CONFIG_MAPS, config_map_with(&format!("object-{number:02}"), &value))
                .await
                .expect(201);
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "password", "finalizers": ["example.com/kept"] },
            "data": { "password": "c2VjcmV0" }, "type": "Opaque",
        });
        access.post("/api/v1/namespaces/default/secrets", secret).await.expect(201);
        // Born with the workspace, and changed here: no longer the shared one.
        let labels = json!({ "metadata": { "labels": { "mine": "yes" } } });
        access.merge("/api/v1/namespaces/kube-public", labels).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_moves_everything_to_a_fresh_server() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("everything.snapshot");
    let old = Atoll::start();
    populate(&old.admin()).await;
    let expected = contents(&old.admin()).await;
    let seen = revision(&old.admin().get(CONFIG_MAPS).await.expect(200));
    let said = save(&old, &file);
    assert!(said.starts_with("Saved ") && said.contains("Keep encryption.yaml with it"), "{said}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "nothing else is left lying about");
    // Secrets go with their key, and with nothing else.
    let directory = place.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(old.directory.join("encryption.yaml"), directory.join("encryption.yaml")).unwrap();
    drop(old);

    let mut new = Setup::new().directory(&directory).start();
    let admin = new.admin();
    admin.post(CONFIG_MAPS, config_map_with("not-in-it", "1")).await.expect(201);
    let said = restore(&new, &file);
    assert!(said.contains("\nRestored ") && said.contains("Revisions go on from "), "{said}");
    same(&contents(&admin).await, &expected);
    admin.get(&config_map("not-in-it")).await.expect_status(404, "NotFound");
    // Clients of the old server that come here must not take what is new for what they know.
    let list = admin.get(CONFIG_MAPS).await.expect(200);
    assert!(revision(&list) > seen, "{} is not beyond {seen}", revision(&list));
    // What every workspace is born with has the first revision anywhere.
    let is_new = |item: &Value| matches!(revision(item), 1) || revision(item) > seen;
    assert!(list["items"].as_array().unwrap().iter().all(is_new));
    let stale = format!("{CONFIG_MAPS}?watch=1&resourceVersion={seen}");
    let told = Watch::open(&admin, &stale).await.event().await;
    assert_eq!((told.kind.as_str(), &told.object["code"]), ("ERROR", &json!(410)), "{told:?}");

    let after = admin.post(CONFIG_MAPS, config_map_with("after", "1")).await.expect(201);
    assert!(revision(&after) > revision(&list));
    new.kill();
    new.restart();
    new.admin().delete(&config_map("after")).await.expect(200);
    same(&contents(&new.admin()).await, &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_put_back_shows_it_to_those_who_watch() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("snapshot");
    // Nobody else writes meanwhile.
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
    let said = restore(&server, &file);
    assert!(said.contains(" 3 of them changed."), "{said}");
    let mut events = BTreeMap::new();
    let mut last = start;
    for _ in 0..3 {
        let event = watch.event().await;
        assert!(event.revision() > last);
        last = event.revision();
        events.insert(event.name().to_string(), (event.kind.clone(), event.value().to_string()));
    }
    let event = |kind: &str, value: &str| (kind.to_string(), value.to_string());
    let told = BTreeMap::from([
        ("changed".to_string(), event("MODIFIED", "old")),
        ("deleted".to_string(), event("ADDED", "old")),
        ("extra".to_string(), event("DELETED", "new")),
    ]);
    assert_eq!(events, told);
    assert_eq!(names(&admin.get(CONFIG_MAPS).await.expect(200)), expected);
    assert_eq!(admin.get(&config_map("same")).await.expect(200), same, "what is the same is not touched");

    // Nothing changes a second time, and the watch goes on.
    assert!(restore(&server, &file).contains(" 0 of them changed."));
    admin.post(CONFIG_MAPS, config_map_with("later", "1")).await.expect(201);
    assert_eq!(watch.event().await.name(), "later");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_snapshot_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("snapshot");
    // Nobody else writes meanwhile.
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
        let errors = fail(command.arg(&file).arg("--kubeconfig").arg(server.admin_kubeconfig()));
        assert!(errors.contains("not a whole snapshot"), "{text:?}: {errors}");
        assert_eq!(admin.get(CONFIG_MAPS).await.expect(200), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_is_told_what_restoring_destroys_and_asked() {
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
    command.arg(&file).arg("--kubeconfig").arg(server.admin_kubeconfig()).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && errors.contains("add --yes"), "{errors}");
    assert!(
        said.contains("That deletes 1 workspace, 1 namespace and 2 other objects, changes 1 object"),
        "{said}"
    );
    assert!(said.contains("knows of it: 1 on east."), "{said}");
    admin.get(&config_map("new")).await.expect(200);
    let said = restore(&server, &file);
    assert!(said.contains("That deletes 1 workspace, 1 namespace"), "also with --yes: {said}");
    assert_eq!(admin.get(&config_map("new")).await.status, 404);
    // Who may not restore is told nothing, and only the root knows of it.
    let body =
        crate::support::access::Body::Raw("application/x-ndjson", std::fs::read(&file).unwrap().into());
    let path = "/atoll/snapshot/preview";
    let nobody = admin.acting_as("eve", &[]);
    assert_eq!(nobody.request(http::Method::POST, path, body.clone()).await.status, 403);
    assert_eq!(admin.request(http::Method::GET, path, body).await.status, 405);
}
