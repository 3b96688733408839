//! Regression tests for defects that random runs have found.

use atoll_client::PatchType;
use serde_json::json;

use crate::objects::{CLUSTER_NAMES, NamespaceRef, ObjectRef, WORKSPACES};
use crate::run::Simulation;
use crate::simulated;
use crate::wire::NetworkState;

/// Returns a settled run with one object in the cluster.
async fn settled_run() -> (Simulation, String) {
    let mut run = Simulation::new(0).await;
    run.start();
    let map = ObjectRef::in_root("configmaps", "shop", "a");
    run.create_object(&map, 1, None).await;
    run.place(&map, json!([{ "name": CLUSTER_NAMES[0] }])).await;
    let path = map.path();
    run.settle().await.expect("above and below agree");
    (run, path)
}

/// The credentials lead to another cluster between two heartbeats: the syncer checks the identity when its
/// connections break.
#[test]
fn cluster_that_is_replaced_suddenly_is_not_written() {
    simulated(async {
        let (mut run, path) = settled_run().await;
        run.east().down.connect_to(&run.other);
        let change = json!({ "data": { "key": "2" } });
        run.above.client.patch(&path, PatchType::Merge, &change).await.expect("a change");
        crate::time::pass(run.interval * 10).await;
        run.east().down.connect_to(&run.east().below);
        run.settle().await.expect("nothing was written elsewhere");
    });
}

/// A delayed write arrives after later ones.
#[test]
fn delayed_writes_are_reverted() {
    simulated(async {
        let (mut run, path) = settled_run().await;
        let first = run.east().below.client.get(&path).await.expect("the object exists below");
        let change = json!({ "data": { "key": "2" } });
        run.above.client.patch(&path, PatchType::Merge, &change).await.expect("a change");
        run.settle().await.expect("above and below agree");
        let (labels, annotations) = (&first["metadata"]["labels"], &first["metadata"]["annotations"]);
        let late = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": first["data"],
            "metadata": { "name": "a", "namespace": "shop", "labels": labels, "annotations": annotations },
        });
        let applied = format!("{path}?fieldManager=atoll&force=true");
        run.east()
            .below
            .client
            .patch(&applied, PatchType::Apply, &late)
            .await
            .expect("the delayed write succeeds");
        run.settle().await.expect("the delayed write is reverted");
    });
}

/// A removed cluster was claimed again by a syncer that was still running, so that no control plane could
/// join it.
#[test]
fn removed_cluster_is_not_claimed_again() {
    simulated(async {
        let (mut run, _) = settled_run().await;
        run.leave_and_join(0).await.expect("the cluster leaves and joins");
    });
}

/// A temporary rejection while checking whether a namespace is empty kept the namespace forever.
#[test]
fn namespace_is_deleted_despite_temporary_rejections() {
    for (path, code) in [
        ("/api/v1/namespaces/shop/endpoints", 403),
        ("/apis/batch/v1/namespaces/shop/jobs", 403),
        ("/apis/batch/v1/namespaces/shop/jobs", 500),
        ("/apis/batch/v1", 503),
        ("/apis/batch/v1", 500),
    ] {
        simulated(async {
            let (mut run, _) = settled_run().await;
            run.east().down.reject_next(path, code, 2);
            run.delete_namespace_of(NamespaceRef { workspace: &WORKSPACES[0], namespace: "shop" }).await;
            run.settle().await.unwrap_or_else(|wrong| panic!("{path} {code}: {wrong}"));
        });
    }
}

/// A reference moved from one object to another while the controllers were disconnected. They observed one
/// change before the other, and deleted and recreated the dependent that was referenced all the time.
#[test]
fn dependent_is_kept_while_its_referrer_changes() {
    for (from, to) in [
        ("deployments", "statefulsets"),
        ("statefulsets", "deployments"),
        ("jobs", "deployments"),
        ("deployments", "jobs"),
        ("statefulsets", "jobs"),
        ("jobs", "statefulsets"),
    ] {
        simulated(async {
            let mut run = Simulation::new(0).await;
            run.start();
            let (from, to) = (ObjectRef::in_root(from, "shop", "a"), ObjectRef::in_root(to, "shop", "b"));
            let claim = ObjectRef::in_root("persistentvolumeclaims", "shop", "a");
            // With this number the object refers to the claim.
            for object_ref in [claim, from, to] {
                run.create_object(&object_ref, 30, None).await;
            }
            run.place(&from, json!([{ "name": CLUSTER_NAMES[0] }])).await;
            run.settle().await.expect("above and below agree");
            run.controllers_wire.set(NetworkState::Down);
            // One change is observed long before the other.
            run.controllers_wire.reject_next(&format!("/clusters/*{}", to.kind.list()), 503, 5);
            run.place(&to, json!([{ "name": CLUSTER_NAMES[0] }])).await;
            crate::time::pass(run.interval).await;
            run.place(&from, json!([])).await;
            run.controllers_wire.set(NetworkState::Healthy);
            crate::time::pass(run.interval * 10).await;
            run.settle().await.unwrap_or_else(|wrong| panic!("from {from:?} to {to:?}: {wrong}"));
        });
    }
}
