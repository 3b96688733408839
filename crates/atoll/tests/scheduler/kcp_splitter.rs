//! The improvements that kcp's document asks of its splitter, on simulated clusters: respect for Ready, hints about
//! affinity, dependencies that are placed as well, new clusters that take a part, lost clusters that are left, and all types.

use std::collections::BTreeMap;

use atoll_fleet::Placement;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Atoll, Setup};
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, path, summary, wait_until,
};
use crate::other_kinds::{MAPS, SERVICES, WIDGETS, config_map, define_widgets, widget};
use crate::simulated::{POLICIES, SimulatedFleet};

const APPS: &str = "/apis/apps/v1/namespaces/default";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// A workload of another kind than Deployment.
fn workload(kind: &str, name: &str, replicas: i64) -> Value {
    let mut object = deployment(name, replicas, 10);
    object["kind"] = kind.into();
    if kind == "DaemonSet" {
        object["spec"].as_object_mut().unwrap().remove("replicas");
    } else {
        object["spec"]["serviceName"] = name.into();
    }
    object
}

/// Waits until exactly these clusters have an object.
async fn expect_in(fleet: &SimulatedFleet, path: &str, clusters: &[&str]) {
    let what = format!("{path} is in {clusters:?}");
    let (waiting, mut last) = (Waiting::until(&what), Vec::new());
    loop {
        let mut now = Vec::new();
        for (name, cluster) in &fleet.below {
            if cluster.admin().get(path).await.status == 200 {
                now.push(*name);
            }
        }
        if now == clusters {
            return;
        }
        if now != last {
            eprintln!("{path} is in {now:?}");
            last = now;
        }
        waiting.again().await;
    }
}

/// Ready replicas of a Deployment in each cluster that has it.
async fn ready(fleet: &SimulatedFleet, name: &str) -> BTreeMap<&'static str, i64> {
    let mut found = BTreeMap::new();
    for (cluster, below) in &fleet.below {
        let object = below.admin().get(&path(name)).await;
        if object.status == 200 {
            found.insert(*cluster, object.json()["status"]["readyReplicas"].as_i64().unwrap_or(0));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn splitter_respects_ready_leaves_lost_clusters_and_uses_new_ones() {
    let setup = Setup::new().flag("--cluster-grace-period", 10).flag("--cluster-heartbeat-interval", 2);
    let mut fleet = SimulatedFleet::start_with(&["east", "west"], setup).await;
    let admin = fleet.admin.clone();
    let soon = json!({ "after": "1s" });
    let even = json!({ "replicas": { "division": "Even" }, "failover": soon, "failback": soon });
    fleet.create_policy("even", even).await;
    let by = "by placementpolicy/even";
    admin.post(DEPLOYMENTS, deployment("web", 6, 10)).await.expect(201);
    expect_placed(&admin, &path("web"), &format!("east=3 west=3 {by}")).await;
    wait_until(&admin, &path("web"), "it is available", |web| web["status"]["availableReplicas"] == 6).await;

    // Its replicas leave a cluster that is lost.
    fleet.below.get_mut("west").unwrap().kill();
    let at = format!("{CLUSTERS}/west");
    wait_until(&admin, &at, "it is not Ready", |west| condition(west, "Ready").0 == "False").await;
    wait_until(&admin, &path("web"), "its share is replaced", |web| {
        summary(web) == format!("east=6 {by}") && web["status"]["availableReplicas"] == 6
    })
    .await;
    // New work goes only where it can run.
    admin.post(DEPLOYMENTS, deployment("late", 4, 10)).await.expect(201);
    expect_placed(&admin, &path("late"), &format!("east=4 {by}")).await;

    // A new cluster takes its part, and so does one that returns.
    let north = Atoll::simulate(&["--name", "north", "--nodes", "1"]);
    fleet.above.run(&format!("cluster join north --kubeconfig {}", north.kubeconfig().display()));
    fleet.below.insert("north", north);
    expect_placed(&admin, &path("late"), &format!("east=2 north=2 {by}")).await;
    fleet.below.get_mut("west").unwrap().restart();
    wait_until(&admin, &path("web"), "it is divided by three", |web| {
        summary(web) == format!("east=2 north=2 west=2 {by}") && Placement::of(web).phase.is_empty()
    })
    .await;
    eventually("its Pods are there", async || ready(&fleet, "web").await.values().eq([&2, &2, &2])).await;
    let late = wait_until(&admin, &path("late"), "it is available", |late| {
        late["status"]["availableReplicas"] == 4 && Placement::of(late).clusters.len() == 3
    })
    .await;
    let mut shares: Vec<i64> =
        Placement::of(&late).clusters.iter().filter_map(|share| share.replicas).collect();
    shares.sort_unstable();
    assert_eq!(shares, [1, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn splitter_follows_hints_takes_dependencies_along_and_places_all_types() {
    let fleet = SimulatedFleet::start(&["east", "west"]).await;
    let admin = fleet.admin.clone();

    // Hints: together with one workload, and apart from another.
    let near = |key: &str, name: &str, app: &str| {
        let rule = json!({ "selector": { "matchLabels": { "app": app } } });
        let mut policy = json!({ "metadata": { "name": name }, "spec": { "objects": [{ "name": name }] } });
        policy["spec"][key] = json!([rule]);
        policy
    };
    admin.post(POLICIES, near("affinity", "cache", "db")).await.expect(201);
    admin.post(POLICIES, near("antiAffinity", "standby", "db")).await.expect(201);
    // One that depends on them all is placed by default.
    admin
        .post(&format!("{APPS}/statefulsets"), annotated(workload("StatefulSet", "db", 2), "west"))
        .await
        .expect(201);
    expect_in(&fleet, &format!("{APPS}/statefulsets/db"), &["west"]).await;
    for (name, cluster) in [("cache", "west"), ("standby", "east")] {
        admin.post(DEPLOYMENTS, deployment(name, 2, 10)).await.expect(201);
        expect_placed(&admin, &path(name), &format!("{cluster}=2 by placementpolicy/{name}")).await;
        expect_in(&fleet, &path(name), &[cluster]).await;
    }

    // Dependencies: by reference and by selector.
    admin.post(MAPS, config_map("settings")).await.expect(201);
    let ports = json!([{ "port": 80 }]);
    let service =
        json!({ "metadata": { "name": "web" }, "spec": { "selector": { "app": "web" }, "ports": ports } });
    admin.post(SERVICES, service).await.expect(201);
    let mut web = annotated(deployment("web", 2, 10), "east=1,west=1");
    let settings = json!([{ "configMapRef": { "name": "settings" } }]);
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = settings;
    admin.post(DEPLOYMENTS, web).await.expect(201);
    for dependent in [format!("{MAPS}/settings"), format!("{SERVICES}/web")] {
        expect_in(&fleet, &dependent, &["east", "west"]).await;
    }
    wait_until(&admin, &path("web"), "it is available", |web| web["status"]["availableReplicas"] == 2).await;

    // All types: a Pod on every node, storage, and objects of a custom type.
    admin
        .post(&format!("{APPS}/daemonsets"), annotated(workload("DaemonSet", "agent", 0), "east,west"))
        .await
        .expect(201);
    let agent = format!("{APPS}/daemonsets/agent");
    wait_until(&admin, &agent, "it runs on all nodes", |agent| agent["status"]["numberReady"] == 2).await;
    let volume = json!({ "metadata": { "name": "disk" }, "spec": {
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/data" },
        "storageClassName": "manual",
    } });
    admin.post(VOLUMES, annotated(volume, "west")).await.expect(201);
    expect_in(&fleet, &format!("{VOLUMES}/disk"), &["west"]).await;
    for client in [&admin, &fleet.below["east"].admin()] {
        define_widgets(client, "").await;
    }
    admin.post(WIDGETS, annotated(widget("a"), "east")).await.expect(201);
    expect_in(&fleet, &format!("{WIDGETS}/a"), &["east"]).await;
}
