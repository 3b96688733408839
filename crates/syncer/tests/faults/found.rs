//! Defects that were found, each by itself.

use atoll_client::PatchType;
use serde_json::json;

use crate::run::Run;
use crate::simulated;
use crate::spots::{CLUSTER, Room, SPACES, Spot};
use crate::wire::Weather;

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

/// Somebody said no in passing, whenever it was looked whether anything is left in a namespace, and it stayed for good.
#[test]
fn a_namespace_goes_although_somebody_says_no_in_passing() {
    for (path, code) in [
        ("/api/v1/namespaces/shop/endpoints", 403),
        ("/apis/batch/v1/namespaces/shop/jobs", 403),
        ("/apis/batch/v1/namespaces/shop/jobs", 500),
        ("/apis/batch/v1", 503),
        ("/apis/batch/v1", 500),
    ] {
        simulated(async {
            let (mut run, _) = settled().await;
            run.down.refuse(path, code, 2);
            run.end_of(Room { space: &SPACES[0], namespace: "shop" }).await;
            run.settle().await.unwrap_or_else(|wrong| panic!("{path} {code}: {wrong}"));
        });
    }
}

/// A reference moved from one object to another while the controllers were cut off. They heard of the one before they heard of
/// the other, and what was referred to all the time was deleted and made anew.
#[test]
fn what_is_referred_to_all_the_time_stays() {
    for (from, to) in [
        ("deployments", "statefulsets"),
        ("statefulsets", "deployments"),
        ("jobs", "deployments"),
        ("deployments", "jobs"),
        ("statefulsets", "jobs"),
        ("jobs", "statefulsets"),
    ] {
        simulated(async {
            let mut run = Run::new(0).await;
            run.start();
            let (from, to) = (Spot::of(from, "shop", "a"), Spot::of(to, "shop", "b"));
            let claim = Spot::of("persistentvolumeclaims", "shop", "a");
            // This number refers to the claim, among others.
            for spot in [claim, from, to] {
                run.make(&spot, 30, None).await;
            }
            run.place(&from, json!([{ "name": CLUSTER }])).await;
            run.settle().await.expect("above and below agree");
            run.beside.set(Weather::Out);
            // One is heard of long before the other.
            run.beside.refuse(&format!("/clusters/*{}", to.kind.list()), 503, 5);
            run.place(&to, json!([{ "name": CLUSTER }])).await;
            crate::time::pass(run.interval).await;
            run.place(&from, json!([])).await;
            run.beside.set(Weather::Calm);
            crate::time::pass(run.interval * 10).await;
            run.settle().await.unwrap_or_else(|wrong| panic!("from {from:?} to {to:?}: {wrong}"));
        });
    }
}
