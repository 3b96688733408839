//! Clusters, syncers and credentials fail, each in a way of its own: the Cluster says which, and all is well again by itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::running::fault;
use crate::support::access::Access;
use crate::support::eventually;
use crate::support::process::Setup;
use crate::{Fleet, Mode, becomes, join, syncer};

pub const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";
pub const SECRET: &str = "/api/v1/namespaces/atoll-system/secrets/cluster-east";
const HEARTBEAT: &str = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/cluster-east";
const LEASE_BELOW: &str = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/atoll-syncer";
/// Long enough that a busy machine is in time with its heartbeats.
pub const GRACE: u32 = 12;

fn fleet(mode: Mode) -> Fleet {
    Fleet::with(Setup::new().flag("--cluster-grace-period", GRACE), mode, &["east"])
}

pub fn condition(cluster: &Value, kind: &str) -> (String, String, String) {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_string();
    (text("status"), text("reason"), text("message"))
}

pub async fn turns_ready(above: &Access) {
    becomes("it is ready", above, EAST, |cluster| condition(cluster, "Ready").0 == "True").await;
}

/// Waits until it is not ready for this reason; what the message says then, and whether it can be reached.
pub async fn fails(above: &Access, reason: &str) -> (String, String) {
    fails_by(above, &[reason]).await
}

/// The same for one of several reasons.
async fn fails_by(above: &Access, reasons: &[&str]) -> (String, String) {
    let mut said = None;
    eventually(&reasons.join(" or "), async || {
        let cluster = above.get(EAST).await.expect(200);
        let (status, why, message) = condition(&cluster, "Ready");
        if status == "False" && reasons.contains(&why.as_str()) {
            assert_eq!(condition(&cluster, "Schedulable").0, "False");
            said = Some((message, condition(&cluster, "Reachable").0));
        }
        said.is_some()
    })
    .await;
    said.unwrap()
}

/// The kubeconfig of a Secret, with something else in it.
pub async fn replace(above: &Access, from: &str, to: impl Fn(&str) -> String) {
    let secret = above.get(SECRET).await.expect(200);
    let text = STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    let old = config.pointer(from).unwrap().as_str().unwrap();
    let replaced = STANDARD.encode(text.replace(old, &to(old)));
    above.merge(SECRET, json!({ "data": { "kubeconfig": replaced } })).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_fails_says_why_and_one_that_fails_often_is_not_believed_at_once() {
    let mut fleet = fleet(Mode::Push);
    let above = fleet.admin();
    turns_ready(&above).await;
    let lease = above.get(HEARTBEAT).await.expect(200);
    assert_eq!(lease["metadata"]["labels"]["atoll.dev/cluster"], "east");
    assert_eq!(lease["spec"]["holderIdentity"], "push");

    fleet.clusters[0].running = None;
    let (message, reachable) = fails(&above, "ConnectionRefused").await;
    assert!(message.contains("kubectl --kubeconfig FILE get --raw /readyz"), "{message}");
    assert_eq!(reachable, "False");
    fleet.clusters[0].resume();
    turns_ready(&above).await;

    replace(&above, "/users/0/user/token", |_| "wrong".into()).await;
    let (message, _) = fails(&above, "CredentialsRefused").await;
    assert!(message.contains("atoll cluster join east --kubeconfig FILE"), "{message}");
    let again =
        |fleet: &Fleet| join(&fleet.atoll.admin_kubeconfig(), &fleet.clusters[0], Mode::Push, "/".as_ref());
    again(&fleet);
    turns_ready(&above).await;

    above.delete(SECRET).await.expect(200);
    let (message, _) = fails(&above, "CredentialsMissing").await;
    assert!(message.contains("there is no Secret atoll-system/cluster-east"), "{message}");
    // It is said for as long as it is so: somebody is there who says it.
    let renewed = above.get(HEARTBEAT).await.expect(200)["spec"]["renewTime"].clone();
    becomes("it is said again", &above, HEARTBEAT, |lease| lease["spec"]["renewTime"] != renewed).await;
    again(&fleet);
    turns_ready(&above).await;

    // Enough of that.
    replace(&above, "/clusters/0/cluster/certificate-authority-data", |_| STANDARD.encode("no certificate"))
        .await;
    fails(&above, "CredentialsBroken").await;
    again(&fleet);
    let (message, reachable) = fails(&above, "Flapping").await;
    assert!(message.contains(" times since ") && message.contains("it is ready again at "), "{message}");
    assert_eq!(reachable, "True");
    turns_ready(&above).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_and_authorities_that_are_gone_are_told_apart() {
    let fleet = fleet(Mode::Push);
    let above = fleet.admin();
    turns_ready(&above).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let east = fleet.clusters[0].admin();
    east.delete(&format!("{roles}/clusterrolebindings/atoll-syncer")).await.expect(200);
    let (message, _) = fails(&above, "PermissionsMissing").await;
    assert!(message.contains("atoll cluster join east --kubeconfig FILE"), "{message}");
    let again = || join(&fleet.atoll.admin_kubeconfig(), &fleet.clusters[0], Mode::Push, "/".as_ref());
    again();
    turns_ready(&above).await;
    // Another authority than the one that was known.
    let control_plane = std::fs::read(fleet.atoll.directory.join("ca.crt")).unwrap();
    let other = STANDARD.encode(control_plane);
    replace(&above, "/clusters/0/cluster/certificate-authority-data", |_| other.clone()).await;
    fails(&above, "CertificateUntrusted").await;
    again();
    turns_ready(&above).await;
    // The credentials lead to another cluster.
    let west = crate::Cluster::start("west");
    let admin: Value = serde_saphyr::from_str(&std::fs::read_to_string(west.kubeconfig()).unwrap()).unwrap();
    let made = above.get(EAST).await.expect(200)["spec"]["credentials"]["secret"].clone();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "another", "namespace": "atoll-system" },
        "data": { "kubeconfig": STANDARD.encode(admin.to_string()) },
    });
    above.post("/api/v1/namespaces/atoll-system/secrets", secret).await.expect(201);
    let named = json!({ "namespace": "atoll-system", "name": "another" });
    above.merge(EAST, json!({ "spec": { "credentials": { "secret": named } } })).await.expect(200);
    // Naming a Secret is not enough: it has to be of this cluster.
    let (message, _) = fails(&above, "CredentialsMissing").await;
    assert!(message.contains("has no label atoll.dev/cluster=east"), "{message}");
    let label = json!({ "metadata": { "labels": { "atoll.dev/cluster": "east" } } });
    above.merge("/api/v1/namespaces/atoll-system/secrets/another", label).await.expect(200);
    let (message, _) = fails(&above, "AnotherCluster").await;
    assert!(message.contains("nothing is written to it"), "{message}");
    assert_eq!(west.admin().get("/api/v1/namespaces/atoll-system").await.status, 404);
    above.merge(EAST, json!({ "spec": { "credentials": { "secret": made } } })).await.expect(200);
    turns_ready(&above).await;
    // Nothing comes back any more, though nothing is refused.
    fault(&fleet.clusters[0].kubeconfig(), "add partition");
    fails(&above, "TimedOut").await;
}

/// Whether it hangs or is gone depends on when its connection ends, and that on how busy the machine is.
const MISSED: [&str; 2] = ["SyncerHangs", "SyncerSilent"];

fn synced_by_hand() -> Fleet {
    Fleet::with(Setup::new().flag("--cluster-grace-period", GRACE), Mode::None, &["east"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_syncer_that_hangs_is_missed_until_it_goes_on() {
    let mut fleet = synced_by_hand();
    let above = fleet.admin();
    turns_ready(&above).await;
    let syncer = fleet.syncers.pop().unwrap();
    syncer.signal("STOP");
    let (message, _) = fails_by(&above, &MISSED).await;
    assert!(message.contains("atoll syncer --from-kubeconfig"), "{message}");
    syncer.signal("CONT");
    turns_ready(&above).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_syncer_that_is_killed_or_stopped_is_missed_until_another_starts() {
    let mut fleet = synced_by_hand();
    let above = fleet.admin();
    turns_ready(&above).await;
    // It dies with its value, as by a kill.
    drop(fleet.syncers.pop().unwrap());
    fails_by(&above, &MISSED).await;
    let second = syncer(&fleet.lines[0]);
    turns_ready(&above).await;
    second.stop();
    fails(&above, "SyncerStopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_syncer_without_a_control_plane_goes_on_and_says_so_below() {
    let mut fleet = synced_by_hand();
    turns_ready(&fleet.admin()).await;
    let east = fleet.clusters[0].admin();
    let lost = |lease: &Value| lease["metadata"]["annotations"]["atoll.dev/control-plane-lost"].clone();
    fleet.atoll.kill();
    becomes("it says so below", &east, LEASE_BELOW, |lease| {
        lost(lease).as_str().is_some_and(|lost| lost.starts_with("since "))
    })
    .await;
    let renewed = east.get(LEASE_BELOW).await.expect(200)["spec"]["renewTime"].clone();
    becomes("it goes on", &east, LEASE_BELOW, |lease| lease["spec"]["renewTime"] != renewed).await;
    fleet.atoll.restart();
    becomes("it takes that back", &east, LEASE_BELOW, |lease| lost(lease).is_null()).await;
    turns_ready(&fleet.admin()).await;
}
