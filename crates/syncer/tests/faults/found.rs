//! Defects that were found, each by itself.

use atoll_client::PatchType;
use serde_json::json;

use crate::run::Run;
use crate::simulated;
use crate::spots::{CLUSTER, Spot};

/// A run with one object in the cluster.
async fn settled() -> (Run, String) {
    let mut run = Run::new(0).await;
    run.start();
    let map = Spot::of("configmaps", "shop", "a");
    run.make(&map, 1, None).await;
    run.place(&map, json!([{ "name": CLUSTER }])).await;
    let path = map.path();
    run.settle().await.expect("above and below agree");
    (run, path)
}

/// The credentials lead to another cluster between two heartbeats: that its connections broke makes a syncer look.
#[test]
fn a_cluster_that_is_another_one_all_of_a_sudden_is_not_written_to() {
    simulated(async {
        let (mut run, path) = settled().await;
        run.down.lead(&run.other);
        let change = json!({ "data": { "key": "2" } });
        run.above.client.patch(&path, PatchType::Merge, &change).await.expect("a change");
        crate::time::pass(run.interval * 10).await;
        run.down.lead(&run.below);
        run.settle().await.expect("nothing was written elsewhere");
    });
}

/// What was sent long ago arrives after what was sent later.
#[test]
fn what_arrives_late_does_not_stay() {
    simulated(async {
        let (mut run, path) = settled().await;
        let first = run.below.client.get(&path).await.expect("it is there");
        let change = json!({ "data": { "key": "2" } });
        run.above.client.patch(&path, PatchType::Merge, &change).await.expect("a change");
        run.settle().await.expect("above and below agree");
        let (labels, annotations) = (&first["metadata"]["labels"], &first["metadata"]["annotations"]);
        let late = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": first["data"],
            "metadata": { "name": "a", "namespace": "shop", "labels": labels, "annotations": annotations },
        });
        let applied = format!("{path}?fieldManager=atoll&force=true");
        run.below.client.patch(&applied, PatchType::Apply, &late).await.expect("it arrives");
        run.settle().await.expect("it is as it was");
    });
}

/// One that was removed was claimed again by a syncer that still took itself for its own, so nobody could join it.
#[test]
fn a_cluster_that_was_removed_is_not_claimed_again() {
    simulated(async {
        let (mut run, _) = settled().await;
        run.leave_and_join().await.expect("it leaves and joins");
    });
}
