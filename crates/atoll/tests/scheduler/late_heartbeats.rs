//! Heartbeats that are late, or that do not come at all.

mod clusters;

use std::collections::BTreeMap;

use atoll_fleet::Placement;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Client, Setup};
use serde_json::{Map, Value, json};

use crate::fleet::{
    CLUSTERS, CONTROLLERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, path, with_clusters,
};

/// Clusters with their cores, which are the sums of their nodes.
const SIZES: [(&str, i64); 3] = [("east", 9), ("north", 4), ("west", 7)];
/// Thousandths of a core of each replica.
const REQUEST: i64 = 100;
const BATCH: usize = 40;

/// Uids of the Deployments of each cluster.
type Placed = BTreeMap<String, Vec<String>>;

async fn placed(admin: &Client) -> Placed {
    let mut placed = Placed::new();
    let all = admin.get(DEPLOYMENTS).await.expect(200);
    for object in all["items"].as_array().unwrap() {
        for share in Placement::of(object).clusters {
            let uid = object["metadata"]["uid"].as_str().unwrap().to_string();
            placed.entry(share.name).or_default().push(uid);
        }
    }
    for (name, cores) in SIZES {
        let requested = placed.get(name).map_or(0, Vec::len) as i64 * REQUEST;
        assert!(requested <= cores * 1000, "{name} is overcommitted: {requested}m of {cores} cores");
    }
    placed
}

/// Sends heartbeats with what ran on the clusters at some moment.
async fn send(admin: &Client, ran: &Placed) {
    for (name, cores) in SIZES {
        let uids = ran.get(name).map(Vec::as_slice).unwrap_or_default();
        let free = cores * 1000 - uids.len() as i64 * REQUEST;
        let bound: Map<String, Value> = uids.iter().map(|uid| (uid.clone(), 1.into())).collect();
        let resources = json!({ "cpu": format!("{free}m"), "memory": "64Gi", "pods": "1000" });
        let status = json!({ "status": {
            "free": [{ "nodes": 1, "labels": {}, "taints": [], "resources": resources }], "bound": bound,
        } });
        admin.merge(&format!("{CLUSTERS}/{name}/status"), status).await.expect(200);
    }
}

/// Two hundred Deployments that fill all clusters to the last replica, while heartbeats tell what ran before the
/// last two batches: half a minute, at this rate.
#[tokio::test(flavor = "multi_thread")]
async fn burst_with_late_heartbeats_fills_clusters_and_does_not_overcommit() {
    let (_atoll, admin) = with_clusters(&SIZES).await;
    let anywhere = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy", "metadata": { "name": "anywhere" }, "spec": {},
    });
    admin.post("/apis/atoll.dev/v1alpha1/clusterplacementpolicies", anywhere).await.expect(201);
    let mut ran = vec![Placed::new(), Placed::new()];
    for batch in 0..5 {
        let mut creating = tokio::task::JoinSet::new();
        for number in 0..BATCH {
            let (admin, name) = (admin.clone(), format!("web-{batch}-{number}"));
            creating.spawn(async move {
                admin.post(DEPLOYMENTS, deployment(&name, 1, REQUEST)).await.expect(201);
            });
        }
        send(&admin, &ran[batch]).await;
        creating.join_all().await;
        send(&admin, &ran[batch]).await;
        let expected = (batch + 1) * BATCH;
        let waiting = Waiting::until("the batch is placed");
        let now = loop {
            let now = placed(&admin).await;
            if now.values().map(Vec::len).sum::<usize>() == expected {
                break now;
            }
            waiting.again().await;
        };
        ran.push(now);
    }
    for late in &ran[5..] {
        send(&admin, late).await;
    }
    let all = admin.get(DEPLOYMENTS).await.expect(200);
    let pending = all["items"].as_array().unwrap().iter();
    let pending = pending.filter(|object| condition(object, "Placed").1 == "Unschedulable").count();
    assert_eq!((pending, placed(&admin).await), (0, ran[6].clone()), "nothing moves afterwards");
}

/// Sends heartbeats of all clusters.
async fn live(admin: &Client) {
    live_without(admin, "").await;
}

/// Sends heartbeats of all clusters but one.
async fn live_without(admin: &Client, silent: &str) {
    for (name, cores) in SIZES.into_iter().filter(|(name, _)| *name != silent) {
        let free = json!({ "nodes": 1, "cpu": cores.to_string(), "memory": "64Gi", "pods": "1000" });
        let heartbeat = json!({
            "id": name, "syncer": { "version": "1", "instance": "one" }, "free": [free],
            "leaseDurationSeconds": 15,
        });
        admin.post(&format!("/services/sync/{name}"), json!({ "heartbeat": heartbeat })).await.expect(200);
    }
}

async fn placements(admin: &Client) -> BTreeMap<String, Placement> {
    let all = admin.get(DEPLOYMENTS).await.expect(200);
    let all = all["items"].as_array().unwrap().iter();
    all.map(|object| (object["metadata"]["name"].as_str().unwrap().to_string(), Placement::of(object)))
        .collect()
}

/// The control plane is cut off from everything: the heartbeats of all clusters stop at once.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_while_the_control_plane_is_cut_off() {
    let controllers = format!("{CONTROLLERS},clusterhealth");
    let setup = Setup::new().flag("--controllers", controllers).flag("--cluster-grace-period", 20);
    let atoll = setup.start();
    let admin = atoll.admin();
    for (name, _) in SIZES {
        let cluster = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": { "mode": "none" },
        });
        admin.post(CLUSTERS, cluster).await.expect(201);
    }
    let ready = async |expected: &str| {
        let clusters = admin.get(CLUSTERS).await.expect(200);
        clusters["items"].as_array().unwrap().iter().all(|cluster| condition(cluster, "Ready").0 == expected)
    };
    eventually("all clusters are ready", async || {
        live(&admin).await;
        ready("True").await
    })
    .await;
    // On a busy machine, the first cluster may be silent for longer than the default before the others are.
    let patient = json!({ "metadata": { "name": "patient" }, "spec": { "failover": { "after": "1m" } } });
    admin.post("/apis/atoll.dev/v1alpha1/clusterplacementpolicies", patient).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("whole", 3, REQUEST)).await.expect(201);
    admin
        .post(DEPLOYMENTS, annotated(deployment("divided", 6, REQUEST), "east=1,north=1,west=1"))
        .await
        .expect(201);
    live(&admin).await;
    expect_placed(&admin, &path("whole"), "east=3 by clusterplacementpolicy/patient").await;
    expect_placed(&admin, &path("divided"), "east=2 north=2 west=2 by annotation").await;
    // No cluster is Ready any more before the next one would be.
    live(&admin).await;
    let before = placements(&admin).await;
    eventually("all clusters are silent", async || ready("False").await).await;
    // The event comes when replicas would be replaced otherwise.
    eventually("an event says what the control plane suspects", async || {
        let events = admin.get("/api/v1/events").await.expect(200);
        events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "ControlPlaneSuspect")
    })
    .await;
    assert_eq!(placements(&admin).await, before, "no placement is written");
    eventually("all clusters are back", async || {
        live(&admin).await;
        ready("True").await
    })
    .await;
    assert_eq!(placements(&admin).await, before, "no placement is written");
}

/// The control plane is cut off, and the last heartbeat of one cluster arrived long before those of the others: when it
/// would fail over, the others are still Ready, but late.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_becomes_unready_first_waits_for_others_that_are_late() {
    let controllers = format!("{CONTROLLERS},clusterhealth");
    let setup = Setup::new().flag("--controllers", controllers).flag("--cluster-grace-period", 20);
    let atoll = setup.start();
    let admin = atoll.admin();
    for (name, _) in SIZES {
        let cluster = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": { "mode": "none" },
        });
        admin.post(CLUSTERS, cluster).await.expect(201);
    }
    let ready = async |name: &str, expected: &str| {
        let cluster = admin.get(&format!("{CLUSTERS}/{name}")).await.expect(200);
        condition(&cluster, "Ready").0 == expected
    };
    for (name, _) in SIZES {
        eventually("all clusters are ready", async || {
            live(&admin).await;
            ready(name, "True").await
        })
        .await;
    }
    admin.post(DEPLOYMENTS, deployment("web", 3, REQUEST)).await.expect(201);
    expect_placed(&admin, &path("web"), "east=3 by default").await;
    eventually("the first cluster is silent", async || {
        live_without(&admin, "east").await;
        ready("east", "False").await
    })
    .await;
    let before = placements(&admin).await;
    // The others become unready 20 seconds later, and the first one would be lost after 15.
    for name in ["north", "west"] {
        eventually("the others are silent", async || ready(name, "False").await).await;
    }
    eventually("an event says what the control plane suspects", async || {
        let events = admin.get("/api/v1/events").await.expect(200);
        events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "ControlPlaneSuspect")
    })
    .await;
    assert_eq!(placements(&admin).await, before, "no placement is written");
}
