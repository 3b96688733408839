//! A control plane that is away for a day, while everything in the cluster goes on.

use std::time::Duration;

use atoll_client::PatchType;
use atoll_meta::object;
use serde_json::{Value, json};

use crate::kinds::KINDS;
use crate::log::Written;
use crate::plane::Plane;
use crate::run::Run;
use crate::spots::{Below, CLUSTER, Room, Spot};
use crate::time;
use crate::wire::Weather;

const HOUR: Duration = Duration::from_secs(3600);

/// How it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// Nobody noticed but the syncer, which went on.
    Unchanged,
    /// The syncer was away with it, and another one comes.
    WithAnotherSyncer,
    /// From a copy of its data, as does the syncer.
    FromBackup,
}

/// What was written to the cluster from when it went until well after its return, but for leases.
pub async fn away(how: Return) -> Vec<Written> {
    let mut run = Run::new(1).await;
    run.interval = Duration::from_secs(60);
    run.start();
    for room in Room::all() {
        for kind in &KINDS {
            let spot = Spot { room, kind, name: "a" };
            run.make(&spot, 30, None).await;
            if !kind.follows() {
                run.place(&spot, json!([{ "name": CLUSTER }])).await;
            }
        }
    }
    run.settle().await.expect("above and below agree");
    let written = run.log.all().len();

    run.up.set(Weather::Out);
    let copy = run.above.copy().await;
    if how != Return::Unchanged {
        run.kill();
    }
    let web = Spot::of("deployments", "shop", "a");
    let below = Below::of(&run.below, &run.facts.control_plane).await.path(&web).expect("it is there");
    for hour in 0..24 {
        go_on(&run.below, &below, hour).await;
        time::pass(HOUR).await;
    }
    if how == Return::FromBackup {
        run.above = Plane::restored("above", run.above.clock, &copy, copy.revision).await;
        run.up.lead(&run.above);
        run.beside.lead(&run.above);
        run.govern();
    }
    if how != Return::Unchanged {
        run.start();
    }
    run.up.set(Weather::Calm);
    time::pass(HOUR).await;

    let uid = object::uid(&run.above.client.get(&web.path()).await.expect("it is still there")).to_string();
    let record = format!("/apis/atoll.dev/v1alpha1/namespaces/shop/objectstatuses/{uid}.{CLUSTER}");
    let record = run.above.client.get(&record).await.expect("a record");
    assert_eq!(
        record["status"]["status"]["readyReplicas"], 23,
        "the last that happened is known above: {how:?}"
    );
    let cluster =
        run.above.client.get(&format!("{}/{CLUSTER}", crate::run::CLUSTERS)).await.expect("a cluster");
    assert_eq!(cluster["status"]["nodes"]["total"], 24, "and so are the nodes: {how:?}");
    let since = run.log.all().split_off(written).into_iter();
    since.filter(|written| !written.is_lease()).collect()
}

/// What goes on in a cluster.
async fn go_on(below: &Plane, web: &str, hour: i64) {
    let client = &below.client;
    let node = json!({ "metadata": { "name": format!("node-{hour}") } });
    client.create("/api/v1/nodes", &node).await.expect("a node");
    let pod = json!({
        "metadata": { "name": format!("pod-{hour}") },
        "spec": { "nodeName": format!("node-{hour}"), "containers": [{ "name": "a", "image": "a" }] },
    });
    client.create("/api/v1/namespaces/default/pods", &pod).await.expect("a pod");
    let status: Value =
        json!({ "status": { "replicas": 24, "readyReplicas": hour, "observedGeneration": 1 } });
    let path = format!("{web}/status?fieldManager=kube-controller-manager");
    client.patch(&path, PatchType::Merge, &status).await.expect("a status");
    if hour % 6 == 0 {
        below.expire();
    }
}
