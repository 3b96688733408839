//! A cluster joins, joins again, and is refused where it is not the one that it should be.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::access::Access;
use crate::support::process::Atoll;
use crate::world::{CLUSTERS, World, cluster, joining, secret};

const CLAIM: &str = "/api/v1/namespaces/atoll-system/configmaps/atoll-claim";

/// The token in the kubeconfig of a Secret, and the kubeconfig.
async fn credential(admin: &Access, name: &str) -> (String, Value) {
    let secret = admin.get(&secret(name)).await.expect(200);
    assert!(secret["metadata"]["annotations"]["atoll.dev/expires"].is_string(), "{secret}");
    let text = STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap()).unwrap();
    let config: Value = serde_saphyr::from_str(&String::from_utf8(text).unwrap()).unwrap();
    (config["users"][0]["user"]["token"].as_str().unwrap().to_string(), config)
}

/// The same kubeconfig, but that another program prints the credentials.
fn with_program(kubeconfig: &str, place: &std::path::Path) -> String {
    let mut config: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    let user = &config["users"][0]["user"];
    let pem = |name: &str| String::from_utf8(STANDARD.decode(user[name].as_str().unwrap()).unwrap()).unwrap();
    let status = json!({
        "clientCertificateData": pem("client-certificate-data"), "clientKeyData": pem("client-key-data"),
    });
    std::fs::write(place.join("credential"), json!({ "status": status }).to_string()).unwrap();
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "cat",
        "args": [place.join("credential")],
        "interactiveMode": "Never",
    });
    config["users"][0]["user"] = json!({ "exec": exec });
    config.to_string()
}

/// Whether somebody may do something, as the cluster says.
async fn may(access: &Access, verb: &str, group: &str, resource: &str) -> bool {
    let attributes = json!({ "verb": verb, "group": group, "resource": resource, "namespace": "default" });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": attributes },
    });
    let answer = access.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await;
    answer.expect(201)["status"]["allowed"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_joins_and_joins_again_and_is_always_the_same() {
    let (world, east, other) = (World::start(), cluster(), cluster());
    let (above, below) = (world.admin(), east.admin());

    let said = world.join("east", &east, "");
    let steps = said.lines().filter(|line| line.starts_with("  ✓ ")).count();
    assert!(steps == 10 && said.contains("Cluster east has joined."), "{said}");
    let (token, config) = credential(&above, "east").await;
    assert!(!said.contains(&token));
    let user = config["users"][0]["user"].as_object().unwrap();
    assert_eq!(user.keys().collect::<Vec<_>>(), ["token"], "the administrator's credential is not kept");

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

    // Enough for a syncer, and nothing that would give it more.
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
        assert_eq!(may(&syncer, verb, group, resource).await, expected, "{verb} {group}/{resource}");
    }

    // Again: another token, the same cluster, and what somebody has changed stays.
    above.merge(&format!("{CLUSTERS}/east"), json!({ "spec": { "unschedulable": true } })).await.expect(200);
    let said = world.join("east", &east, " --groups example.com");
    assert!(said.contains("Cluster east has a new credential."), "{said}");
    let (renewed, _) = credential(&above, "east").await;
    assert_ne!(renewed, token);
    assert!(may(&below.token(&renewed), "create", "example.com", "things").await);
    world.join("east", &east, "");
    assert!(may(&below.token(&renewed), "create", "example.com", "things").await, "groups are remembered");
    let again = above.get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(again["metadata"]["uid"], registered["metadata"]["uid"]);
    assert_eq!(again["spec"]["unschedulable"], true);

    // Whoever's credentials come from another program joins as well.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("kubeconfig");
    std::fs::write(&path, with_program(&std::fs::read_to_string(east.kubeconfig()).unwrap(), place.path()))
        .unwrap();
    world.says(&joining("east", &path, ""));

    // Another cluster is not taken for it, nor is it taken twice.
    let errors = world.refuses(&joining("east", &other.kubeconfig(), ""));
    assert!(errors.contains("east is another cluster") && errors.contains("hint: "), "{errors}");
    let errors = world.refuses(&joining("west", &east.kubeconfig(), ""));
    assert!(errors.contains("this cluster has already joined as east"), "{errors}");
    let errors = world.refuses(&joining("self", &world.above.admin_kubeconfig(), ""));
    assert!(errors.contains("it cannot join itself"), "{errors}");
    assert_eq!(
        other.admin().get("/api/v1/namespaces/atoll-system").await.status,
        404,
        "nothing was made there"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_another_control_plane_is_left_alone() {
    let (world, east) = (World::start(), cluster());
    world.join("east", &east, "");
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-syncer";
    let before = east.admin().get(role).await.expect(200);
    let other = World { above: Atoll::start_bare() };
    for more in ["", " --observe"] {
        let errors = other.refuses(&joining("mine", &east.kubeconfig(), more));
        assert!(errors.contains("the cluster belongs to another control plane"), "{errors}");
        assert!(errors.contains(&format!("https://{}", world.above.address)), "{errors}");
        assert!(
            errors.contains("atoll cluster remove east") && errors.contains("delete configmap"),
            "{errors}"
        );
    }
    assert_eq!(east.admin().get(role).await.expect(200), before);
    assert_eq!(other.admin().get(&format!("{CLUSTERS}/mine")).await.status, 404);
    // Once the claim is given up, it can have the cluster.
    east.admin().delete(CLAIM).await.expect(200);
    other.join("mine", &east, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_only_looks_asks_for_no_more() {
    let (world, east) = (World::start(), cluster());
    let said = world.join("east", &east, " --observe");
    let shown = said.find("kind: ClusterRole").expect("the rights are shown");
    assert!(shown < said.find("made namespace").expect("then something is made"), "{said}");
    let (token, _) = credential(&world.admin(), "east").await;
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
        assert_eq!(may(&syncer, verb, group, resource).await, expected, "{verb} {group}/{resource}");
    }
    assert_eq!(syncer.get(CLAIM).await.status, 200);
    let registered = world.admin().get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(registered["spec"]["access"], "observe");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_syncs_by_hand_gets_two_kubeconfigs_and_a_name() {
    let (world, east) = (World::start(), cluster());
    let place = tempfile::tempdir().unwrap();
    let said = world.join("east", &east, &format!(" --mode none --write-to {}", place.path().display()));
    let line = said.lines().last().unwrap().trim();
    let (from, to) =
        (place.path().join("east.control-plane.kubeconfig"), place.path().join("east.cluster.kubeconfig"));
    let expected =
        format!("atoll syncer --from-kubeconfig {} --to-kubeconfig {} east", from.display(), to.display());
    assert_eq!(line, expected);
    for (file, access, path, expected) in [
        (&from, world.admin(), "/apis/atoll.dev/v1alpha1/clusters/east", 200),
        (&from, world.admin(), "/apis/atoll.dev/v1alpha1/clusters", 403),
        (&from, world.admin(), "/api/v1/namespaces/atoll-system/secrets/cluster-east", 403),
        (&from, world.admin(), "/services/sync/other", 403),
        (&to, east.admin(), "/api/v1/namespaces/kube-system", 200),
        (&to, east.admin(), "/apis/rbac.authorization.k8s.io/v1/clusterroles", 403),
    ] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let token = config["users"][0]["user"]["token"].as_str().unwrap();
        assert_eq!(access.token(token).get(path).await.status, expected, "{path}");
    }
    let registered = world.admin().get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(registered["spec"]["mode"], "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_told_and_can_be_tried_again() {
    let (world, east) = (World::start(), cluster());
    let errors = world.refuses("cluster join east --kubeconfig no-such-file");
    assert!(errors.contains("no-such-file") && errors.contains("hint: "), "{errors}");
    // Somebody else's Secret has the name that is needed: what was made in the cluster stays for the next attempt.
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "atoll-system" } });
    world.admin().post("/api/v1/namespaces", namespace).await.expect(201);
    let foreign =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cluster-east" }, "data": {} });
    let secrets = "/api/v1/namespaces/atoll-system/secrets";
    world.admin().post(secrets, foreign).await.expect(201);
    let errors = world.refuses(&joining("east", &east.kubeconfig(), ""));
    assert!(errors.contains("is not of a cluster") && errors.contains("made so far, and kept: "), "{errors}");
    assert!(errors.contains("run the same command again"), "{errors}");
    assert_eq!(world.admin().get(&format!("{CLUSTERS}/east")).await.status, 404);
    world.admin().delete(&secret("east")).await.expect(200);
    let said = world.join("east", &east, "");
    assert!(said.contains("found namespace atoll-system there"), "{said}");
    // A cluster that is not there.
    let kubeconfig = east.kubeconfig();
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    drop(east);
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("kubeconfig");
    std::fs::write(&copy, text).unwrap();
    let errors = world.refuses(&joining("east", &copy, ""));
    assert!(
        errors.contains("cannot reach https://") && errors.contains("is the cluster running"),
        "{errors}"
    );
}
