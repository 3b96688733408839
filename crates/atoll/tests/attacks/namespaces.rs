//! A tenant cannot use anything that belongs to the owner of a member cluster.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup, Watch, atoll, succeed};
use serde_json::{Value, json};

use crate::support::config_map_with;

const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Creates a workspace and a user who is cluster-admin in it and has no rights elsewhere.
async fn tenant(admin: &Client, parent: &str, name: &str) -> Client {
    let above = admin.workspace(parent);
    above.post(WORKSPACES, json!({ "metadata": { "name": name } })).await.expect(201);
    let workspace = admin.workspace(&format!("{parent}:{name}"));
    let binding = json!({
        "metadata": { "name": "mallory" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory" }],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    workspace.post(bindings, binding).await.expect(201);
    workspace.acting_as("mallory", &["system:authenticated"])
}

async fn workspace_id(admin: &Client, name: &str) -> String {
    let workspace = admin.get(&format!("{WORKSPACES}/{name}")).await.expect(200);
    workspace["status"]["id"].as_str().unwrap().to_string()
}

fn join(above: &Atoll, name: &str, cluster: &Atoll) {
    let mut command = atoll(&["cluster", "join", name]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    succeed(command.arg("--control-plane-kubeconfig").arg(above.kubeconfig()));
}

/// Returns a Deployment that uses a ServiceAccount and a Secret of the cluster's owner.
fn deployment_using_owner_objects(name: &str, pod: Value) -> Value {
    let mut spec = json!({
        "serviceAccountName": "owner",
        "containers": [{ "name": "a", "image": "a", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
        "volumes": [{ "name": "v", "secret": { "secretName": "owner" } }],
    });
    for (field, value) in pod.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": spec },
        },
    })
}

fn privileged_pod() -> Value {
    json!({
        "hostPID": true,
        "containers": [{ "name": "a", "image": "a", "securityContext": { "privileged": true } }],
    })
}

fn placement_on(cluster: &str) -> Value {
    json!({ "spec": { "clusters": [{ "name": cluster }] } })
}

/// Returns the namespaces below that stand for a namespace of a workspace.
async fn namespaces(below: &Client, workspace: &str, namespace: &str) -> Vec<Value> {
    let list = below.get("/api/v1/namespaces").await.expect(200);
    let stands = |found: &&Value| {
        let printed = found["metadata"]["annotations"]["atoll.dev/namespace"].as_str().unwrap_or("{}");
        let printed: Value = serde_json::from_str(printed).unwrap();
        printed["workspace"] == workspace && printed["namespace"] == namespace
    };
    list["items"].as_array().unwrap().iter().filter(stands).cloned().collect()
}

/// Waits until the only namespace that stands for a namespace of a workspace contains an object.
async fn wait_for_mapped_namespace(
    below: &Client,
    workspace: &str,
    namespace: &str,
    resource: &str,
) -> Value {
    let mut arrived = None;
    eventually(&format!("{resource} of {namespace} exists below"), async || {
        for found in namespaces(below, workspace, namespace).await {
            let name = found["metadata"]["name"].as_str().unwrap();
            let path = resource.replace("NAMESPACE", name);
            if below.get(&path).await.status == 200 {
                arrived = Some(found);
                return true;
            }
        }
        false
    })
    .await;
    arrived.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_tenant_do_not_run_in_namespaces_of_the_cluster_owner() {
    // A scheduler would place them before the test does.
    let above = Setup::new().flag("--controllers", "*,-placementscheduler").start();
    let east = Atoll::simulate(&["--nodes", "2"]);
    let (admin, below) = (above.admin(), east.admin());
    below
        .post("/api/v1/namespaces/default/serviceaccounts", json!({ "metadata": { "name": "owner" } }))
        .await
        .expect(201);
    let secret = json!({ "metadata": { "name": "owner" }, "stringData": { "password": "hunter2" } });
    below.post("/api/v1/namespaces/default/secrets", secret).await.expect(201);
    for name in ["shop", "lab", "yard"] {
        below.post("/api/v1/namespaces", json!({ "metadata": { "name": name } })).await.expect(201);
    }
    join(&above, "east", &east);
    let team = tenant(&admin, "root", "team").await;
    let team_id = workspace_id(&admin, "team").await;

    // Privileged pods are rejected above, and nothing is sent to the cluster.
    team.post(DEPLOYMENTS, deployment_using_owner_objects("hostile", privileged_pod())).await.expect(201);
    let refused = team.merge(&format!("{DEPLOYMENTS}/hostile/placement"), placement_on("east")).await;
    let refused = refused.expect_status(403, "Forbidden");
    assert!(
        refused.contains("violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true), privileged (container \"a\"")
            && refused.contains("cluster east requires this level"),
        "{refused}"
    );
    // Unprivileged pods run in a mapped namespace, in which the owner's account and Secret do not exist.
    team.post(DEPLOYMENTS, deployment_using_owner_objects("quiet", json!({}))).await.expect(201);
    team.merge(&format!("{DEPLOYMENTS}/quiet/placement"), placement_on("east")).await.expect(200);
    let path = "/apis/apps/v1/namespaces/NAMESPACE/deployments/quiet";
    let namespace = wait_for_mapped_namespace(&below, &team_id, "default", path).await;
    let name = namespace["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("default-"), "{namespace}");
    assert_eq!(namespace["metadata"]["labels"][ENFORCE], "baseline", "{namespace}");
    for gone in ["serviceaccounts/owner", "secrets/owner"] {
        below.get(&format!("/api/v1/namespaces/{name}/{gone}")).await.expect_status(404, "NotFound");
    }
    let in_owner_namespace = below.get(DEPLOYMENTS).await.expect(200);
    assert_eq!(in_owner_namespace["items"], json!([]), "nothing of the tenant is in the owner's namespace");
    // Later changes are checked as well.
    let later = json!({ "spec": { "template": { "spec": { "hostPID": true } } } });
    team.merge(&format!("{DEPLOYMENTS}/quiet"), later).await.expect_status(403, "Forbidden");
    // The namespace below would reject such pods too.
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "hostPID": true, "containers": [{ "name": "a", "image": "a" }] },
    });
    eventually("the namespace has an account", async || {
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        below.get(&path).await.status == 200
    })
    .await;
    let refused = below.post(&format!("/api/v1/namespaces/{name}/pods"), pod).await;
    refused.expect_status(403, "Forbidden");

    // An existing namespace is used only by the workspace that its label names.
    for (namespace, label) in [("lab", team_id.as_str()), ("yard", "another")] {
        let patch = json!({ "metadata": { "labels": { "atoll.dev/workspace": label } } });
        below.merge(&format!("/api/v1/namespaces/{namespace}"), patch).await.expect(200);
    }
    for (namespace, is_plain) in [("shop", false), ("lab", true), ("yard", false)] {
        team.post("/api/v1/namespaces", json!({ "metadata": { "name": namespace } })).await.expect(201);
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        team.post(&maps, config_map_with("a", "1")).await.expect(201);
        team.merge(&format!("{maps}/a/placement"), placement_on("east")).await.expect(200);
        let path = "/api/v1/namespaces/NAMESPACE/configmaps/a";
        let found = wait_for_mapped_namespace(&below, &team_id, namespace, path).await;
        assert_eq!(found["metadata"]["name"] == namespace, is_plain, "{found}");
    }
    // The registering workspace uses plain names, even if another workspace uses the cluster too.
    let maps = "/api/v1/namespaces/default/configmaps";
    admin.post(maps, config_map_with("own", "1")).await.expect(201);
    admin.merge(&format!("{maps}/own/placement"), placement_on("east")).await.expect(200);
    let found =
        wait_for_mapped_namespace(&below, "root", "default", "/api/v1/namespaces/NAMESPACE/configmaps/own")
            .await;
    assert_eq!(found["metadata"]["name"], "default");
    assert_pod_security_labels_are_copied(&admin, &team, &below, &team_id).await;
}

/// Pod Security labels of a namespace above are copied to the namespace created for it, and the stricter
/// level wins.
async fn assert_pod_security_labels_are_copied(admin: &Client, team: &Client, below: &Client, team_id: &str) {
    let label = |level: Option<&str>| json!({ "metadata": { "labels": { ENFORCE: level } } });
    let becomes = async |expected: &str| {
        eventually(&format!("the namespace enforces {expected}"), async || {
            let found = namespaces(below, team_id, "shop").await;
            found.iter().all(|found| found["metadata"]["labels"][ENFORCE] == expected)
        })
        .await;
    };
    becomes("baseline").await;
    team.merge("/api/v1/namespaces/shop", label(Some("restricted"))).await.expect(200);
    becomes("restricted").await;
    team.merge("/api/v1/namespaces/shop", label(Some("privileged"))).await.expect(200);
    becomes("baseline").await;
    let level = json!({ "spec": { "podSecurity": "restricted" } });
    admin.merge(&format!("{CLUSTERS}/east"), level).await.expect(200);
    becomes("restricted").await;
}

/// A mapping from before names were mapped is kept, and a condition tells the administrator about it.
#[tokio::test(flavor = "multi_thread")]
async fn mappings_of_older_versions_are_kept_and_reported() {
    let (above, east) = (Atoll::start(), Atoll::simulate(&["--nodes", "0"]));
    let (admin, below) = (above.admin(), east.admin());
    let team = tenant(&admin, "root", "team").await;
    let team_id = workspace_id(&admin, "team").await;
    let plane = admin.get("/api/v1/namespaces/kube-system").await.expect(200)["metadata"]["uid"].clone();
    let locator = json!({ "controlPlane": plane, "workspace": team_id, "namespace": "old" }).to_string();
    let made = json!({ "metadata": {
        "name": "old", "labels": { "atoll.dev/control-plane": plane },
        "annotations": { "atoll.dev/namespace": locator },
    } });
    below.post("/api/v1/namespaces", made).await.expect(201);
    join(&above, "east", &east);
    team.post("/api/v1/namespaces", json!({ "metadata": { "name": "old" } })).await.expect(201);
    let maps = "/api/v1/namespaces/old/configmaps";
    team.post(maps, config_map_with("a", "1")).await.expect(201);
    team.merge(&format!("{maps}/a/placement"), placement_on("east")).await.expect(200);
    let found =
        wait_for_mapped_namespace(&below, &team_id, "old", "/api/v1/namespaces/NAMESPACE/configmaps/a").await;
    assert_eq!(found["metadata"]["name"], "old");
    assert_eq!(
        found["metadata"]["labels"][ENFORCE],
        Value::Null,
        "no enforcement, so that running pods can be replaced"
    );
    let condition = async || {
        let cluster = admin.get(&format!("{CLUSTERS}/east")).await.expect(200);
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "NamespacesMapped")
    };
    let mut printed = None;
    eventually("the mapping is listed", async || {
        printed = condition().await;
        printed.is_some()
    })
    .await;
    let printed = printed.unwrap();
    let message = printed["message"].as_str().unwrap();
    assert_eq!(printed["status"], "False");
    assert!(message.contains("old by root:team"), "{message}");
    assert!(message.contains(&format!("label namespace old atoll.dev/workspace={team_id}")), "{message}");
    // The owner allows it.
    let patch = json!({ "metadata": { "labels": { "atoll.dev/workspace": team_id } } });
    below.merge("/api/v1/namespaces/old", patch).await.expect(200);
    eventually("the condition is removed", async || condition().await.is_none()).await;

    // The owner takes the namespace back: nothing more is written to it.
    let patch = json!({ "metadata": {
        "labels": { "atoll.dev/workspace": null }, "annotations": { "atoll.dev/namespace": null },
    } });
    below.merge("/api/v1/namespaces/old", patch).await.expect(200);
    team.post(maps, config_map_with("b", "1")).await.expect(201);
    team.merge(&format!("{maps}/b/placement"), placement_on("east")).await.expect(200);
    let found = async || namespaces(&below, &team_id, "old").await;
    eventually("the object is in a mapped namespace", async || {
        let found = found().await;
        let name = found.first().and_then(|found| found["metadata"]["name"].as_str()).unwrap_or_default();
        below.get(&format!("/api/v1/namespaces/{name}/configmaps/b")).await.status == 200
    })
    .await;
    assert!(found().await[0]["metadata"]["name"].as_str().unwrap().starts_with("old-"));
    below.get("/api/v1/namespaces/old/configmaps/b").await.expect_status(404, "NotFound");
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_serves_the_workspaces_of_its_spec() {
    let above = Setup::new().flag("--controllers", "kcpplacement").start();
    let admin = above.admin();
    let org = tenant(&admin, "root", "org").await;
    let team = tenant(&admin, "root:org", "team").await;
    let other = tenant(&admin, "root", "other").await;
    let cluster =
        json!({ "metadata": { "name": "east" }, "spec": { "mode": "none", "workspaces": ["org:team"] } });
    admin.post(CLUSTERS, cluster).await.expect(201);
    let maps = "/api/v1/namespaces/default/configmaps";
    for client in [&admin, &org, &team, &other] {
        for name in ["a", "b"] {
            client.post(maps, config_map_with(name, "1")).await.expect(201);
        }
    }
    let placement = |name: &str| format!("{maps}/{name}/placement");
    for client in [&admin, &team] {
        client.merge(&placement("a"), placement_on("east")).await.expect(200);
    }
    for (client, path) in [(&org, "org"), (&other, "other")] {
        let refused = client.merge(&placement("a"), placement_on("east")).await.expect_status(422, "Invalid");
        let expected = format!(
            "spec.clusters[0].name: Forbidden: the cluster does not serve workspace {path}; an administrator of the workspace \
             in which the cluster is registered adds it to spec.workspaces of the Cluster"
        );
        assert!(refused.contains(&expected), "{refused}");
    }
    // A workspace that is removed from the list keeps its existing objects and gets nothing new.
    let spec = |workspaces: Value| json!({ "spec": { "workspaces": workspaces } });
    admin.merge(&format!("{CLUSTERS}/east"), spec(json!(["other"]))).await.expect(200);
    team.merge(&placement("a"), placement_on("east")).await.expect(200);
    team.merge(&placement("b"), placement_on("east")).await.expect_status(422, "Invalid");
    other.merge(&placement("a"), placement_on("east")).await.expect(200);
    // A label of a dialect can do no more than a placement.
    succeed(atoll(&["dialect", "enable", "kcp"]).arg("--kubeconfig").arg(above.kubeconfig()));
    let labelled = |name: &str| {
        let mut map = config_map_with(name, "1");
        map["metadata"]["labels"] = json!({ "workloads.kcp.dev/cluster": "east" });
        map
    };
    team.post(maps, labelled("labelled")).await.expect(201);
    other.post(maps, labelled("labelled")).await.expect(201);
    let placed = async |client: &Client| {
        let map = client.get(&format!("{maps}/labelled")).await.expect(200);
        map["metadata"]["annotations"]["atoll.dev/placement"].is_string()
    };
    eventually("the label takes effect in the served workspace", async || placed(&other).await).await;
    assert!(!placed(&team).await, "not placed after a later object was handled");
    admin.merge(&format!("{CLUSTERS}/east"), spec(Value::Null)).await.expect(200);
    eventually("without a list, all workspaces are served", async || placed(&team).await).await;
    team.merge(&placement("b"), placement_on("east")).await.expect(200);
    let wrong = spec(json!(["root:"]));
    admin.merge(&format!("{CLUSTERS}/east"), wrong).await.expect_status(422, "Invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn placed_pods_meet_the_pod_security_level_of_the_cluster() {
    let above = Atoll::start_bare();
    let admin = above.admin();
    let team = tenant(&admin, "root", "team").await;
    admin
        .post(CLUSTERS, json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } }))
        .await
        .expect(201);
    let template = json!({
        "metadata": { "labels": { "app": "a" } },
        "spec": { "hostPID": true, "restartPolicy": "Always", "containers": [{ "name": "a", "image": "a" }] },
    });
    let selected = json!({ "selector": { "matchLabels": { "app": "a" } }, "template": template });
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let kinds = [
        ("/apis/apps/v1/namespaces/default/deployments", selected.clone()),
        ("/apis/apps/v1/namespaces/default/replicasets", selected.clone()),
        ("/apis/apps/v1/namespaces/default/daemonsets", selected.clone()),
        ("/apis/apps/v1/namespaces/default/statefulsets", selected),
        ("/apis/batch/v1/namespaces/default/jobs", json!({ "template": once })),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({ "schedule": "@daily", "jobTemplate": { "spec": { "template": once } } }),
        ),
    ];
    for (path, spec) in &kinds {
        for client in [&admin, &team] {
            client.post(path, json!({ "metadata": { "name": "w" }, "spec": spec })).await.expect(201);
        }
        let refused = team.merge(&format!("{path}/w/placement"), placement_on("east")).await;
        let refused = refused.expect_status(403, "Forbidden");
        assert!(
            refused.contains("violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"),
            "{refused}"
        );
        admin.merge(&format!("{path}/w/placement"), placement_on("east")).await.expect(200);
    }
    // A cluster may require a lower level and later a higher one: existing objects stay, and new ones have to
    // meet it.
    let level = |level: &str| json!({ "spec": { "podSecurity": level } });
    let east = format!("{CLUSTERS}/east");
    admin.merge(&east, level("privileged")).await.expect(200);
    for (path, _) in &kinds {
        team.merge(&format!("{path}/w/placement"), placement_on("east")).await.expect(200);
    }
    admin.merge(&east, level("restricted")).await.expect(200);
    let web = format!("{DEPLOYMENTS}/w");
    for client in [&admin, &team] {
        client.merge(&web, json!({ "spec": { "replicas": 3 } })).await.expect(200);
        client.merge(&format!("{web}/placement"), placement_on("east")).await.expect(200);
        let image = json!({ "spec": { "template": { "metadata": { "labels": { "more": "1" } } } } });
        let refused = client.merge(&web, image).await.expect_status(403, "Forbidden");
        assert!(refused.contains("violates PodSecurity \"restricted:latest\""), "{refused}");
    }
    admin.merge(&east, level("lax")).await.expect_status(422, "Invalid");
    // A namespace above may require a higher level than the cluster.
    admin.merge(&east, level("privileged")).await.expect(200);
    let strict = json!({ "metadata": { "name": "strict", "labels": { ENFORCE: "baseline" } } });
    team.post("/api/v1/namespaces", strict).await.expect(201);
    let path = "/apis/apps/v1/namespaces/strict/deployments";
    team.post(path, deployment_using_owner_objects("hostile", privileged_pod())).await.expect(201);
    let refused = team.merge(&format!("{path}/hostile/placement"), placement_on("east")).await;
    refused.expect_status(403, "Forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_take_no_precedence_over_the_owner_of_a_cluster() {
    let above = Atoll::start_bare();
    let admin = above.admin();
    let team = tenant(&admin, "root", "team").await;
    let cluster = json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } });
    admin.post(CLUSTERS, cluster).await.expect(201);
    let cases = [
        ("node", json!({ "priorityClassName": "system-node-critical" }), "priority class"),
        ("cluster", json!({ "priorityClassName": "system-cluster-critical" }), "priority class"),
        ("pinned", json!({ "nodeName": "control-plane" }), "sets spec.nodeName"),
    ];
    let template = |pod: &Value| json!({ "spec": { "template": { "spec": pod } } });
    for (name, pod, reason) in &cases {
        let web = format!("{DEPLOYMENTS}/{name}");
        for client in [&admin, &team] {
            client.post(DEPLOYMENTS, deployment_using_owner_objects(name, pod.clone())).await.expect(201);
        }
        let refused = team.merge(&format!("{web}/placement"), placement_on("east")).await;
        let refused = refused.expect_status(403, "Forbidden");
        assert!(refused.contains(reason) && refused.contains("spec.podSecurity of the Cluster"), "{refused}");
        admin.merge(&format!("{web}/placement"), placement_on("east")).await.expect(200);
        // Neither does a later change of the template.
        let later = format!("{DEPLOYMENTS}/later-{name}");
        let plain = deployment_using_owner_objects(&format!("later-{name}"), json!({}));
        team.post(DEPLOYMENTS, plain).await.expect(201);
        team.merge(&format!("{later}/placement"), placement_on("east")).await.expect(200);
        let refused = team.merge(&later, template(pod)).await.expect_status(403, "Forbidden");
        assert!(refused.contains(reason), "{refused}");
    }
    // The owner may allow it. Objects that are placed stay when the owner no longer does.
    let level = |level: Value| json!({ "spec": { "podSecurity": level } });
    admin.merge(&format!("{CLUSTERS}/east"), level("privileged".into())).await.expect(200);
    for (name, pod, _) in &cases {
        team.merge(&format!("{DEPLOYMENTS}/{name}/placement"), placement_on("east")).await.expect(200);
        team.merge(&format!("{DEPLOYMENTS}/later-{name}"), template(pod)).await.expect(200);
    }
    admin.merge(&format!("{CLUSTERS}/east"), level(Value::Null)).await.expect(200);
    let web = format!("{DEPLOYMENTS}/node");
    team.merge(&web, json!({ "spec": { "replicas": 3 } })).await.expect(200);
    team.merge(&format!("{web}/placement"), placement_on("east")).await.expect(200);
    team.merge(&web, template(&json!({ "nodeName": "other" }))).await.expect_status(403, "Forbidden");
}

/// Fields without a manager are not sent to clusters: omitting them must not weaken a Pod that was admitted.
#[tokio::test(flavor = "multi_thread")]
async fn fields_that_are_not_sent_are_ignored_by_the_pod_security_check() {
    let above = Atoll::start_bare();
    let admin = above.admin();
    let team = tenant(&admin, "root", "team").await;
    let cluster =
        json!({ "metadata": { "name": "east" }, "spec": { "mode": "none", "podSecurity": "restricted" } });
    admin.post(CLUSTERS, cluster).await.expect(201);
    let container = json!({
        "name": "a", "image": "a",
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
    });
    let pod = json!({
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [container],
    });
    let created = team.post(DEPLOYMENTS, deployment_using_owner_objects("sly", pod)).await.expect(201);
    let mut sly = created.clone();
    for entry in sly["metadata"]["managedFields"].as_array_mut().unwrap() {
        remove_managed_field(&mut entry["fieldsV1"], "f:securityContext");
    }
    team.put(&format!("{DEPLOYMENTS}/sly"), sly).await.expect(200);
    team.merge(&format!("{DEPLOYMENTS}/sly/placement"), placement_on("east")).await.expect(200);
    let _view = Watch::open(&admin, "/services/sync/east").await;
    eventually("the Deployment is rejected", async || {
        let list = team.get("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses").await.expect(200);
        let first = &list["items"][0]["status"];
        let message = first["message"].as_str().unwrap_or_default();
        first["state"] == "Refused" && message.contains("violates PodSecurity \"restricted:latest\"")
    })
    .await;
}

fn remove_managed_field(fields: &mut Value, field: &str) {
    let Some(fields) = fields.as_object_mut() else { return };
    fields.remove(field);
    fields.values_mut().for_each(|value| remove_managed_field(value, field));
}
