//! Simulated clusters whose heartbeats are late: a burst of Deployments while clusters report only every half minute, and
//! a control plane that is cut off from all of them.

use std::collections::{BTreeMap, BTreeSet};

use atoll_fleet::Placement;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Client, Setup, Watch, revision};
use serde_json::{Value, json};

use super::{REQUEST, placements};
use crate::fleet::{CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, path, wait_until};
use crate::simulated::SimulatedFleet;

/// Clusters with their nodes and the cores of each node, which are all needed.
const CLUSTERS_BELOW: [(&str, &str, &str); 3] = [("east", "3", "3"), ("north", "2", "2"), ("west", "1", "7")];
const COUNT: usize = 200;
/// Seconds between heartbeats.
const INTERVAL: u32 = 30;
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Uids of the Deployments of each cluster.
async fn placed(admin: &Client) -> BTreeMap<String, BTreeSet<String>> {
    let mut placed = BTreeMap::<String, BTreeSet<String>>::new();
    let all = admin.get(DEPLOYMENTS).await.expect(200);
    for object in all["items"].as_array().unwrap() {
        let uid = object["metadata"]["uid"].as_str().unwrap();
        for share in Placement::of(object).clusters {
            placed.entry(share.name).or_default().insert(uid.to_string());
        }
    }
    placed
}

/// Uids of the Deployments that a cluster has reported Pods of.
async fn reported(admin: &Client, cluster: &str) -> BTreeSet<String> {
    let found = admin.get(&format!("{CLUSTERS}/{cluster}")).await.expect(200);
    found["status"]["bound"].as_object().into_iter().flatten().map(|(uid, _)| uid.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_deployments_at_once_fill_clusters_whose_heartbeats_are_late() {
    let setup = Setup::new()
        .flag("--cluster-heartbeat-interval", INTERVAL)
        .flag("--cluster-grace-period", 4 * INTERVAL);
    let clusters =
        CLUSTERS_BELOW.map(|(name, nodes, cores)| (name, vec!["--nodes", nodes, "--node-cpu", cores]));
    let fleet = SimulatedFleet::start_sized(&clusters, setup).await;
    let admin = &fleet.admin;
    let anywhere = json!({ "metadata": { "name": "anywhere" }, "spec": {} });
    admin.post("/apis/atoll.dev/v1alpha1/clusterplacementpolicies", anywhere).await.expect(201);
    for (name, ..) in CLUSTERS_BELOW {
        eventually("its room is known", async || {
            let cluster = admin.get(&format!("{CLUSTERS}/{name}")).await.expect(200);
            cluster["status"]["free"].as_array().is_some_and(|free| !free.is_empty())
        })
        .await;
    }

    let mut creating = tokio::task::JoinSet::new();
    for number in 0..COUNT {
        let admin = admin.clone();
        creating.spawn(async move {
            admin.post(DEPLOYMENTS, deployment(&format!("web-{number}"), 1, REQUEST)).await.expect(201);
        });
    }
    creating.join_all().await;
    let waiting = Waiting::until("all of them are available");
    loop {
        let now = placed(admin).await;
        for (name, nodes, cores) in CLUSTERS_BELOW {
            let [nodes, cores] = [nodes, cores].map(|text| text.parse::<i64>().unwrap());
            let requested = now.get(name).map_or(0, BTreeSet::len) as i64 * REQUEST;
            assert!(requested <= nodes * cores * 1000, "{name} is overcommitted: {requested}m");
        }
        let all = admin.get(DEPLOYMENTS).await.expect(200);
        let is_available = |object: &&Value| object["status"]["availableReplicas"] == 1;
        if all["items"].as_array().unwrap().iter().filter(is_available).count() == COUNT {
            break;
        }
        waiting.again().await;
    }
    let before = placed(admin).await;
    for (name, uids) in &before {
        let known = reported(admin, name).await;
        println!(
            "{name} runs {} Deployments and has reported {}",
            uids.len(),
            known.intersection(uids).count()
        );
    }
    // The next heartbeats tell what runs, and nothing follows from them.
    for (name, uids) in &before {
        let what = format!("{name} has reported all that it runs");
        eventually(&what, async || reported(admin, name).await == *uids).await;
    }
    assert_eq!(placed(admin).await, before);
    let all = admin.get(DEPLOYMENTS).await.expect(200);
    for object in all["items"].as_array().unwrap() {
        assert_eq!(condition(object, "Placed").0, "True", "{object}");
    }
    for (name, pods) in fleet.objects(PODS).await {
        assert!(pods.iter().all(|pod| pod["status"]["phase"] == "Running"), "pods are pending on {name}");
        assert_eq!(pods.len(), before[name].len(), "{name}");
    }
}

/// Waits until all clusters have this status of the condition Ready.
async fn expect_ready(admin: &Client, status: &str) {
    eventually(&format!("Ready is {status} everywhere"), async || {
        let clusters = admin.get(CLUSTERS).await.expect(200);
        clusters["items"].as_array().unwrap().iter().all(|cluster| condition(cluster, "Ready").0 == status)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_placement_is_written_while_the_network_of_the_control_plane_is_cut() {
    let setup = Setup::new().flag("--cluster-grace-period", 10).flag("--cluster-heartbeat-interval", 2);
    let fleet = SimulatedFleet::start_with(&["east", "north", "west"], setup).await;
    let admin = &fleet.admin;
    // On a busy machine, one cluster may be silent for longer than the default before the others are.
    let policy = json!({
        "replicas": { "division": "Even" }, "failover": { "after": "20s" }, "failback": { "after": "1s" },
    });
    fleet.create_policy("spread", policy).await;
    admin.post(DEPLOYMENTS, deployment("divided", 6, REQUEST)).await.expect(201);
    admin.post(DEPLOYMENTS, annotated(deployment("whole", 3, REQUEST), "east")).await.expect(201);
    let mut before = Value::Null;
    for (name, replicas) in [("divided", 6), ("whole", 3)] {
        before = wait_until(admin, &path(name), "it is available", |object| {
            object["status"]["availableReplicas"] == replicas && condition(object, "Placed").0 == "True"
        })
        .await;
    }
    let (since, known) = (revision(&before), placements(admin).await);
    fleet.below.values().for_each(|cluster| drop(cluster.fault("add partition")));
    expect_ready(admin, "False").await;
    // The event comes when replicas would be replaced otherwise.
    eventually("an event says what the control plane suspects", async || {
        let events = admin.get("/api/v1/events").await.expect(200);
        events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "ControlPlaneSuspect")
    })
    .await;
    fleet.below.values().for_each(|cluster| drop(cluster.fault("clear")));
    expect_ready(admin, "True").await;
    let mut last = Value::Null;
    for (name, replicas) in [("divided", 6), ("whole", 3)] {
        last = wait_until(admin, &path(name), "it is available again", |object| {
            object["status"]["availableReplicas"] == replicas && condition(object, "Placed").0 == "True"
        })
        .await;
    }
    // Not even for a moment was one of them placed otherwise.
    let mut watch = Watch::open(admin, &format!("{DEPLOYMENTS}?watch=true&resourceVersion={since}")).await;
    loop {
        let event = watch.event().await;
        assert_eq!(known[event.name()], Placement::of(&event.object), "{}", event.object);
        if event.revision() >= revision(&last) {
            break;
        }
    }
    assert_eq!(placements(admin).await, known);
}
