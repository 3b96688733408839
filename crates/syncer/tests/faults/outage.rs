//! A day without the control plane, while the cluster keeps changing.

use std::time::Duration;

use atoll_client::PatchType;
use atoll_meta::object;
use serde_json::{Value, json};

use crate::kinds::KINDS;
use crate::log::WriteRecord;
use crate::objects::{BelowState, CLUSTER_NAMES, NamespaceRef, ObjectRef};
use crate::run::{Simulation, Site};
use crate::test_server::TestServer;
use crate::time;
use crate::wire::NetworkState;

const HOUR: Duration = Duration::from_secs(3600);

/// How the control plane comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnMode {
    /// With its data. The syncer kept running.
    Unchanged,
    /// With its data and a new syncer.
    WithAnotherSyncer,
    /// With a backup of its data and a new syncer.
    FromBackup,
}

/// Returns the writes to the cluster from the start of the outage until well after its end, except leases.
pub async fn writes_after_outage(mode: ReturnMode) -> Vec<WriteRecord> {
    let mut run = Simulation::new(1).await;
    run.interval = Duration::from_secs(60);
    run.start();
    for namespace_ref in NamespaceRef::all() {
        for kind in &KINDS {
            let object_ref = ObjectRef { namespace_ref, kind, name: "a" };
            run.create_object(&object_ref, 30, None).await;
            if !kind.is_dependent_kind() {
                run.place(&object_ref, json!([{ "name": CLUSTER_NAMES[0] }])).await;
            }
        }
    }
    run.settle().await.expect("above and below agree");
    let written = run.writes().len();

    run.sites.iter().for_each(|site| site.up.set(NetworkState::Down));
    let copy = run.above.backup().await;
    if mode != ReturnMode::Unchanged {
        run.sites.iter_mut().for_each(Site::kill);
    }
    let deployment = ObjectRef::in_root("deployments", "shop", "a");
    let below = BelowState::read(&run.east().below, &run.control_plane)
        .await
        .path(&deployment)
        .expect("the Deployment exists below");
    for hour in 0..24 {
        change_cluster(&run.east().below, &below, hour).await;
        time::pass(HOUR).await;
    }
    if mode == ReturnMode::FromBackup {
        run.above = TestServer::restored("above", run.above.clock, &copy, copy.revision).await;
        run.connect_to_restored();
    }
    if mode != ReturnMode::Unchanged {
        run.start();
    }
    run.sites.iter().for_each(|site| site.up.set(NetworkState::Healthy));
    time::pass(HOUR).await;

    let uid =
        object::uid(&run.above.client.get(&deployment.path()).await.expect("the Deployment exists above"))
            .to_string();
    let record =
        format!("/apis/atoll.dev/v1alpha1/namespaces/shop/objectstatuses/{uid}.{}", CLUSTER_NAMES[0]);
    let record = run.above.client.get(&record).await.expect("a record");
    assert_eq!(
        record["status"]["status"]["readyReplicas"], 23,
        "the last status must be known above: {mode:?}"
    );
    let cluster = run
        .above
        .client
        .get(&format!("{}/{}", crate::run::CLUSTERS, CLUSTER_NAMES[0]))
        .await
        .expect("a cluster");
    assert_eq!(cluster["status"]["nodes"]["total"], 24, "the number of nodes must be known above: {mode:?}");
    let since = run.writes().split_off(written).into_iter();
    since.filter(|written| !written.is_lease()).collect()
}

/// Changes in the cluster.
async fn change_cluster(below: &TestServer, deployment: &str, hour: i64) {
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
    let path = format!("{deployment}/status?fieldManager=kube-controller-manager");
    client.patch(&path, PatchType::Merge, &status).await.expect("a status");
    if hour % 6 == 0 {
        below.expire();
    }
}
