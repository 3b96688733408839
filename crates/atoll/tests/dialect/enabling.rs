//! A dialect is spoken where it was enabled and below, and nowhere else.

use serde_json::{Value, json};

use crate::support::process::Atoll;
use crate::{CLUSTERS, KCP, cluster, refuses, says};

fn resources(list: &Value) -> Vec<String> {
    let resources = list["resources"].as_array().unwrap().iter();
    resources.map(|resource| resource["name"].as_str().unwrap().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_and_those_below_it_speak() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    for line in [
        "workspace create org --use",
        "workspace create team",
        "workspace use root",
        "workspace create other",
    ] {
        says(&server, line);
    }
    let (org, team, other) =
        (admin.workspace("root:org"), admin.workspace("root:org:team"), admin.workspace("root:other"));
    assert!(says(&server, "dialect list").contains("no"));
    org.get(CLUSTERS).await.expect_status_code(404);

    let said = says(&server, "dialect enable kcp --workspace root:org");
    assert!(said.contains("root:org now speaks kcp"), "{said}");
    assert!(says(&server, "dialect enable kcp --workspace org").contains("already"));
    assert!(says(&server, "dialect list --workspace root:org:team").contains("yes, by root:org"));
    for access in [&org, &team] {
        let list = access.get(KCP).await.expect(200);
        let expected = ["clusters", "clusters/status", "workloadclusters", "workloadclusters/status"];
        assert_eq!(resources(&list), expected);
        for (plural, kind) in [("clusters", "Cluster"), ("workloadclusters", "WorkloadCluster")] {
            let path = format!("{KCP}/{plural}");
            let made = access.post(&path, cluster(kind, "a", "")).await.expect(201);
            assert_eq!(made["spec"], json!({ "kubeconfig": "", "unschedulable": false }));
            let mut wrong = cluster(kind, "b", "");
            wrong["spec"]["unschedulable"] = "maybe".into();
            access.post(&path, wrong).await.expect_status(422, "Invalid");
        }
        let schema = access.get("/openapi/v3/apis/workload.kcp.dev/v1alpha1").await.expect(200);
        assert!(schema["components"]["schemas"]["dev.kcp.workload.v1alpha1.WorkloadCluster"].is_object());
    }
    for access in [&admin, &other] {
        access.get(CLUSTERS).await.expect_status_code(404);
        let groups = access.get("/apis").await.expect(200).to_string();
        assert!(!groups.contains("workload.kcp.dev"));
    }
    // Both are listed together, for those who may see all.
    let all = admin.workspace("*").get(CLUSTERS).await.expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 2);

    let complaint = refuses(&server, "dialect disable kcp --workspace root:org:team");
    assert!(complaint.contains("because root:org does"), "{complaint}");
    let complaint = refuses(&server, "dialect disable kcp --workspace root:org");
    assert!(complaint.contains("root:org has clusters") && complaint.contains("hint: "), "{complaint}");
    for plural in ["clusters", "workloadclusters"] {
        org.delete(&format!("{KCP}/{plural}/a")).await.expect(200);
    }
    let complaint = refuses(&server, "dialect disable kcp --workspace root:org");
    assert!(complaint.contains("root:org:team has clusters"), "{complaint}");
    for plural in ["clusters", "workloadclusters"] {
        team.delete(&format!("{KCP}/{plural}/a")).await.expect(200);
    }
    let said = says(&server, "dialect disable kcp --workspace root:org");
    assert!(said.contains("no longer speaks kcp"), "{said}");
    org.get(CLUSTERS).await.expect_status_code(404);
    assert!(says(&server, "dialect disable kcp --workspace root:org").contains("does not speak"));
    let complaint = refuses(&server, "dialect enable kcp --workspace root:nowhere");
    assert!(complaint.contains("nowhere"), "{complaint}");
}

/// kcp's demos bring the definition along.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_of_ones_own_comes_first() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    says(&server, "dialect enable kcp");
    let schema = json!({
        "type": "object",
        "properties": { "spec": {
            "type": "object", "required": ["kubeconfig"],
            "properties": { "kubeconfig": { "type": "string" }, "extra": { "type": "string" } },
        } },
    });
    let names = json!({
        "plural": "workloadclusters", "singular": "workloadcluster", "kind": "WorkloadCluster",
        "listKind": "WorkloadClusterList",
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "workloadclusters.workload.kcp.dev" },
        "spec": {
            "group": "workload.kcp.dev", "scope": "Cluster", "names": names,
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    });
    admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let mut object = cluster("WorkloadCluster", "a", &crate::kubeconfig("s3cr3t"));
    object["spec"]["extra"] = "x".into();
    let made = admin.post(&format!("{KCP}/workloadclusters"), object).await.expect(201);
    assert_eq!(made["spec"], json!({ "kubeconfig": "", "extra": "x" }));
    assert_eq!(resources(&admin.get(KCP).await.expect(200)).len(), 3, "both, and the status of one");
}
