//! `spec.evictAfter` of a Cluster of kcp: from that time on nothing new is placed there, and existing objects
//! are removed.

use std::time::{SystemTime, UNIX_EPOCH};

use atoll_testkit::Atoll;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{ready, simulated, wait_for};
use crate::support::{CONFIG_MAPS, config_map, config_map_with};
use crate::{CLUSTERS, OWN, cluster};

fn labelled(name: &str) -> Value {
    let mut map = config_map_with(name, "1");
    map["metadata"]["labels"] = json!({ "workloads.kcp.dev/cluster": "east" });
    map
}

fn placement(object: &Value) -> &Value {
    &object["metadata"]["annotations"]["atoll.dev/placement"]
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_leave_a_cluster_after_its_eviction_time() {
    let (east, kubeconfig) = simulated();
    let server = Atoll::start();
    let (admin, below) = (server.admin(), east.admin());
    server.run("dialect enable kcp");
    let mut registered = cluster("Cluster", "east", &kubeconfig);
    registered["spec"]["evictAfter"] = "2100-01-01T00:00:00Z".into();
    admin.post(CLUSTERS, registered).await.expect(201);
    let (at, own) = (format!("{CLUSTERS}/east"), format!("{OWN}/east"));
    wait_for("the cluster is ready", &admin, &at, |object| ready(object)["status"] == "True").await;

    // Before that time, placing works.
    admin.post(CONFIG_MAPS, labelled("labelled")).await.expect(201);
    admin.post(CONFIG_MAPS, config_map_with("placed", "1")).await.expect(201);
    server.run("place configmap/placed --on east");
    for name in ["labelled", "placed"] {
        wait_for("the object exists below", &below, &config_map(name), |_| true).await;
    }
    assert_ne!(admin.get(&own).await.expect(200)["spec"]["unschedulable"], true);

    // In two seconds.
    let soon = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 2;
    let soon = atoll_meta::time::format(soon.cast_signed());
    let evict = |time: Value| json!({ "spec": { "evictAfter": time } });
    admin.merge(&at, evict(soon.into())).await.expect(200);
    for name in ["labelled", "placed"] {
        eventually("the object is deleted below", async || below.get(&config_map(name)).await.status == 404)
            .await;
        let stays = |object: &Value| placement(object).is_null() && object["data"]["value"] == "1";
        wait_for("the object is placed nowhere", &admin, &config_map(name), stays).await;
    }
    assert_eq!(
        admin.get(&own).await.expect(200)["spec"]["unschedulable"],
        true,
        "the cluster must be cordoned"
    );
    assert_eq!(ready(&admin.get(&at).await.expect(200))["status"], "True", "the cluster must stay ready");

    // With the time removed, labelled objects come back, including those labelled in the meantime. An object
    // placed by hand has to be placed again.
    admin.post(CONFIG_MAPS, labelled("meanwhile")).await.expect(201);
    admin.merge(&at, evict(Value::Null)).await.expect(200);
    for name in ["labelled", "meanwhile"] {
        wait_for("the object exists below", &below, &config_map(name), |_| true).await;
    }
    assert_eq!(placement(&admin.get(&config_map("placed")).await.expect(200)), &Value::Null);

    // A time in the past takes effect immediately, and a cordoned cluster stays cordoned.
    let past = json!({ "spec": { "evictAfter": "2022-05-01T00:00:00Z", "unschedulable": true } });
    admin.merge(&at, past).await.expect(200);
    for name in ["labelled", "meanwhile"] {
        eventually("the object is deleted below", async || below.get(&config_map(name)).await.status == 404)
            .await;
    }
    admin.merge(&at, evict(Value::Null)).await.expect(200);
    admin.post(CONFIG_MAPS, labelled("last")).await.expect(201);
    admin.merge(&at, json!({ "spec": { "unschedulable": false } })).await.expect(200);
    wait_for("the object exists below", &below, &config_map("last"), |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_workloads_move_away_without_a_gap() {
    let ((east, _), (west, _)) = (simulated(), simulated());
    let server = Atoll::start();
    let admin = server.admin();
    for (name, cluster) in [("east", &east), ("west", &west)] {
        server.run(&format!("cluster join {name} --kubeconfig {}", cluster.kubeconfig().display()));
    }
    server.run("dialect enable kcp");
    let at = format!("{CLUSTERS}/east");
    wait_for("the cluster shows", &admin, &at, |object| ready(object)["status"] == "True").await;
    let (collection, labels) = ("/apis/apps/v1/namespaces/default/deployments", json!({ "app": "web" }));
    let container = json!({ "name": "main", "image": "example/app:1" });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    let spec = json!({ "replicas": 4, "selector": { "matchLabels": labels }, "template": template });
    admin.post(collection, json!({ "metadata": { "name": "web" }, "spec": spec })).await.expect(201);
    let web = format!("{collection}/web");
    let on = |object: &Value| {
        let shares = atoll_fleet::Placement::of(object).clusters;
        let mut names: Vec<String> =
            shares.iter().map(|share| format!("{}={}", share.name, share.replicas.unwrap_or(-1))).collect();
        names.sort();
        names.join(" ")
    };
    wait_for("it is divided and available", &admin, &web, |object| {
        on(object) == "east=2 west=2" && object["status"]["availableReplicas"] == 4
    })
    .await;
    let past = json!({ "spec": { "evictAfter": "2022-05-01T00:00:00Z" } });
    admin.merge(&at, past).await.expect(200);
    let mut fewest = 4;
    eventually("it has moved", async || {
        let object = admin.get(&web).await.expect(200);
        fewest = fewest.min(object["status"]["availableReplicas"].as_i64().unwrap_or(0));
        on(&object) == "west=4" && object["status"]["replicas"] == 4
    })
    .await;
    assert_eq!(fewest, 4, "all replicas stay available");
    // When the time is taken back, the taint is too.
    admin.merge(&at, json!({ "spec": { "evictAfter": null } })).await.expect(200);
    wait_for("the cluster is open", &admin, &format!("{OWN}/east"), |object| {
        object["spec"]["unschedulable"] != true
            && object["spec"]["taints"].as_array().is_none_or(|taints| taints.is_empty())
    })
    .await;
}
