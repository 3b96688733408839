//! Objects placed on real clusters that run containers. There are two clusters: the control plane syncs one,
//! and `atoll syncer` the other. Without the required programs or rights nothing is tested, and a line with
//! `skipped:` gives the reason. See `upstream/cluster`.
//!
//! All steps are in one test, because a cluster takes long to start. The application's steps are in
//! `sync/application.rs` and are the same on simulated clusters.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

#[path = "../sync/application.rs"]
mod application;
#[path = "../sync/joining.rs"]
#[allow(dead_code, reason = "other tests join clusters in pull mode")]
mod joining;
#[path = "../sync/objects.rs"]
mod objects;
#[path = "../support/support.rs"]
mod support;

mod comparison;
mod containers;
mod leaving;

use std::path::Path;
use std::time::Instant;

use atoll_testkit::{Atoll, Client, RealCluster};
use serde_json::{Value, json};

use crate::application::{Site, names};
use crate::containers::{running_containers, wait_until_reachable};
use crate::joining::{Mode, join, start_agent};
use crate::objects::{create, object, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn applications_run_on_real_clusters() {
    let began = Instant::now();
    let Some([east, west]) = RealCluster::start() else { return };
    let report_progress = |what: &str| println!("{what} after {:?}", began.elapsed());
    report_progress("two clusters are ready");
    let mut atoll = Atoll::start();
    let credentials = tempfile::tempdir().unwrap();
    let control_plane = atoll.kubeconfig();
    join(&control_plane, "east", &east.kubeconfig(), Mode::Push, credentials.path());
    let _syncer =
        start_agent(&join(&control_plane, "west", &west.kubeconfig(), Mode::None, credentials.path()));
    let site = |cluster: &RealCluster, name, namespace| Site {
        above: atoll.admin(),
        control_plane: control_plane.clone(),
        below: Client::from_kubeconfig(&cluster.kubeconfig()),
        cluster: name,
        namespace,
    };
    let pushed = site(&east, "east", "shop-pushed");
    let agent_synced = site(&west, "west", "shop-drawn");
    for site in [&pushed, &agent_synced] {
        wait_for("the cluster is ready", &site.above, &cluster(site.cluster), is_ready).await;
        create_volume(&site.below).await;
    }
    report_progress("both have joined");

    tokio::join!(pushed.deploy_and_check(), agent_synced.deploy_and_check());
    report_progress("applications run");
    for (site, cluster) in [(&pushed, &east), (&agent_synced, &west)] {
        wait_until_reachable(site, cluster).await;
        wait_for_events(site).await;
    }
    tokio::join!(pushed.change_and_check(), agent_synced.change_and_check());
    report_progress("changes are applied");
    tokio::join!(wait_until_settled(&pushed), wait_until_settled(&agent_synced));
    comparison::wait_until_equal(&pushed, &agent_synced).await;

    // Containers keep running without the control plane, and are not restarted when it is back.
    let before = [running_containers(&pushed).await, running_containers(&agent_synced).await];
    atoll.kill();
    atoll.restart();
    tokio::join!(relabel(&pushed), relabel(&agent_synced));
    assert_eq!(
        [running_containers(&pushed).await, running_containers(&agent_synced).await],
        before,
        "containers must not be restarted"
    );
    report_progress("the control plane was killed, and is back");

    tokio::join!(pushed.delete_and_check(), agent_synced.delete_and_check());
    report_progress("applications are gone");
    leaving::remove_with_workloads(&pushed).await;
    leaving::remove_keeping_workloads(&agent_synced).await;
    report_progress("clusters have left");
    leaving::join_observed(&agent_synced, &west).await;
    report_progress("the observed cluster is reported");
}

fn cluster(name: &str) -> String {
    format!("/apis/atoll.dev/v1alpha1/clusters/{name}")
}

fn is_ready(cluster: &Value) -> bool {
    let is = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    cluster["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is))
}

/// Creates a volume for the application's claim, because these clusters have no provisioner.
async fn create_volume(below: &Client) {
    let spec = json!({
        "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"],
        "hostPath": { "path": "/var/lib/kubelet/disk", "type": "DirectoryOrCreate" },
    });
    let create_volume = object("v1", "PersistentVolume", "disk", json!({ "spec": spec }));
    create(below, "/api/v1/persistentvolumes", create_volume).await;
}

/// Waits until terminating Pods are gone and only the desired ones are left.
async fn wait_until_settled(site: &Site<'_>) {
    wait_for("only the desired Pods are left", &site.below, &site.collection("pods"), |pods| {
        let pods = pods["items"].as_array().unwrap();
        pods.len() == 7 && pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    })
    .await;
    let web = site.path("deployments/web");
    wait_for("all replicas are available", &site.above, &web, |web| {
        web["status"]["availableReplicas"] == 5 && web["status"]["unavailableReplicas"].is_null()
    })
    .await;
}

/// Waits until events of the cluster's controllers about the application are visible above.
async fn wait_for_events(site: &Site<'_>) {
    let is_scaling =
        |event: &Value| event["reason"] == "ScalingReplicaSet" && event["involvedObject"]["name"] == "web";
    wait_for("events are visible above", &site.above, &site.collection("events"), |events| {
        events["items"].as_array().unwrap().iter().any(is_scaling)
    })
    .await;
}

/// Adds a label to all objects, so that each is synced again without changing a pod template.
async fn relabel(site: &Site<'_>) {
    for name in names() {
        let path = site.path(&name);
        let patch = json!({ "metadata": { "labels": { "round": "two" } } });
        site.above.merge(&path, patch).await.expect(200);
        wait_for(&format!("the label of {name} is applied below"), &site.below, &path, |object| {
            object["metadata"]["labels"]["round"] == "two"
        })
        .await;
    }
}

/// Runs a CLI command against the control plane and returns its output.
fn command(control_plane: &Path, words: &str) -> String {
    let mut command = atoll_testkit::atoll(&words.split(' ').collect::<Vec<_>>());
    atoll_testkit::succeed(command.arg("--kubeconfig").arg(control_plane))
}
