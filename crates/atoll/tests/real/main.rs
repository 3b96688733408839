//! Objects that are placed on real clusters, where containers run. There are two: one that the control plane syncs by itself
//! and one that `atoll syncer` does. Without the programs for that, or without being allowed to use them, nothing is tested, and
//! `skipped:` says why; see `upstream/cluster`.
//!
//! It is all one test, for a cluster takes a while to start. What happens to the applications is in `sync/application.rs`, and
//! the same as on simulated clusters.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

#[path = "../sync/application.rs"]
mod application;
#[path = "../sync/joining.rs"]
mod joining;
#[path = "../sync/objects.rs"]
mod objects;
#[allow(dead_code, reason = "every suite uses a part of this")]
#[path = "../sim/running.rs"]
mod running;
#[path = "../support/support.rs"]
mod support;

mod containers;
mod leaving;
mod portrait;

use std::path::Path;
use std::time::Instant;

use atoll_testkit::RealCluster;
use serde_json::{Value, json};

use crate::application::{Site, names};
use crate::containers::{answers, run};
use crate::joining::{Mode, join, syncer};
use crate::objects::{becomes, create, object};
use crate::support::access::Access;
use crate::support::process::Atoll;

#[tokio::test(flavor = "multi_thread")]
async fn applications_run_on_real_clusters() {
    let began = Instant::now();
    let Some([east, west]) = RealCluster::start() else { return };
    let said = |what: &str| println!("{what} after {:?}", began.elapsed());
    said("two clusters are ready");
    let mut atoll = Atoll::start();
    let papers = tempfile::tempdir().unwrap();
    let control_plane = atoll.admin_kubeconfig();
    join(&control_plane, "east", &east.kubeconfig(), Mode::Push, papers.path());
    let _syncer = syncer(&join(&control_plane, "west", &west.kubeconfig(), Mode::None, papers.path()));
    let site = |cluster: &RealCluster, name, namespace| Site {
        above: atoll.admin(),
        control_plane: control_plane.clone(),
        below: Access::from_kubeconfig(&cluster.kubeconfig()),
        cluster: name,
        namespace,
    };
    let pushed = site(&east, "east", "shop-pushed");
    let drawn = site(&west, "west", "shop-drawn");
    for site in [&pushed, &drawn] {
        becomes("the cluster is ready", &site.above, &cluster(site.cluster), is_ready).await;
        volume(&site.below).await;
    }
    said("both have joined");

    tokio::join!(pushed.arrives(), drawn.arrives());
    said("applications run");
    for (site, cluster) in [(&pushed, &east), (&drawn, &west)] {
        answers(site, cluster).await;
        heard(site).await;
    }
    tokio::join!(pushed.follows(), drawn.follows());
    said("changes have followed");
    tokio::join!(settled(&pushed), settled(&drawn));
    portrait::become_equal(&pushed, &drawn).await;

    // Without the control plane everything goes on, and nothing is touched when it is back.
    let before = [run(&pushed).await, run(&drawn).await];
    atoll.kill();
    atoll.restart();
    tokio::join!(labelled(&pushed), labelled(&drawn));
    assert_eq!([run(&pushed).await, run(&drawn).await], before, "containers are not those of before");
    said("the control plane was killed, and is back");

    tokio::join!(pushed.goes(), drawn.goes());
    said("applications are gone");
    leaving::with_workloads(&pushed).await;
    leaving::without_workloads(&drawn).await;
    said("clusters have left");
    leaving::observed(&drawn, &west).await;
    said("all was seen");
}

fn cluster(name: &str) -> String {
    format!("/apis/atoll.dev/v1alpha1/clusters/{name}")
}

fn is_ready(cluster: &Value) -> bool {
    let is = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    cluster["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is))
}

/// Something for a claim to be bound to: nobody makes volumes in these clusters.
async fn volume(below: &Access) {
    let spec = json!({
        "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"],
        "hostPath": { "path": "/var/lib/kubelet/disk", "type": "DirectoryOrCreate" },
    });
    let volume = object("v1", "PersistentVolume", "disk", json!({ "spec": spec }));
    create(below, "/api/v1/persistentvolumes", volume).await;
}

/// Waits until what is being ended has ended: the Pods that are left are those that are wanted.
async fn settled(site: &Site<'_>) {
    becomes("only those are left that are wanted", &site.below, &site.collection("pods"), |pods| {
        let pods = pods["items"].as_array().unwrap();
        pods.len() == 7 && pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    })
    .await;
    let web = site.path("deployments/web");
    becomes("all of them are available", &site.above, &web, |web| {
        web["status"]["availableReplicas"] == 5 && web["status"]["unavailableReplicas"].is_null()
    })
    .await;
}

/// Waits until what the cluster's controllers tell of the application is heard above.
async fn heard(site: &Site<'_>) {
    let is_scaling =
        |event: &Value| event["reason"] == "ScalingReplicaSet" && event["involvedObject"]["name"] == "web";
    becomes("events are heard", &site.above, &site.collection("events"), |events| {
        events["items"].as_array().unwrap().iter().any(is_scaling)
    })
    .await;
}

/// Changes everything a little, so that it is known that all of it was looked at again; but nothing that containers are made of.
async fn labelled(site: &Site<'_>) {
    for name in names() {
        let path = site.path(&name);
        let patch = json!({ "metadata": { "labels": { "round": "two" } } });
        site.above.merge(&path, patch).await.expect(200);
        becomes(&format!("{name} follows"), &site.below, &path, |object| {
            object["metadata"]["labels"]["round"] == "two"
        })
        .await;
    }
}

/// What a command of the program says, at the control plane.
fn command(control_plane: &Path, words: &str) -> String {
    let mut command = support::process::atoll(&words.split(' ').collect::<Vec<_>>());
    support::programs::succeed(command.arg("--kubeconfig").arg(control_plane))
}
