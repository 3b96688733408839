//! A cluster leaves: with its placed objects deleted, with them kept, or because it is lost.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, succeed};
use serde_json::{Value, json};

use crate::harness::{CLUSTERS, TestFleet, cluster, report_gone, secret_path};
use crate::support::{CONFIG_MAPS, config_map, config_map_with, without_uids};

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// Returns the reference that a syncer uses for an object in its report.
fn target(object: &Value) -> Value {
    json!({
        "resource": { "group": "", "version": "v1", "resource": "configmaps" }, "workspace": "root",
        "namespace": "default", "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    })
}

fn placement(object: &Value) -> Value {
    let text = object["metadata"]["annotations"]["atoll.dev/placement"].as_str().unwrap_or("{}");
    match without_uids(text).as_str() {
        "" => json!({}),
        text => serde_json::from_str(text).unwrap(),
    }
}

/// Returns whether no trace of joining is left in a cluster.
pub async fn is_clean(below: &Client) -> bool {
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let mut found = Vec::new();
    for path in [
        "/api/v1/namespaces/atoll-system".to_string(),
        format!("{roles}/clusterroles/atoll-syncer"),
        format!("{roles}/clusterrolebindings/atoll-syncer"),
    ] {
        found.push(below.get(&path).await.status);
    }
    found == [404; 3]
}

#[tokio::test(flavor = "multi_thread")]
async fn placed_objects_are_deleted_before_the_cluster_leaves() {
    let (fleet, east) = (TestFleet::start(), cluster());
    let admin = fleet.admin();
    fleet.join("east", &east, "");
    let created = admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    fleet.run("place configmap/a --on east");

    // Without a terminal for the question, `--yes` is required.
    let output = fleet.output("cluster remove east");
    let (printed, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(!output.status.success() && printed.contains("Placed on east: 1 configmaps."), "{printed}");
    assert!(errors.contains("add --yes"), "{errors}");
    assert_eq!(placement(&admin.get(&config_map("a")).await.expect(200))["clusters"][0]["name"], "east");

    let mut removing = fleet.above.command("cluster remove east --yes");
    let removing = std::thread::spawn(move || succeed(&mut removing));
    eventually("the placement says that east is leaving", async || {
        placement(&admin.get(&config_map("a")).await.expect(200))["leaving"] == json!(["east"])
    })
    .await;
    assert_eq!(
        admin.get(&format!("{CLUSTERS}/east")).await.status,
        200,
        "the Cluster must exist until the object is gone"
    );
    report_gone(&admin, "east", target(&created)).await;
    let printed = tokio::task::spawn_blocking(|| removing.join().unwrap()).await.unwrap();
    assert!(printed.contains("Cluster east has left the fleet."), "{printed}");
    assert_eq!(admin.get(&format!("{CLUSTERS}/east")).await.status, 404);
    assert_eq!(admin.get(&secret_path("east")).await.status, 404);
    let stays = admin.get(&config_map("a")).await.expect(200);
    assert_eq!(
        stays["metadata"]["annotations"],
        Value::Null,
        "the object above must be kept without a placement"
    );
    eventually("all traces of joining are removed from the cluster", async || is_clean(&east.admin()).await)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_workloads_lose_their_marks() {
    let (fleet, east) = (TestFleet::start(), cluster());
    let (admin, below) = (fleet.admin(), east.admin());
    fleet.join("east", &east, "");
    let created = admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    fleet.run("place cm/a --on east");
    // The copy below, as a syncer writes it.
    let control_plane = admin.get("/api/v1/namespaces/kube-system").await.expect(200);
    let mut copy = config_map_with("a", "1");
    copy["metadata"] = json!({
        "name": "a",
        "labels": { "atoll.dev/control-plane": control_plane["metadata"]["uid"], "app": "web" },
        "annotations": { "atoll.dev/uid": created["metadata"]["uid"], "note": "mine" },
    });
    let below_uid = below.post(CONFIG_MAPS, copy).await.expect(201)["metadata"]["uid"].clone();
    // Objects that controllers derive from placed objects: copied labels are left to their controllers,
    // copied annotations are removed.
    let mut labelled = config_map_with("labelled", "1");
    let control_plane = json!({ "atoll.dev/control-plane": control_plane["metadata"]["uid"] });
    labelled["metadata"]["labels"] = control_plane.clone();
    below.post(CONFIG_MAPS, labelled).await.expect(201);
    let selected = json!({ "app": "web" });
    let containers = json!([{ "name": "main", "image": "a" }]);
    let template = json!({ "metadata": { "labels": selected }, "spec": { "containers": containers } });
    let annotations = json!({ "atoll.dev/uid": created["metadata"]["uid"], "note": "mine" });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "web", "annotations": annotations },
        "spec": { "replicas": 0, "selector": { "matchLabels": selected }, "template": template },
    });
    below.post(REPLICA_SETS, set).await.expect(201);
    let printed = fleet.run("cluster remove east --keep-workloads --yes");
    assert!(printed.contains("Released 1 object in the cluster."), "{printed}");
    let labelled = below.get(&config_map("labelled")).await.expect(200);
    assert_eq!(labelled["metadata"]["labels"], control_plane);
    let set = below.get(&format!("{REPLICA_SETS}/web")).await.expect(200);
    assert_eq!(set["metadata"]["annotations"], json!({ "note": "mine" }));
    let left = below.get(&config_map("a")).await.expect(200);
    assert_eq!(left["metadata"]["uid"], below_uid, "the object must not be recreated");
    assert_eq!(left["metadata"]["labels"], json!({ "app": "web" }));
    assert_eq!(left["metadata"]["annotations"], json!({ "note": "mine" }));
    assert_eq!(admin.get(&format!("{CLUSTERS}/east")).await.status, 404);
    assert_eq!(placement(&admin.get(&config_map("a")).await.expect(200)), json!({}));
    eventually("all traces of joining are removed from the cluster", async || is_clean(&below).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_cluster_is_removed_without_waiting() {
    let (fleet, east, west) = (TestFleet::start(), cluster(), cluster());
    let admin = fleet.admin();
    fleet.join("east", &east, "");
    fleet.join("west", &west, "");
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    fleet.run("place configmaps/a --on east,west");
    drop(east);
    let printed = fleet.run("cluster remove east --lost --yes");
    assert!(printed.contains("treated as lost") && printed.contains("has left the fleet"), "{printed}");
    let left = placement(&admin.get(&config_map("a")).await.expect(200));
    assert_eq!(left, json!({ "clusters": [{ "name": "west" }], "by": "hand" }));
    assert_eq!(fleet.run("cluster list -o name"), "cluster.atoll.dev/west\n");
    let errors = fleet.run_failing("cluster remove est --yes");
    assert!(errors.contains("there is no cluster est in root\nhint: did you mean west?"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_cluster_is_cleaned_up_with_an_administrators_kubeconfig() {
    let (fleet, east) = (TestFleet::start(), cluster());
    fleet.join("east", &east, " --observe");
    let output = fleet.output("cluster remove east --yes");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.contains("kubectl delete namespace atoll-system"), "{errors}");
    assert!(!is_clean(&east.admin()).await);
    fleet.join("east", &east, " --observe");
    fleet.run(&format!("cluster remove east --yes --cluster-kubeconfig {}", east.kubeconfig().display()));
    eventually("all traces of joining are removed from the cluster", async || is_clean(&east.admin()).await)
        .await;
}

/// With a running syncer: it must have stopped before objects are released, or it would delete them.
#[tokio::test(flavor = "multi_thread")]
async fn running_syncer_deletes_placed_objects_unless_workloads_are_kept() {
    let fleet = TestFleet { above: Atoll::start() };
    let east = cluster();
    let (admin, below) = (fleet.admin(), east.admin());
    for (name, how, stays) in [("keep", " --keep-workloads", true), ("take", "", false)] {
        fleet.join("east", &east, "");
        admin.post(CONFIG_MAPS, config_map_with(name, "1")).await.expect(201);
        fleet.run(&format!("place cm/{name} --on east"));
        eventually("the ConfigMap exists below", async || below.get(&config_map(name)).await.status == 200)
            .await;
        fleet.run(&format!("cluster remove east --yes{how}"));
        let left = below.get(&config_map(name)).await;
        assert_eq!(left.status, if stays { 200 } else { 404 }, "{name}: {}", left.text());
        if stays {
            let metadata = left.json()["metadata"].clone();
            assert_eq!((&metadata["labels"], &metadata["annotations"]), (&Value::Null, &Value::Null));
            let managers = metadata["managedFields"].to_string();
            assert!(!managers.contains("\"atoll\""), "{managers}");
        }
        assert_eq!(admin.get(&config_map(name)).await.status, 200, "the object above must be kept");
        eventually("all traces of joining are removed from the cluster", async || is_clean(&below).await)
            .await;
    }
}
