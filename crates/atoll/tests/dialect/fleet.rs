//! Clusters of kcp join, get labelled objects, and leave.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup, names};
use serde_json::{Value, json};

use crate::support::{config_map, config_map_with};
use crate::{CLUSTERS, KCP, OWN, SECRETS, cluster, files_containing, kubeconfig};

pub fn simulated() -> (Atoll, String) {
    let cluster = Atoll::simulate(&["--nodes", "1"]);
    let kubeconfig = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    (cluster, kubeconfig)
}

pub fn ready(object: &Value) -> &Value {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().find(|condition| condition["type"] == "Ready").unwrap_or(&Value::Null)
}

pub async fn wait_for(what: &str, client: &Client, path: &str, is: impl Fn(&Value) -> bool) {
    eventually(what, async || {
        let answer = client.get(path).await;
        answer.status == 200 && is(&answer.json())
    })
    .await;
}

/// Returns the secret parts of a kubeconfig.
fn secrets(kubeconfig: &str) -> Vec<String> {
    let config: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    let key = config["users"][0]["user"]["client-key-data"].as_str().unwrap().to_string();
    vec![key, kubeconfig.to_string()]
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_joins_gets_labelled_objects_and_leaves() {
    let ((east, admin_east), (west, admin_west)) = (simulated(), simulated());
    let server = Atoll::start();
    let admin = server.admin();
    server.run("dialect enable kcp");
    admin.post(CLUSTERS, cluster("Cluster", "east", &admin_east)).await.expect(201);
    admin
        .post(&format!("{KCP}/workloadclusters"), cluster("WorkloadCluster", "west", &admin_west))
        .await
        .expect(201);
    let (at_east, at_west) = (format!("{CLUSTERS}/east"), format!("{KCP}/workloadclusters/west"));
    for path in [&at_east, &at_west] {
        wait_for("the cluster is ready", &admin, path, |object| ready(object)["status"] == "True").await;
    }
    let shown = admin.get(&at_east).await.expect(200);
    assert!(shown["status"]["syncedResources"].as_array().unwrap().contains(&json!("deployments.apps")));
    wait_for("the cluster's capacity is reported", &admin, &at_east, |object| {
        object["status"]["capacity"]["cpu"].is_string()
    })
    .await;

    // It has joined with its own account, and the administrator's credential is deleted.
    let own = admin.get(&format!("{OWN}/east")).await.expect(200);
    assert_eq!((&own["spec"]["mode"], &own["spec"]["access"]), (&json!("push"), &json!("manage")));
    let credential = admin.get(&format!("{SECRETS}/cluster-east")).await.expect(200);
    assert!(credential["metadata"]["annotations"]["atoll.dev/expires"].is_string());
    let all = admin.get(SECRETS).await.expect(200);
    let text = all.to_string();
    for config in [&admin_east, &admin_west] {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(config);
        assert!(!text.contains(&encoded), "the administrator's kubeconfig must not be stored");
    }
    assert_eq!(names(&all).iter().filter(|name| name.starts_with("kcp-")).count(), 2);

    // Writing the same kubeconfig again changes nothing.
    let before = admin.get(&at_east).await.expect(200);
    let again = admin.merge(&at_east, json!({ "spec": { "kubeconfig": admin_east } })).await.expect(200);
    assert_eq!(again["metadata"]["annotations"], before["metadata"]["annotations"]);

    // A Deployment is divided between the clusters by kcp's policy, as its splitter does.
    let policies = admin.get("/apis/atoll.dev/v1alpha1/clusterplacementpolicies").await.expect(200);
    assert_eq!(names(&policies), ["kcp", "kcp-objects"]);
    let web = "/apis/apps/v1/namespaces/default/deployments/web";
    let labels = json!({ "app": "web" });
    let pods = json!({
        "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "example/app:1" }] },
    });
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 4, "selector": { "matchLabels": labels }, "template": pods },
    });
    admin.post("/apis/apps/v1/namespaces/default/deployments", object).await.expect(201);
    for (cluster, below) in [("east", &east), ("west", &west)] {
        wait_for("the cluster has its half", &below.admin(), web, |object| {
            object["spec"]["replicas"] == 2
                && object["metadata"]["labels"]["workloads.kcp.dev/cluster"] == cluster
        })
        .await;
    }
    let placed = admin.get(&format!("{web}/placement")).await.expect(200);
    assert_eq!(placed["spec"]["by"], "clusterplacementpolicy/kcp");
    admin.delete(web).await.expect(200);
    eventually("the Deployment is deleted", async || admin.get(web).await.status == 404).await;

    // A labelled object is created there, moved and removed.
    let mut map = config_map_with("a", "1");
    map["metadata"]["labels"] = json!({ "workloads.kcp.dev/cluster": "east" });
    admin.post("/api/v1/namespaces/default/configmaps", map).await.expect(201);
    wait_for("the object exists in east", &east.admin(), &config_map("a"), |object| {
        object["data"]["value"] == "1"
    })
    .await;
    let move_to =
        |name: Option<&str>| json!({ "metadata": { "labels": { "workloads.kcp.dev/cluster": name } } });
    admin.merge(&config_map("a"), move_to(Some("west"))).await.expect(200);
    wait_for("the object exists in west", &west.admin(), &config_map("a"), |object| {
        object["data"]["value"] == "1"
    })
    .await;
    eventually("the object is deleted in east", async || {
        east.admin().get(&config_map("a")).await.status == 404
    })
    .await;

    // A cluster that is still in use is kept.
    admin.delete(&at_west).await.expect(200);
    wait_for("the Cluster reports that it is in use", &admin, &at_west, |object| {
        ready(object)["reason"] == "StillInUse"
    })
    .await;
    assert_eq!(west.admin().get(&config_map("a")).await.status, 200);
    admin.merge(&config_map("a"), move_to(None)).await.expect(200);
    eventually("the Cluster is deleted", async || admin.get(&at_west).await.status == 404).await;
    admin.get(&format!("{OWN}/west")).await.expect_status(404, "NotFound");
    assert_eq!(west.admin().get(&config_map("a")).await.status, 404, "removed because the label changed");
    eventually("all traces are removed from the cluster", async || {
        west.admin().get("/api/v1/namespaces/atoll-system").await.status == 404
    })
    .await;
    let left = names(&admin.get(SECRETS).await.expect(200));
    assert!(!left.iter().any(|name| name.contains("west")), "{left:?}");

    let mut hidden = secrets(&admin_east);
    hidden.extend(secrets(&admin_west));
    assert_eq!(files_containing(&server.directory, &hidden), Vec::<std::path::PathBuf>::new());
    for secret in &hidden {
        assert!(!server.log().contains(secret));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_join_is_reported_and_retried() {
    let (_east, admin_east) = simulated();
    let server = Setup::new().flag("--controllers", "kcpcluster,clusterpush,clusterhealth").start();
    let admin = server.admin();
    server.run("dialect enable kcp");
    for (name, config, reason) in [
        ("empty", String::new(), "InvalidKubeConfig"),
        ("nonsense", "s3cr3t, and no kubeconfig".to_string(), "InvalidKubeConfig"),
        ("nowhere", kubeconfig("s3cr3t"), "ErrorStartingSyncer"),
        ("a.b", admin_east.clone(), "InvalidName"),
    ] {
        admin.post(CLUSTERS, cluster("Cluster", name, &config)).await.expect(201);
        let at = format!("{CLUSTERS}/{name}");
        wait_for(&format!("{name} reports {reason}"), &admin, &at, |object| {
            ready(object)["reason"] == reason
        })
        .await;
        let shown = admin.get(&at).await;
        assert_eq!(ready(&shown.expect(200))["status"], "False", "{name}");
        assert!(!shown.text().contains("s3cr3t"), "{}", shown.text());
    }
    // With a valid kubeconfig it joins.
    let at = format!("{CLUSTERS}/nowhere");
    admin.merge(&at, json!({ "spec": { "kubeconfig": admin_east } })).await.expect(200);
    wait_for("the cluster is ready", &admin, &at, |object| ready(object)["status"] == "True").await;
    // A Cluster of the same name that appears before it could join is not changed, and kept.
    admin.post(CLUSTERS, cluster("Cluster", "taken", &kubeconfig("s3cr3t"))).await.expect(201);
    admin.post(OWN, json!({ "metadata": { "name": "taken" }, "spec": { "mode": "none" } })).await.expect(201);
    let at = format!("{CLUSTERS}/taken");
    wait_for("its name is taken", &admin, &at, |object| ready(object)["reason"] == "NameTaken").await;
    let before = admin.get(&at).await.expect(200)["metadata"]["uid"].clone();
    let taken = admin.get(&format!("{OWN}/taken")).await.expect(200);
    assert_eq!(taken["spec"], json!({ "mode": "none", "access": "manage" }));
    admin.delete(&at).await.expect(200);
    // Without the rejected object, it shows.
    wait_for("the Cluster shows", &admin, &at, |object| object["metadata"]["uid"] != before).await;
    let still = admin.get(&format!("{OWN}/taken")).await.expect(200);
    assert_eq!(still["metadata"]["uid"], taken["metadata"]["uid"]);
}
