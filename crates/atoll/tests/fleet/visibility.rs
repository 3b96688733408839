//! Clusters of parent workspaces serve a workspace: tenants see these clusters, and warnings suggest only
//! clusters that accept new objects.

use std::path::PathBuf;
use std::process::Command;

use atoll_testkit::{Client, atoll, fail, succeed};
use serde_json::{Value, json};

use crate::harness::{CLUSTERS, TestFleet};
use crate::support::{CONFIG_MAPS, config_map_with};

const REGISTERED_IN: &str = "atoll.dev/registered-in";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SECRET: &str = "s3cr3t";

/// Creates a ServiceAccount with these rules in a workspace and no rights elsewhere. Returns a kubeconfig for
/// it.
async fn tenant(fleet: &TestFleet, workspace: &str, name: &str, rules: Value) -> PathBuf {
    let client = fleet.admin().workspace(workspace);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    client.post(accounts, json!({ "metadata": { "name": name } })).await.expect(201);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    client.post(&format!("{rbac}/clusterroles"), role).await.expect(201);
    let binding = json!({
        "metadata": { "name": name },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": name }],
        "roleRef": { "kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": name },
    });
    client.post(&format!("{rbac}/clusterrolebindings"), binding).await.expect(201);
    let token = client.post(&format!("{accounts}/{name}/token"), json!({ "spec": {} })).await.expect(201);
    let token = token["status"]["token"].as_str().unwrap();
    let file = fleet.above.directory.join(format!("{name}.kubeconfig"));
    std::fs::write(&file, client.token(token).kubeconfig()).unwrap();
    file
}

fn command(kubeconfig: &PathBuf, line: &str) -> Command {
    let mut command = atoll(&line.split(' ').collect::<Vec<_>>());
    command.env("KUBECONFIG", kubeconfig).stdin(std::process::Stdio::null());
    command
}

fn rule_for(verb: &str) -> Value {
    json!([{ "apiGroups": ["atoll.dev"], "resources": ["clusters"], "verbs": [verb] }])
}

async fn register(client: &Client, name: &str, spec: Value) {
    client.post(CLUSTERS, json!({ "metadata": { "name": name }, "spec": spec })).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_list_the_clusters_that_serve_them() {
    let fleet = TestFleet::start();
    let admin = fleet.admin();
    fleet.run("workspace create team");
    fleet.run("workspace create other");
    let secret = json!({ "secret": { "namespace": "atoll-system", "name": SECRET } });
    let taints = json!([{ "key": "dedicated", "effect": "NoSchedule" }]);
    register(&admin, "east", json!({ "credentials": secret, "taints": taints, "podSecurity": "baseline" }))
        .await;
    register(&admin, "west", json!({ "workspaces": ["other"] })).await;
    register(&admin.workspace("root:team"), "own", json!({ "mode": "none" })).await;
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "reason": "Synced", "message": SECRET });
    let status = json!({
        "conditions": [condition("Ready"), condition("Reachable"), condition("Schedulable")],
        "kubernetesVersion": "v1.36.4", "region": "lab", "zones": ["a"], "nodes": { "total": 3, "ready": 2 },
        "id": SECRET, "allocatable": { "cpu": "4711" },
    });
    admin.merge(&format!("{CLUSTERS}/east/status"), json!({ "status": status })).await.expect(200);
    let uid = admin.get(&format!("{CLUSTERS}/east")).await.expect(200)["metadata"]["uid"].clone();

    let kubeconfig = tenant(&fleet, "root:team", "ann", rule_for("list")).await;
    let says = |line: &str| succeed(&mut command(&kubeconfig, line));
    assert_eq!(says("cluster list -o name"), "cluster.atoll.dev/own\ncluster.atoll.dev/east\n");
    let text = says("cluster list -o json");
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ClusterList"), &json!("atoll.dev/v1alpha1")));
    let true_condition = |kind: &str| json!({ "type": kind, "status": "True", "reason": "Synced" });
    let mut east = list["items"][1].clone();
    assert!(east["metadata"]["creationTimestamp"].take().is_string(), "{east}");
    assert_eq!(
        east,
        json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "east", "creationTimestamp": null, "annotations": { REGISTERED_IN: "root" } },
            "spec": { "access": "manage", "taints": taints, "podSecurity": "baseline" },
            "status": {
                "conditions": [true_condition("Ready"), true_condition("Schedulable")], "kubernetesVersion": "v1.36.4",
                "region": "lab", "zones": ["a"], "nodes": { "total": 3, "ready": 2 },
            },
        })
    );
    assert_eq!(list["items"][0]["metadata"]["annotations"][REGISTERED_IN], "root:team");
    assert_eq!(list["items"][0]["spec"]["mode"], "none", "a Cluster of the own workspace must be complete");
    assert_eq!(serde_saphyr::from_str::<Value>(&says("cluster list -o yaml")).unwrap(), list);

    let shown = |line: &str| {
        let table = says(line);
        let rows = table.lines().map(|line| line.split_whitespace().map(str::to_string).collect());
        rows.collect::<Vec<Vec<String>>>()
    };
    for (line, widths) in [("cluster list", 11), ("cluster list -o wide", 13)] {
        let rows = shown(line);
        let ends: Vec<(&str, &str)> =
            rows.iter().map(|row| (row[0].as_str(), row[row.len() - 1].as_str())).collect();
        assert_eq!(ends, [("NAME", "FROM"), ("own", "root:team"), ("east", "root")], "{line}");
        assert_eq!(rows[2].len(), widths, "{rows:?}");
        assert_eq!(rows[2][1..9], ["-", "True", "v1.36.4", "2/3", "-", "-", "lab", "-"], "{line}");
    }
    let uid = uid.as_str().unwrap();
    for line in ["", " -o wide", " -o json", " -o yaml"] {
        let text = says(&format!("cluster list{line}"));
        for hidden in [SECRET, "4711", uid, "west"] {
            assert!(!text.contains(hidden), "{line}: {hidden} in {text}");
        }
    }

    // Commands for users of the other workspace only are refused with that reason, and without its name.
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let administrator = tenant(&fleet, "root:team", "eve", everything).await;
    for line in ["orphans list --cluster east", "cluster cordon east"] {
        let errors = fail(&mut command(&administrator, line));
        let expected = "cluster east serves root:team, but belongs to another workspace";
        assert!(errors.contains(expected), "{line}: {errors}");
    }
    for line in ["orphans list --cluster west", "cluster cordon west"] {
        let errors = fail(&mut command(&administrator, line));
        assert!(errors.contains("there is no cluster west"), "{line}: {errors}");
    }

    // The right to list clusters in this workspace is required.
    let path = "/services/clusters";
    let kubeconfig = tenant(&fleet, "root:team", "bob", rule_for("get")).await;
    let errors = fail(&mut command(&kubeconfig, "cluster list"));
    assert!(errors.contains("cannot list resource \"clusters\" in API group \"atoll.dev\""), "{errors}");
    let without_rights = admin.acting_as("nobody", &[]);
    without_rights.get(path).await.expect_status(403, "Forbidden");
    let ann = admin.workspace("root:other").acting_as("ann", &[]);
    ann.get(path).await.expect_status(403, "Forbidden");
    admin.post(path, json!({})).await.expect_status_code(405);
    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let other = admin.workspace("root:other").get(path).await.expect(200);
    assert_eq!(names(&other), ["east", "west"]);
}

fn deployment(name: &str, pods: Value) -> Value {
    let labels = json!({ "app": name });
    let mut spec = json!({ "containers": [{ "name": "main", "image": "example/app:1" }] });
    spec.as_object_mut().unwrap().extend(pods.as_object().unwrap().clone());
    let template = json!({ "metadata": { "labels": labels }, "spec": spec });
    let spec = json!({ "selector": { "matchLabels": labels }, "template": template });
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// Creates a Deployment and returns the warning.
async fn create_and_get_warning(client: &Client, object: Value) -> String {
    let answer = client.post(&format!("{DEPLOYMENTS}?dryRun=All"), object).await;
    answer.expect(201);
    answer.header("warning").unwrap_or_default().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clusters_that_accept_the_object_are_suggested() {
    let fleet = TestFleet::start();
    let admin = fleet.admin();
    fleet.run("workspace create team");
    let team = admin.workspace("root:team");
    for name in ["east", "north", "west"] {
        register(&admin, name, json!({ "mode": "none" })).await;
    }
    let plain = || deployment("web", json!({}));
    let place = |cluster: &str| {
        format!("place it with: atoll place deployment/web --namespace default --on {cluster}")
    };
    assert!(create_and_get_warning(&team, plain()).await.contains(&place("east")));
    fleet.run("cluster cordon east");
    assert!(create_and_get_warning(&team, plain()).await.contains(&place("north")));
    fleet.run("cluster fence north --yes");
    fleet.run("cluster uncordon north");
    assert!(create_and_get_warning(&team, plain()).await.contains(&place("west")), "it is still fenced");
    // Clusters that do not serve a workspace are never suggested.
    let serving = |names: Value| json!({ "spec": { "workspaces": names } });
    admin.merge(&format!("{CLUSTERS}/west"), serving(json!([]))).await.expect(200);
    let warning = create_and_get_warning(&team, plain()).await;
    assert!(warning.contains("another cluster refuses it as well, see: atoll cluster list"), "{warning}");
    assert!(create_and_get_warning(&admin, plain()).await.contains(&place("west")));
    admin.merge(&format!("{CLUSTERS}/north"), serving(json!([]))).await.expect(200);
    let warning = create_and_get_warning(&team, plain()).await;
    assert!(
        warning.contains("no cluster accepts the object: east is cordoned (atoll cluster uncordon east)"),
        "{warning}"
    );
    // Clusters whose Pod Security level the pods violate are not suggested.
    fleet.run("cluster uncordon east");
    let host = || deployment("web", json!({ "hostNetwork": true }));
    let warning = create_and_get_warning(&team, host()).await;
    assert!(warning.contains("no cluster accepts the object: violates PodSecurity"), "{warning}");
    assert!(create_and_get_warning(&admin, host()).await.contains(&place("east")));

    // The object has no name yet when the warning is written.
    let mut map = config_map_with("", "1");
    map["metadata"] = json!({ "generateName": "a-", "annotations": { "atoll.dev/placement": "east" } });
    let answer = admin.post(CONFIG_MAPS, map).await;
    let name = answer.expect(201)["metadata"]["name"].as_str().unwrap().to_string();
    let warning = answer.header("warning").unwrap_or_default();
    let command =
        format!("is ignored; place it with: atoll place configmap/{name} --namespace default --on east");
    assert!(warning.contains(&command), "{warning}");

    // Rejections contain the command to type.
    fleet.run("cluster cordon east");
    let errors = fleet.run_failing(&format!("place configmap/{name} --on east,west"));
    let forced = format!("atoll place configmap/{name} --namespace default --on east,west --force");
    assert!(errors.contains(&forced), "{errors}");
}
