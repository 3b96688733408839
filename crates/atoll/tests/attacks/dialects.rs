//! Kinds of a dialect are reserved wherever the dialect is enabled, because the server trusts the marks on
//! their objects.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, atoll, fail, names, succeed};
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLUSTERS: &str = "/apis/workload.kcp.dev/v1alpha1/clusters";
const POINTER: &str = "atoll.dev/kubeconfig-secret";

/// Returns a tenant's own definition of a kind whose objects may have any field.
fn definition(plural: &str, group: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

fn enable(server: &TenantServer, workspace: &str) -> std::process::Command {
    let mut command = atoll(&["dialect", "enable", "kcp", "--workspace", workspace]);
    command.env("KUBECONFIG", server.atoll.kubeconfig()).stdin(std::process::Stdio::null());
    command
}

async fn wait_until_deleted(client: &Client, name: &str) {
    let path = format!("{DEFINITIONS}/{name}");
    eventually("the definition is gone", async || client.get(&path).await.status == 404).await;
}

/// Such a definition would serve Clusters whose kubeconfigs are not sealed.
#[tokio::test(flavor = "multi_thread")]
async fn kinds_of_a_dialect_are_reserved_where_it_is_enabled() {
    let server = TenantServer::start(&["owner", "other"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "org", "owner").await;
    create_tenant_workspace(&admin, "root:org", "team", "owner").await;
    create_tenant_workspace(&admin, "root", "beside", "other").await;
    succeed(&mut enable(&server, "root:org"));
    let beside = server.user("other", "root:beside");
    for (plural, kind) in [("clusters", "Cluster"), ("workloadclusters", "WorkloadCluster")] {
        let own = definition(plural, "workload.kcp.dev", kind);
        for path in ["root:org", "root:org:team"] {
            let answer = server.user("owner", path).post(DEFINITIONS, own.clone()).await;
            let message = answer.expect_status(422, "Invalid");
            assert!(message.contains("the dialect kcp serves"), "{message}");
        }
        beside.post(DEFINITIONS, own).await.expect(201);
    }
    // Every workspace may define kinds of other systems, even where a dialect is enabled.
    for client in [&beside, &server.user("owner", "root:org"), &server.user("owner", "root:org:team")] {
        for (plural, group, kind) in [
            ("clusters", "cluster.x-k8s.io", "Cluster"),
            ("applications", "argoproj.io", "Application"),
            ("workspaces", "tenancy.kcp.dev", "Workspace"),
        ] {
            client.post(DEFINITIONS, definition(plural, group, kind)).await.expect(201);
            let path = format!("/apis/{group}/v1alpha1/{plural}");
            let object = json!({ "apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": { "name": "own" } });
            client.post(&path, object).await.expect(201);
        }
    }
    // The dialect cannot be enabled where a tenant has defined such a kind, in the workspace or below it.
    for workspace in ["root:beside", "root"] {
        let complaint = fail(&mut enable(&server, workspace));
        assert!(
            complaint.contains("the workspace root:beside has a CustomResourceDefinition"),
            "{complaint}"
        );
    }
    for plural in ["clusters", "workloadclusters"] {
        let name = format!("{plural}.workload.kcp.dev");
        beside.delete(&format!("{DEFINITIONS}/{name}")).await.expect(200);
        wait_until_deleted(&beside, &name).await;
    }
    succeed(&mut enable(&server, "root:beside"));
}

/// A tenant creates a Cluster that names a Secret, and deletes its definition in ways that leave the Cluster
/// behind.
#[tokio::test(flavor = "multi_thread")]
async fn dialect_does_not_take_over_objects_of_a_tenant() {
    let server = TenantServer::start(&["owner"], &[]);
    let admin = server.admin();
    let name = "clusters.workload.kcp.dev";
    let own = format!("{DEFINITIONS}/{name}");
    // The status is emptied, or the finalizer is removed while an object still has one.
    for (workspace_name, is_silenced, is_forced) in [("silenced", true, false), ("forced", false, true)] {
        create_tenant_workspace(&admin, "root", workspace_name, "owner").await;
        let path = format!("root:{workspace_name}");
        let owner = server.user("owner", &path);
        owner.post(DEFINITIONS, definition("clusters", "workload.kcp.dev", "Cluster")).await.expect(201);
        let mut planted = json!({
            "apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "planted", "annotations": { POINTER: "precious" } },
        });
        if is_forced {
            planted["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        owner.post(CLUSTERS, planted).await.expect(201);
        if is_silenced {
            let mut silent = owner.get(&own).await.expect(200);
            silent["status"]["conditions"] = json!([]);
            owner.put(&format!("{own}/status"), silent).await.expect(200);
        }
        owner.delete(&own).await.expect(200);
        if is_forced {
            owner.merge(&own, json!({ "metadata": { "finalizers": null } })).await.expect(200);
        }
        wait_until_deleted(&owner, name).await;
        if is_forced {
            let complaint = fail(&mut enable(&server, &path));
            let expected = format!("the workspace {path} still has {name} such as planted");
            assert!(complaint.contains(&expected), "{complaint}");
            // The hint in the message solves the problem.
            owner.post(DEFINITIONS, definition("clusters", "workload.kcp.dev", "Cluster")).await.expect(201);
            let free = json!({ "metadata": { "finalizers": null } });
            owner.merge(&format!("{CLUSTERS}/planted"), free).await.expect(200);
            owner.delete(&own).await.expect(200);
            wait_until_deleted(&owner, name).await;
        }
        succeed(&mut enable(&server, &path));
        assert_eq!(names(&owner.get(CLUSTERS).await.expect(200)), [""; 0], "{workspace_name}");
    }
}

/// Each workspace has its own definition of the same resource, in another version and with another scope.
#[tokio::test(flavor = "multi_thread")]
async fn workspaces_define_the_same_resource_independently() {
    let server = TenantServer::start(&["owner", "other"], &[]);
    let admin = server.admin();
    let cluster = json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } });
    let labels = json!({ "workloads.kcp.dev/cluster": "east" });
    let mut placed = Vec::new();
    for (number, name) in ["one", "two", "three"].into_iter().enumerate() {
        let path = format!("root:{name}");
        create_tenant_workspace(&admin, "root", name, "owner").await;
        succeed(&mut enable(&server, &path));
        let tenant = server.user("owner", &path);
        tenant.post("/apis/atoll.dev/v1alpha1/clusters", &cluster).await.expect(201);
        let mut definition = definition("widgets", "example.com", "Widget");
        let (version, is_namespaced) = (format!("v{}", number + 1), number != 1);
        definition["spec"]["versions"][0]["name"] = version.clone().into();
        if is_namespaced {
            definition["spec"]["scope"] = "Namespaced".into();
        }
        tenant.post(DEFINITIONS, definition).await.expect(201);
        let namespace = if is_namespaced { "namespaces/default/" } else { "" };
        let path = format!("/apis/example.com/{version}/{namespace}widgets");
        let object = json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": { "name": "a", "labels": labels },
        });
        eventually("the resource is served", async || tenant.get(&path).await.status == 200).await;
        tenant.post(&path, object).await.expect(201);
        placed.push((tenant, format!("{path}/a")));
    }
    for (tenant, path) in &placed {
        eventually(&format!("the label of {path} is followed"), async || {
            let found = tenant.get(path).await.expect(200);
            found["metadata"]["annotations"]["atoll.dev/placement"].is_string()
        })
        .await;
    }
}
