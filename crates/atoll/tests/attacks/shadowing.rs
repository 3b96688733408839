//! Custom resources cannot shadow built-in kinds.
//!
//! `shadowing/store.db` and `shadowing/store.snapshot` were written by Atoll 632790b, which accepted such
//! definitions. In them, `root:team-a:rootdoor` is an alias of the root workspace and `root:team-c:bdoor` of
//! `root:team-b`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atoll_encryption::{EncryptedStore, Rules};
use atoll_sqlite::{SqliteOptions, SqliteStore};
use atoll_store::{Condition, Key, Range, Store, Write};
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, RequestContent, Setup, names};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Returns a definition in version `v9` whose objects may have any field. Kubernetes' own groups need the
/// annotation.
fn definition(plural: &str, group: &str, kind: &str) -> Value {
    let schema = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": { "status": { "type": "object", "properties": {
            "id": { "type": "string" }, "phase": { "type": "string" },
        } } },
    });
    json!({
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": { "api-approved.kubernetes.io": "https://example.com/approved" },
        },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v9", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
                "selectableFields": [{ "jsonPath": ".status.id" }, { "jsonPath": ".status.phase" }],
            }],
        },
    })
}

/// Starts a server with the workspace `root:team-a`, and returns its tenant.
async fn tenant(setup: Setup) -> (Atoll, Client) {
    let server = setup.tokens("tenant,tenant,1\n").start();
    let admin = server.admin();
    admin.post(WORKSPACES, json!({ "metadata": { "name": "team-a" } })).await.expect(201);
    let team = admin.workspace("root:team-a");
    let binding = json!({
        "metadata": { "name": "tenant" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant" }],
    });
    team.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
    (server, team.token("tenant"))
}

/// Built-in resources that would give a tenant rights, and the expected error for each.
const SHADOWS: [(&str, &str, &str, &str); 7] = [
    ("workspaces", "atoll.dev", "Workspace", "spec.group: Forbidden: the group atoll.dev"),
    ("identity", "internal.atoll.dev", "Identity", "spec.group: Forbidden: the group atoll.dev"),
    ("widgets", "team.atoll.dev", "Widget", "spec.group: Forbidden: the group atoll.dev"),
    (
        "certificatesigningrequests",
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "spec.names.plural: Forbidden: certificatesigningrequests.certificates.k8s.io is a built-in resource",
    ),
    (
        "clusterrolebindings",
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "spec.names.plural: Forbidden: clusterrolebindings.rbac.authorization.k8s.io is a built-in resource",
    ),
    (
        "deployments",
        "apps",
        "Deployment",
        "spec.names.plural: Forbidden: deployments.apps is a built-in resource",
    ),
    (
        "pods",
        "metrics.k8s.io",
        "PodMetrics",
        "spec.names.plural: Forbidden: pods.metrics.k8s.io is a built-in resource",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn definitions_cannot_shadow_built_in_resources() {
    for profile in ["full", "minimal"] {
        let (server, tenant) = tenant(Setup::new().flag("--profile", profile)).await;
        for (plural, group, kind, expected) in SHADOWS {
            let answer = tenant.post(DEFINITIONS, definition(plural, group, kind)).await;
            let message = answer.expect_status(422, "Invalid");
            assert!(message.contains(expected), "{profile}: {message}");
            let mut object = json!({
                "apiVersion": format!("{group}/v9"), "kind": kind, "metadata": { "name": "rootdoor" },
            });
            object["status"] = json!({ "id": "root", "phase": "Ready" });
            tenant.post(&format!("/apis/{group}/v9/{plural}"), object).await.expect_status_code(404);
        }
        let alias = tenant.workspace("root:team-a:rootdoor");
        assert!(matches!(alias.get("/api/v1/namespaces").await.status, 403 | 404), "{profile}");
        // Other resources of the same group, and resources of the same name in another group, are allowed.
        for (plural, group, kind) in
            [("widgets", "networking.k8s.io", "Widget"), ("workspaces", "example.com", "Workspace")]
        {
            tenant.post(DEFINITIONS, definition(plural, group, kind)).await.expect(201);
        }
        drop(server);
    }
}

fn older_version_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks/shadowing").join(name)
}

/// Checks a server with the data of the older version.
async fn assert_objects_kept_and_aliases_closed(admin: &Client) {
    for workspace in ["root", "root:team-b"] {
        let client = admin.workspace(workspace);
        let widgets = client.get(WIDGETS).await.expect(200);
        assert_eq!(names(&widgets), ["one", "two"], "{workspace}");
        for item in widgets["items"].as_array().unwrap() {
            assert_eq!(item["spec"]["size"], item["metadata"]["name"]);
            assert_eq!(item["metadata"]["labels"]["of"], workspace.replace(':', "."));
        }
    }
    assert_eq!(names(&admin.get(WORKSPACES).await.expect(200)), ["team-a", "team-b", "team-c"]);
    let team_a = admin.workspace("root:team-a");
    assert_eq!(names(&team_a.get(WORKSPACES).await.expect(200)), ["child"]);
    for alias in ["root:team-a:rootdoor", "root:team-c:bdoor"] {
        admin.workspace(alias).get(CONFIG_MAPS).await.expect_status_code(404);
    }
    team_a.get("/apis/atoll.dev/v9/workspaces").await.expect_status_code(404);
    admin.get(&config_map("plain")).await.expect(200);
}

/// Deletes the definitions that shadowed Workspaces, and checks that no other object is deleted.
async fn assert_deleting_shadow_definitions_keeps_objects(admin: &Client) {
    let shadow = format!("{DEFINITIONS}/workspaces.atoll.dev");
    for workspace in ["root:team-a", "root:team-c"] {
        let client = admin.workspace(workspace);
        eventually("the definition says that it is not served", async || {
            let found = client.get(&shadow).await.expect(200);
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| {
                (&condition["type"], &condition["status"], &condition["reason"])
                    == (&json!("NamesAccepted"), &json!("False"), &json!("Reserved"))
            })
        })
        .await;
        client.delete(&shadow).await.expect(200);
        eventually("the definition is gone", async || client.get(&shadow).await.status == 404).await;
    }
    assert_objects_kept_and_aliases_closed(admin).await;
    let team_c = admin.workspace("root:team-c");
    team_c.get(&config_map("c")).await.expect(200);
    // The workspace behind an alias is not deleted together with the workspace that had the alias.
    admin.delete(&format!("{WORKSPACES}/team-c")).await.expect(200);
    eventually("team-c is gone", async || admin.get(&format!("{WORKSPACES}/team-c")).await.status == 404)
        .await;
    admin.workspace("root:team-b").get(&config_map("kept")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_aliases_in_an_older_store_are_closed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(older_version_file("store.db"), directory.path().join("store.db")).unwrap();
    let mut server = Setup::new().directory(directory.path()).start();
    assert_objects_kept_and_aliases_closed(&server.admin()).await;
    server.kill();
    server.restart();
    let admin = server.admin();
    assert_objects_kept_and_aliases_closed(&admin).await;
    assert_deleting_shadow_definitions_keeps_objects(&admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_aliases_in_an_older_snapshot_are_closed() {
    let mut server = Atoll::start();
    let content = Bytes::from(std::fs::read(older_version_file("store.snapshot")).unwrap());
    let body = RequestContent::Raw("application/x-ndjson", content);
    server.admin().request(Method::POST, "/atoll/snapshot", body).await.expect(200);
    assert_objects_kept_and_aliases_closed(&server.admin()).await;
    server.kill();
    server.restart();
    let admin = server.admin();
    assert_objects_kept_and_aliases_closed(&admin).await;
    assert_deleting_shadow_definitions_keeps_objects(&admin).await;
}

/// Encrypts everything with a key that the older version used, too.
const ENCRYPTION: &str = "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ['*.*']
  providers:
  - aesgcm: { keys: [{ name: one, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE= }] }
  - identity: {}
";

/// The older store is encrypted, and a server that migrated it was killed: one object is stored under both
/// keys, and another under the new key only.
#[tokio::test(flavor = "multi_thread")]
async fn workspace_aliases_in_an_encrypted_store_are_closed_after_an_interruption() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(older_version_file("store.db"), directory.path().join("store.db")).unwrap();
    let configuration = directory.path().join("configuration.yaml");
    std::fs::write(&configuration, ENCRYPTION).unwrap();
    let store = Arc::new(SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap());
    let sealed = EncryptedStore::new(store.clone(), Rules::parse(ENCRYPTION).unwrap());
    assert!(sealed.migrate(|_, _| {}).await.unwrap().rewritten > 0);
    let write = async |key: Key, value: Option<Bytes>| {
        let write = Write { key, expect: Condition::Any, value, guards: Vec::new(), hint: None };
        sealed.write(write).await.unwrap();
    };
    let found = sealed.range(Range::all(), None, 0).await.unwrap().entries;
    let widgets: Vec<_> =
        found.into_iter().filter(|entry| entry.key.starts_with("example.com/widgets/root/")).collect();
    assert_eq!(widgets.len(), 2);
    for (entry, is_left) in widgets.into_iter().zip([true, false]) {
        write(Key::from(format!("~{}", entry.key)), Some(entry.value)).await;
        if !is_left {
            write(entry.key, None).await;
        }
    }
    drop(sealed);
    store.close().await;
    let flags = Setup::new()
        .directory(directory.path())
        .flag("--encryption-provider-config", configuration.display());
    let server = flags.start();
    assert_objects_kept_and_aliases_closed(&server.admin()).await;
    assert_deleting_shadow_definitions_keeps_objects(&server.admin()).await;
}
