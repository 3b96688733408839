//! A dialect is enabled in a workspace and those below it, and nowhere else.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup, names};
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};
use crate::{CLUSTERS, KCP, OWN, SECRETS, cluster};

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn resources(list: &Value) -> Vec<String> {
    let resources = list["resources"].as_array().unwrap().iter();
    resources.map(|resource| resource["name"].as_str().unwrap().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dialect_is_enabled_in_a_workspace_and_below() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    for line in [
        "workspace create org --use",
        "workspace create team",
        "workspace use root",
        "workspace create other",
    ] {
        server.run(line);
    }
    let (org, team, other) =
        (admin.workspace("root:org"), admin.workspace("root:org:team"), admin.workspace("root:other"));
    assert!(server.run("dialect list").contains("no"));
    org.get(CLUSTERS).await.expect_status_code(404);

    let printed = server.run("dialect enable kcp --workspace root:org");
    assert!(printed.contains("root:org now speaks kcp"), "{printed}");
    assert!(server.run("dialect enable kcp --workspace org").contains("already"));
    assert!(server.run("dialect list --workspace root:org:team").contains("yes, by root:org"));
    for client in [&org, &team] {
        let list = client.get(KCP).await.expect(200);
        let expected = ["clusters", "clusters/status", "workloadclusters", "workloadclusters/status"];
        assert_eq!(resources(&list), expected);
        let kinds = [("clusters", "Cluster", "a"), ("workloadclusters", "WorkloadCluster", "b")];
        for (plural, kind, name) in kinds {
            let path = format!("{KCP}/{plural}");
            let made = client.post(&path, cluster(kind, name, "")).await.expect(201);
            assert_eq!(made["spec"], json!({ "kubeconfig": "", "unschedulable": false }));
            let mut wrong = cluster(kind, "c", "");
            wrong["spec"]["unschedulable"] = "maybe".into();
            client.post(&path, wrong).await.expect_status(422, "Invalid");
        }
        // Both kinds are forms of one object.
        for (plural, kind, _) in kinds {
            let path = format!("{KCP}/{plural}");
            assert_eq!(atoll_testkit::names(&client.get(&path).await.expect(200)), ["a", "b"]);
            for name in ["a", "b"] {
                assert_eq!(client.get(&format!("{path}/{name}")).await.expect(200)["kind"], kind);
                client.post(&path, cluster(kind, name, "")).await.expect_status(409, "AlreadyExists");
            }
        }
        let schema = client.get("/openapi/v3/apis/workload.kcp.dev/v1alpha1").await.expect(200);
        assert!(schema["components"]["schemas"]["dev.kcp.workload.v1alpha1.WorkloadCluster"].is_object());
    }
    for client in [&admin, &other] {
        client.get(CLUSTERS).await.expect_status_code(404);
        let groups = client.get("/apis").await.expect(200).to_string();
        assert!(!groups.contains("workload.kcp.dev"));
    }
    // Administrators of all workspaces get one list of both.
    let all = admin.workspace("*").get(CLUSTERS).await.expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 4);

    let complaint = server.run_failing("dialect disable kcp --workspace root:org:team");
    assert!(complaint.contains("because root:org does"), "{complaint}");
    let complaint = server.run_failing("dialect disable kcp --workspace root:org");
    assert!(complaint.contains("root:org has clusters") && complaint.contains("hint: "), "{complaint}");
    // Each is deleted in the other spelling.
    for path in ["clusters/b", "workloadclusters/a"] {
        org.delete(&format!("{KCP}/{path}")).await.expect(200);
    }
    let complaint = server.run_failing("dialect disable kcp --workspace root:org");
    assert!(complaint.contains("root:org:team has clusters"), "{complaint}");
    for path in ["clusters/b", "workloadclusters/a"] {
        team.delete(&format!("{KCP}/{path}")).await.expect(200);
    }
    let printed = server.run("dialect disable kcp --workspace root:org");
    assert!(printed.contains("no longer speaks kcp"), "{printed}");
    org.get(CLUSTERS).await.expect_status_code(404);
    assert!(server.run("dialect disable kcp --workspace root:org").contains("does not speak"));
    let complaint = server.run_failing("dialect enable kcp --workspace root:nowhere");
    assert!(complaint.contains("nowhere"), "{complaint}");
}

/// Returns a user's own definition of the resource that kcp calls clusters.
pub fn definition(plural: &str, kind: &str, scope: &str, version: &str, schema: Value) -> Value {
    let names = json!({
        "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"),
    });
    let version = json!({
        "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.workload.kcp.dev") },
        "spec": { "group": "workload.kcp.dev", "scope": scope, "names": names, "versions": [version] },
    })
}

/// Waits until the controller has handled a Cluster of kcp.
async fn wait_until_reconciled(client: &Client, name: &str) {
    let path = format!("{CLUSTERS}/{name}");
    eventually(&format!("{name} is reconciled"), async || {
        let found = client.get(&path).await.expect(200);
        let reason = found["status"]["conditions"][0]["reason"].clone();
        found["metadata"]["finalizers"] == json!(["atoll.dev/kcp"]) && reason == "InvalidKubeConfig"
    })
    .await;
}

/// A tenant's own definition of kcp's names affects only that tenant, and a dialect does not affect sibling
/// workspaces.
#[tokio::test(flavor = "multi_thread")]
async fn definition_of_a_tenant_does_not_affect_other_workspaces() {
    let mut server = Setup::new().flag("--controllers", "kcpcluster,kcpplacement").start();
    let mut admin = server.admin();
    for name in ["org", "plain", "later", "spread"] {
        server.run(&format!("workspace create {name}"));
    }
    let of = |admin: &Client, name: &str| admin.workspace(&format!("root:{name}"));
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let short = json!({ "type": "object", "properties": { "spec": {
        "type": "object", "properties": { "kubeconfig": { "type": "string" } },
    } } });
    let mut tenant_cluster = cluster("Cluster", "theirs", "not for us to read");
    tenant_cluster["spec"]["mine"] = "x".into();
    // With another version, in namespaces, and with fewer fields.
    for (workspace, scope, version, schema) in [
        ("plain", "Cluster", "v1alpha1", &short),
        ("later", "Cluster", "v2", &any),
        ("spread", "Namespaced", "v1alpha1", &any),
    ] {
        let tenant = of(&admin, workspace);
        let definition = definition("clusters", "Cluster", scope, version, schema.clone());
        tenant.post(DEFINITIONS, definition).await.expect(201);
        let namespace = if scope == "Cluster" { "" } else { "/namespaces/default" };
        tenant_cluster["apiVersion"] = format!("workload.kcp.dev/{version}").into();
        let path = format!("/apis/workload.kcp.dev/{version}{namespace}/clusters");
        tenant.post(&path, tenant_cluster.clone()).await.expect(201);
    }
    // After the restart, the only objects of that group are the tenants'.
    server.kill();
    server.restart();
    admin = server.admin();
    let org = of(&admin, "org");
    admin.post(OWN, json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } })).await.expect(201);
    let labelled = |name: &str| {
        let mut object = config_map_with(name, "1");
        object["metadata"]["labels"] = json!({ "workloads.kcp.dev/cluster": "east" });
        object
    };
    let tenants = ["plain", "later", "spread"].map(|name| of(&admin, name));
    for tenant in &tenants {
        tenant.post(CONFIG_MAPS, labelled("a")).await.expect(201);
    }
    server.run("dialect enable kcp --workspace root:org");
    let mut first = cluster("Cluster", "first", "");
    first["spec"]["unschedulable"] = true.into();
    org.post(CLUSTERS, first).await.expect(201);
    wait_until_reconciled(&org, "first").await;
    let all = admin.workspace("*").get(CLUSTERS).await.expect(200);
    let seen: Vec<&Value> = all["items"].as_array().unwrap().iter().collect();
    let mut own = org.get(&format!("{CLUSTERS}/first")).await.expect(200);
    own["metadata"]["annotations"] = Value::Null;
    let found = seen.iter().find(|item| item["metadata"]["name"] == "first").copied();
    let mut found = found.cloned().unwrap_or_default();
    found["metadata"]["annotations"] = Value::Null;
    assert_eq!(found, own, "the list across workspaces must decode it as kcp's kind");

    // The tenants' objects are unchanged, and the controller created nothing for them.
    org.post(CONFIG_MAPS, labelled("a")).await.expect(201);
    eventually("labels take effect where kcp is enabled", async || {
        let found = org.get(&config_map("a")).await.expect(200);
        found["metadata"]["annotations"]["atoll.dev/placement"].is_string()
    })
    .await;
    for (tenant, path) in tenants.iter().zip([
        format!("{CLUSTERS}/theirs"),
        "/apis/workload.kcp.dev/v2/clusters/theirs".to_string(),
        format!("{KCP}/namespaces/default/clusters/theirs"),
    ]) {
        let found = tenant.get(&path).await.expect(200);
        assert_eq!(found["spec"]["kubeconfig"], "not for us to read", "{path}");
        assert_eq!(
            (&found["metadata"]["finalizers"], &found["status"]),
            (&Value::Null, &Value::Null),
            "{path}"
        );
        assert_eq!(names(&tenant.get(SECRETS).await.expect(200)), [""; 0], "{path}");
        assert_eq!(names(&tenant.get(OWN).await.expect(200)), [""; 0], "{path}");
        let label = tenant.get(&config_map("a")).await.expect(200);
        assert_eq!(label["metadata"]["annotations"], Value::Null, "{path}: kcp is not enabled there");
    }
    // Deleting a definition deletes its objects and no others.
    tenants[0].delete(&format!("{DEFINITIONS}/clusters.workload.kcp.dev")).await.expect(200);
    eventually("the tenant's resource is gone", async || tenants[0].get(CLUSTERS).await.status == 404).await;
    org.post(CLUSTERS, cluster("Cluster", "second", "")).await.expect(201);
    wait_until_reconciled(&org, "second").await;
    wait_until_reconciled(&org, "first").await;
}
