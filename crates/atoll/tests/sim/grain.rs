//! Grain `pod`, set by a namespace or by its workspace, and workloads with grain `object`.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Process, atoll, succeed};
use serde_json::{Value, json};

use crate::nodes::deployment;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const VOLUMES: &str = "/api/v1/persistentvolumes";

fn volume(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "plain",
            "hostPath": { "path": "/tmp/somewhere" },
        },
    })
}

fn claim(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "plain",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    })
}

async fn phase(client: &Client, path: &str) -> String {
    let found = client.get(path).await.expect(200);
    found["status"]["phase"].as_str().unwrap_or_default().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_sets_the_grain() {
    let server = Atoll::start();
    let kubeconfig = server.kubeconfig();
    let line = ["sim", "nodes", "--kubeconfig", kubeconfig.to_str().unwrap(), "--nodes", "2", "--scheduler"];
    let running = Process::start(&mut atoll(&line), "Simulating 2 nodes at https://").unwrap();
    let admin = server.admin();
    let namespace = json!({ "metadata": { "name": "here", "labels": { "atoll.dev/grain": "pod" } } });
    admin.post("/api/v1/namespaces", namespace).await.expect(201);
    let deployments = "/apis/apps/v1/namespaces/here/deployments";
    admin.post(DEPLOYMENTS, deployment("whole", "whole:1", 2)).await.expect(201);
    admin.post(deployments, deployment("web", "web:1", 2)).await.expect(201);
    eventually("all replicas are available", async || {
        admin.get(&format!("{deployments}/web")).await.expect(200)["status"]["availableReplicas"] == 2
    })
    .await;
    // The grain is decided at creation and does not change later.
    let relabelled = json!({ "metadata": { "labels": { "atoll.dev/grain": "object" } } });
    admin.merge("/api/v1/namespaces/here", relabelled).await.expect(200);
    let mut changed = deployment("web", "web:2", 3);
    changed["metadata"]["annotations"] = Value::Null;
    admin.merge(&format!("{deployments}/web"), changed).await.expect(200);
    eventually("all updated replicas are available", async || {
        let status = &admin.get(&format!("{deployments}/web")).await.expect(200)["status"];
        status["updatedReplicas"] == 3 && status["availableReplicas"] == 3 && status["replicas"] == 3
    })
    .await;
    let whole = admin.get(&format!("{DEPLOYMENTS}/whole")).await.expect(200);
    assert_eq!(whole["status"], json!({}), "workloads with grain object must have no status");
    assert_eq!(admin.get(PODS).await.expect(200)["items"], json!([]));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_sets_the_grain() {
    let server = Atoll::start();
    let admin = server.admin();
    let kubeconfig = server.kubeconfig();
    let at = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    succeed(&mut atoll(&[&["workspace", "create", "other"], &at[..]].concat()));
    succeed(&mut atoll(&[&["workspace", "create", "team", "--use", "--grain", "pod"], &at[..]].concat()));
    let line = [&["sim", "nodes"], &at[..], &["--nodes", "2", "--scheduler"]].concat();
    let running = Process::start(&mut atoll(&line), "Simulating 2 nodes at https://").unwrap();
    let (team, other) = (admin.workspace("root:team"), admin.workspace("root:other"));
    let namespace = json!({ "metadata": { "name": "elsewhere", "labels": { "atoll.dev/grain": "object" } } });
    team.post("/api/v1/namespaces", namespace).await.expect(201);
    let elsewhere = "/apis/apps/v1/namespaces/elsewhere/deployments";
    team.post(elsewhere, deployment("whole", "whole:1", 2)).await.expect(201);
    other.post(DEPLOYMENTS, deployment("whole", "whole:1", 2)).await.expect(201);
    team.post(DEPLOYMENTS, deployment("web", "web:1", 2)).await.expect(201);
    let available = async |name: &str| {
        let found = team.get(&format!("{DEPLOYMENTS}/{name}")).await.expect(200);
        found["status"]["availableReplicas"].as_u64().unwrap_or(0)
    };
    eventually("all replicas are available", async || available("web").await == 2).await;
    let whole = json!({});
    assert_eq!(team.get(&format!("{elsewhere}/whole")).await.expect(200)["status"], whole);
    assert_eq!(other.get(&format!("{DEPLOYMENTS}/whole")).await.expect(200)["status"], whole);
    assert_eq!(other.get("/api/v1/pods").await.expect(200)["items"], json!([]));

    // The workspace may change its grain: existing workloads keep theirs. Volumes belong to no namespace.
    let path = "/apis/atoll.dev/v1alpha1/workspaces/team";
    team.post(VOLUMES, volume("ours")).await.expect(201);
    eventually("the volume is available", async || {
        phase(&team, &format!("{VOLUMES}/ours")).await == "Available"
    })
    .await;
    admin.merge(path, json!({ "spec": { "grain": "object" } })).await.expect(200);
    team.post(DEPLOYMENTS, deployment("late", "late:1", 1)).await.expect(201);
    admin.merge(path, json!({ "spec": { "grain": "pod" } })).await.expect(200);
    team.post(DEPLOYMENTS, deployment("later", "later:1", 1)).await.expect(201);
    eventually("the last one is available", async || available("later").await == 1).await;
    assert_eq!(team.get(&format!("{DEPLOYMENTS}/late")).await.expect(200)["status"], whole);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_grains_are_rejected() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    let supported = "supported values: \"object\", \"pod\"";
    let namespace = json!({ "metadata": { "name": "here", "labels": { "atoll.dev/grain": "pods" } } });
    let refused = admin.post("/api/v1/namespaces", namespace).await.expect(422);
    let message =
        "Namespace \"here\" is invalid: metadata.labels[atoll.dev/grain]: Unsupported value: \"pods\"";
    assert_eq!(refused["message"], format!("{message}: {supported}"));
    let workspaces = "/apis/atoll.dev/v1alpha1/workspaces";
    let workspace = |grain: &str| json!({ "metadata": { "name": "team" }, "spec": { "grain": grain } });
    let message = "Workspace.atoll.dev \"team\" is invalid: spec.grain: Unsupported value: \"pods\"";
    let refused = admin.post(workspaces, workspace("pods")).await.expect(422);
    assert_eq!(refused["message"], format!("{message}: {supported}"));
    admin.post(workspaces, workspace("pod")).await.expect(201);
    let refused = admin.merge(&format!("{workspaces}/team"), workspace("pods")).await.expect(422);
    assert_eq!(refused["message"], format!("{message}: {supported}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_bound_for_grain_pod_only() {
    let server = Atoll::start();
    let admin = server.admin();
    let namespace = json!({ "metadata": { "name": "here", "labels": { "atoll.dev/grain": "pod" } } });
    admin.post("/api/v1/namespaces", namespace).await.expect(201);
    let (placed_claims, local_claims) = (
        "/api/v1/namespaces/default/persistentvolumeclaims",
        "/api/v1/namespaces/here/persistentvolumeclaims",
    );
    for name in ["one", "two", "three"] {
        admin.post(VOLUMES, volume(name)).await.expect(201);
    }
    admin.post(placed_claims, claim("placed")).await.expect(201);
    admin.post(local_claims, claim("first")).await.expect(201);
    let bound = async |path: &str| phase(&admin, path).await == "Bound";
    eventually("the claim is bound", async || bound(&format!("{local_claims}/first")).await).await;

    // A pod that is created above gets its claim bound in any namespace.
    admin.post(placed_claims, claim("used")).await.expect(201);
    let pod = json!({
        "metadata": { "name": "user" },
        "spec": {
            "containers": [{ "name": "main", "image": "user:1" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "used" } }],
        },
    });
    // The pod is rejected until its namespace has a ServiceAccount.
    eventually("the pod is created", async || admin.post(PODS, pod.clone()).await.status == 201).await;
    eventually("the pod's claim is bound", async || bound(&format!("{placed_claims}/used")).await).await;
    let placed = admin.get(&format!("{placed_claims}/placed")).await.expect(200);
    assert!(placed["spec"]["volumeName"].is_null(), "{placed}");

    // Released when its claim is deleted.
    let first = admin.get(&format!("{local_claims}/first")).await.expect(200);
    let volume = format!("{VOLUMES}/{}", first["spec"]["volumeName"].as_str().unwrap());
    admin.delete(&format!("{local_claims}/first")).await.expect(200);
    eventually("the volume is released", async || phase(&admin, &volume).await == "Released").await;
}
