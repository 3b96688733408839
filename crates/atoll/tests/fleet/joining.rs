//! A cluster joins, joins again, and is rejected where it is a different cluster than expected.

use atoll_testkit::{Atoll, Client};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{CLUSTERS, TestFleet, cluster, join_command, secret_path};

const CLAIM: &str = "/api/v1/namespaces/atoll-system/configmaps/atoll-claim";

/// Returns the token in the kubeconfig of a cluster's Secret, and the kubeconfig.
async fn credential(admin: &Client, name: &str) -> (String, Value) {
    let secret = admin.get(&secret_path(name)).await.expect(200);
    assert!(secret["metadata"]["annotations"]["atoll.dev/expires"].is_string(), "{secret}");
    let text = STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap()).unwrap();
    let config: Value = serde_saphyr::from_str(&String::from_utf8(text).unwrap()).unwrap();
    (config["users"][0]["user"]["token"].as_str().unwrap().to_string(), config)
}

/// Returns the same kubeconfig with credentials from an exec plugin.
fn with_exec_plugin(kubeconfig: &str, directory: &std::path::Path) -> String {
    let mut config: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    let user = &config["users"][0]["user"];
    let pem = |name: &str| String::from_utf8(STANDARD.decode(user[name].as_str().unwrap()).unwrap()).unwrap();
    let status = json!({
        "clientCertificateData": pem("client-certificate-data"), "clientKeyData": pem("client-key-data"),
    });
    std::fs::write(directory.join("credential"), json!({ "status": status }).to_string()).unwrap();
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "cat",
        "args": [directory.join("credential")],
        "interactiveMode": "Never",
    });
    config["users"][0]["user"] = json!({ "exec": exec });
    config.to_string()
}

/// Returns whether an access review of the cluster allows a request.
async fn is_allowed(client: &Client, verb: &str, group: &str, resource: &str) -> bool {
    let attributes = json!({ "verb": verb, "group": group, "resource": resource, "namespace": "default" });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": attributes },
    });
    let answer = client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await;
    answer.expect(201)["status"]["allowed"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_again_keeps_the_cluster_and_renews_its_token() {
    let (fleet, east, other) = (TestFleet::start(), cluster(), cluster());
    let (above, below) = (fleet.admin(), east.admin());

    let printed = fleet.join("east", &east, "");
    let steps = printed.lines().filter(|line| line.starts_with("  ✓ ")).count();
    assert!(steps == 10 && printed.contains("Cluster east has joined."), "{printed}");
    let (token, config) = credential(&above, "east").await;
    assert!(!printed.contains(&token));
    let user = config["users"][0]["user"].as_object().unwrap();
    assert_eq!(
        user.keys().collect::<Vec<_>>(),
        ["token"],
        "the administrator's credential must not be stored"
    );

    let registered = above.get(&format!("{CLUSTERS}/east")).await.expect(200);
    let identity = below.get("/api/v1/namespaces/kube-system").await.expect(200);
    assert_eq!(registered["status"]["id"], identity["metadata"]["uid"]);
    assert_eq!(
        (&registered["spec"]["mode"], &registered["spec"]["access"]),
        (&"push".into(), &"manage".into())
    );
    let named = json!({ "namespace": "atoll-system", "name": "cluster-east" });
    assert_eq!(registered["spec"]["credentials"]["secret"], named);
    let claim = below.get(CLAIM).await.expect(200);
    let control_plane = above.get("/api/v1/namespaces/kube-system").await.expect(200);
    assert_eq!(claim["data"]["controlPlane"], control_plane["metadata"]["uid"]);
    assert_eq!(claim["data"]["cluster"], registered["metadata"]["uid"]);

    // Enough rights for a syncer, and none that would allow it to get more.
    let syncer = below.token(&token);
    for (verb, group, resource, expected) in [
        ("patch", "apps", "deployments", true),
        ("create", "", "secrets", true),
        ("delete", "networking.k8s.io", "ingresses", true),
        ("list", "", "nodes", true),
        ("patch", "", "nodes", false),
        ("create", "rbac.authorization.k8s.io", "roles", false),
        ("update", "rbac.authorization.k8s.io", "clusterrolebindings", false),
        ("escalate", "rbac.authorization.k8s.io", "clusterroles", false),
        ("bind", "rbac.authorization.k8s.io", "clusterroles", false),
        ("impersonate", "", "users", false),
        ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations", false),
        ("create", "", "pods/exec", false),
        ("create", "example.com", "things", false),
    ] {
        assert_eq!(is_allowed(&syncer, verb, group, resource).await, expected, "{verb} {group}/{resource}");
    }

    // Joining again: another token, the same cluster, and changes to the Cluster are kept.
    above.merge(&format!("{CLUSTERS}/east"), json!({ "spec": { "unschedulable": true } })).await.expect(200);
    let printed = fleet.join("east", &east, " --groups example.com");
    assert!(printed.contains("Cluster east has a new credential."), "{printed}");
    let (renewed, _) = credential(&above, "east").await;
    assert_ne!(renewed, token);
    assert!(is_allowed(&below.token(&renewed), "create", "example.com", "things").await);
    fleet.join("east", &east, "");
    assert!(
        is_allowed(&below.token(&renewed), "create", "example.com", "things").await,
        "rights on API groups must be kept"
    );
    let again = above.get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(again["metadata"]["uid"], registered["metadata"]["uid"]);
    assert_eq!(again["spec"]["unschedulable"], true);

    // A kubeconfig with an exec plugin works as well.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    std::fs::write(
        &path,
        with_exec_plugin(&std::fs::read_to_string(east.kubeconfig()).unwrap(), directory.path()),
    )
    .unwrap();
    fleet.run(&join_command("east", &path, ""));

    // A different cluster is not accepted under this name, and a cluster cannot join twice.
    let errors = fleet.run_failing(&join_command("east", &other.kubeconfig(), ""));
    assert!(errors.contains("east is another cluster") && errors.contains("hint: "), "{errors}");
    let errors = fleet.run_failing(&join_command("west", &east.kubeconfig(), ""));
    assert!(errors.contains("this cluster has already joined as east"), "{errors}");
    let errors = fleet.run_failing(&join_command("self", &fleet.above.kubeconfig(), ""));
    assert!(errors.contains("it cannot join itself"), "{errors}");
    assert_eq!(
        other.admin().get("/api/v1/namespaces/atoll-system").await.status,
        404,
        "no object must be created there"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_of_another_control_plane_is_rejected() {
    let (fleet, east) = (TestFleet::start(), cluster());
    fleet.join("east", &east, "");
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-syncer";
    let before = east.admin().get(role).await.expect(200);
    let other = TestFleet { above: Atoll::start_bare() };
    for more in ["", " --observe"] {
        let errors = other.run_failing(&join_command("mine", &east.kubeconfig(), more));
        assert!(errors.contains("the cluster belongs to another control plane"), "{errors}");
        assert!(errors.contains(&format!("https://{}", fleet.above.address)), "{errors}");
        assert!(
            errors.contains("atoll cluster remove east") && errors.contains("delete configmap"),
            "{errors}"
        );
    }
    assert_eq!(east.admin().get(role).await.expect(200), before);
    assert_eq!(other.admin().get(&format!("{CLUSTERS}/mine")).await.status, 404);
    // When the claim is deleted, the cluster can join.
    east.admin().delete(CLAIM).await.expect(200);
    other.join("mine", &east, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_cluster_grants_read_rights_only() {
    let (fleet, east) = (TestFleet::start(), cluster());
    let printed = fleet.join("east", &east, " --observe");
    let shown = printed.find("kind: ClusterRole").expect("the ClusterRole must be printed");
    assert!(
        shown < printed.find("created namespace").expect("objects must be created after that"),
        "{printed}"
    );
    let (token, _) = credential(&fleet.admin(), "east").await;
    let syncer = east.admin().token(&token);
    for (verb, group, resource, expected) in [
        ("list", "apps", "deployments", true),
        ("watch", "", "pods", true),
        ("patch", "apps", "deployments", false),
        ("delete", "", "namespaces", false),
        ("get", "", "secrets", false),
        ("get", "", "configmaps", false),
        ("create", "", "serviceaccounts/token", false),
    ] {
        assert_eq!(is_allowed(&syncer, verb, group, resource).await, expected, "{verb} {group}/{resource}");
    }
    assert_eq!(syncer.get(CLAIM).await.status, 200);
    let registered = fleet.admin().get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(registered["spec"]["access"], "observe");
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_none_writes_two_kubeconfigs() {
    let (fleet, east) = (TestFleet::start(), cluster());
    let directory = tempfile::tempdir().unwrap();
    let printed =
        fleet.join("east", &east, &format!(" --mode none --write-to {}", directory.path().display()));
    let line = printed.lines().last().unwrap().trim();
    let (from, to) = (
        directory.path().join("east.control-plane.kubeconfig"),
        directory.path().join("east.cluster.kubeconfig"),
    );
    let expected =
        format!("atoll syncer --from-kubeconfig {} --to-kubeconfig {} east", from.display(), to.display());
    assert_eq!(line, expected);
    for (file, client, path, expected) in [
        (&from, fleet.admin(), "/apis/atoll.dev/v1alpha1/clusters/east", 200),
        (&from, fleet.admin(), "/apis/atoll.dev/v1alpha1/clusters", 403),
        (&from, fleet.admin(), "/api/v1/namespaces/atoll-system/secrets/cluster-east", 403),
        (&from, fleet.admin(), "/services/sync/other", 403),
        (&to, east.admin(), "/api/v1/namespaces/kube-system", 200),
        (&to, east.admin(), "/apis/rbac.authorization.k8s.io/v1/clusterroles", 403),
    ] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let token = config["users"][0]["user"]["token"].as_str().unwrap();
        assert_eq!(client.token(token).get(path).await.status, expected, "{path}");
    }
    let registered = fleet.admin().get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(registered["spec"]["mode"], "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_join_reports_the_problem_and_can_be_repeated() {
    let (fleet, east) = (TestFleet::start(), cluster());
    let errors = fleet.run_failing("cluster join east --kubeconfig no-such-file");
    assert!(errors.contains("no-such-file") && errors.contains("hint: "), "{errors}");
    // A Secret of another owner has the required name: objects created so far are kept for the next attempt.
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "atoll-system" } });
    fleet.admin().post("/api/v1/namespaces", namespace).await.expect(201);
    let foreign =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cluster-east" }, "data": {} });
    let secrets = "/api/v1/namespaces/atoll-system/secrets";
    fleet.admin().post(secrets, foreign).await.expect(201);
    let errors = fleet.run_failing(&join_command("east", &east.kubeconfig(), ""));
    assert!(
        errors.contains("is not a cluster's credential") && errors.contains("created so far and kept: "),
        "{errors}"
    );
    assert!(errors.contains("run the same command again"), "{errors}");
    assert_eq!(fleet.admin().get(&format!("{CLUSTERS}/east")).await.status, 404);
    fleet.admin().delete(&secret_path("east")).await.expect(200);
    let printed = fleet.join("east", &east, "");
    assert!(printed.contains("found namespace atoll-system there"), "{printed}");
    // A cluster that is not reachable.
    let kubeconfig = east.kubeconfig();
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    drop(east);
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("kubeconfig");
    std::fs::write(&copy, text).unwrap();
    let errors = fleet.run_failing(&join_command("east", &copy, ""));
    assert!(
        errors.contains("cannot reach https://") && errors.contains("is the cluster running"),
        "{errors}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cordoned_cluster_joins_closed_and_says_what_waits() {
    let (fleet, east) = (TestFleet::start(), cluster());
    let admin = fleet.admin();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    for (name, annotations) in
        [("one", json!({})), ("two", json!({})), ("above", json!({ "atoll.dev/clusters": "none" }))]
    {
        let labels = json!({ "app": name });
        let template = json!({
            "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "example/app:1" }] },
        });
        let deployment = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "selector": { "matchLabels": labels }, "template": template },
        });
        admin.post(deployments, deployment).await.expect(201);
    }
    let printed = fleet.join("east", &east, " --cordoned");
    assert!(printed.contains("2 workloads of root wait for a cluster.\n"), "{printed}");
    assert!(printed.contains("open it with: atoll cluster uncordon east\n"), "{printed}");
    let joined = admin.get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(joined["spec"]["unschedulable"], true);
    let printed = fleet.join("east", &east, "");
    assert!(!printed.contains("wait for a cluster"), "{printed}");
    let joined = admin.get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(joined["spec"]["unschedulable"], true, "a new credential does not open it");
}
