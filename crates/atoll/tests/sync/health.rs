//! Failures of clusters, syncers and credentials: each has its own reason in the Cluster's conditions, and
//! recovers without intervention.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup, Signal};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{Fleet, Mode, join, start_agent, wait_for};

pub const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";
pub const SECRET: &str = "/api/v1/namespaces/atoll-system/secrets/cluster-east";
const HEARTBEAT: &str = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/cluster-east";
const LEASE_BELOW: &str = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/atoll-syncer";
/// Long enough for heartbeats on a busy machine.
pub const GRACE: u32 = 12;

fn fleet(mode: Mode) -> Fleet {
    Fleet::start_with(Setup::new().flag("--cluster-grace-period", GRACE), mode, &["east"])
}

pub fn condition(cluster: &Value, kind: &str) -> (String, String, String) {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_string();
    (text("status"), text("reason"), text("message"))
}

pub async fn wait_until_ready(above: &Client) {
    wait_for("the cluster is ready", above, EAST, |cluster| condition(cluster, "Ready").0 == "True").await;
}

/// Waits until the cluster is not ready for this reason. Returns the message and the status of Reachable.
pub async fn wait_for_failure(above: &Client, reason: &str) -> (String, String) {
    wait_for_failure_of(above, &[reason]).await
}

/// The same for one of several reasons.
async fn wait_for_failure_of(above: &Client, reasons: &[&str]) -> (String, String) {
    let mut failure = None;
    eventually(&reasons.join(" or "), async || {
        let cluster = above.get(EAST).await.expect(200);
        let (status, why, message) = condition(&cluster, "Ready");
        if status == "False" && reasons.contains(&why.as_str()) {
            assert_eq!(condition(&cluster, "Schedulable").0, "False");
            failure = Some((message, condition(&cluster, "Reachable").0));
        }
        failure.is_some()
    })
    .await;
    failure.unwrap()
}

/// Replaces a value in the kubeconfig of the cluster's Secret.
pub async fn replace_in_kubeconfig(above: &Client, from: &str, to: impl Fn(&str) -> String) {
    let secret = above.get(SECRET).await.expect(200);
    let text = STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    let old = config.pointer(from).unwrap().as_str().unwrap();
    let replaced = STANDARD.encode(text.replace(old, &to(old)));
    above.merge(SECRET, json!({ "data": { "kubeconfig": replaced } })).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_have_reasons_and_repeated_ones_are_flapping() {
    let mut fleet = fleet(Mode::Push);
    let above = fleet.admin();
    wait_until_ready(&above).await;
    let lease = above.get(HEARTBEAT).await.expect(200);
    assert_eq!(lease["metadata"]["labels"]["atoll.dev/cluster"], "east");
    assert_eq!(lease["spec"]["holderIdentity"], "push");

    fleet.clusters[0].kill();
    let (message, reachable) = wait_for_failure(&above, "ConnectionRefused").await;
    assert!(message.contains("kubectl --kubeconfig FILE get --raw /readyz"), "{message}");
    assert_eq!(reachable, "False");
    fleet.clusters[0].restart();
    wait_until_ready(&above).await;

    replace_in_kubeconfig(&above, "/users/0/user/token", |_| "wrong".into()).await;
    let (message, _) = wait_for_failure(&above, "CredentialsRefused").await;
    assert!(message.contains("atoll cluster join east --kubeconfig FILE"), "{message}");
    let join_again = |fleet: &Fleet| {
        join(&fleet.atoll.kubeconfig(), "east", &fleet.clusters[0].kubeconfig(), Mode::Push, "/".as_ref())
    };
    join_again(&fleet);
    wait_until_ready(&above).await;

    above.delete(SECRET).await.expect(200);
    let (message, _) = wait_for_failure(&above, "CredentialsMissing").await;
    assert!(message.contains("there is no Secret atoll-system/cluster-east"), "{message}");
    // The problem is reported repeatedly, because the syncer is still running.
    let renewed = above.get(HEARTBEAT).await.expect(200)["spec"]["renewTime"].clone();
    wait_for("the heartbeat is renewed", &above, HEARTBEAT, |lease| lease["spec"]["renewTime"] != renewed)
        .await;
    join_again(&fleet);
    wait_until_ready(&above).await;

    // Another failure makes the cluster flapping.
    replace_in_kubeconfig(&above, "/clusters/0/cluster/certificate-authority-data", |_| {
        STANDARD.encode("no certificate")
    })
    .await;
    wait_for_failure(&above, "CredentialsBroken").await;
    join_again(&fleet);
    let (message, reachable) = wait_for_failure(&above, "Flapping").await;
    assert!(message.contains(" times since ") && message.contains("it becomes ready at "), "{message}");
    assert_eq!(reachable, "True");
    wait_until_ready(&above).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_and_wrong_authorities_have_different_reasons() {
    let fleet = fleet(Mode::Push);
    let above = fleet.admin();
    wait_until_ready(&above).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let east = fleet.clusters[0].admin();
    east.delete(&format!("{roles}/clusterrolebindings/atoll-syncer")).await.expect(200);
    let (message, _) = wait_for_failure(&above, "PermissionsMissing").await;
    assert!(message.contains("atoll cluster join east --kubeconfig FILE"), "{message}");
    let join_again =
        || join(&fleet.atoll.kubeconfig(), "east", &fleet.clusters[0].kubeconfig(), Mode::Push, "/".as_ref());
    join_again();
    wait_until_ready(&above).await;
    // A different authority than the cluster's.
    let control_plane = std::fs::read(fleet.atoll.directory.join("ca.crt")).unwrap();
    let other = STANDARD.encode(control_plane);
    replace_in_kubeconfig(&above, "/clusters/0/cluster/certificate-authority-data", |_| other.clone()).await;
    wait_for_failure(&above, "CertificateUntrusted").await;
    join_again();
    wait_until_ready(&above).await;
    // The credentials are those of another cluster.
    let west = crate::start_cluster("west");
    let admin: Value = serde_saphyr::from_str(&std::fs::read_to_string(west.kubeconfig()).unwrap()).unwrap();
    let secret_of_east = above.get(EAST).await.expect(200)["spec"]["credentials"]["secret"].clone();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "another", "namespace": "atoll-system" },
        "data": { "kubeconfig": STANDARD.encode(admin.to_string()) },
    });
    above.post("/api/v1/namespaces/atoll-system/secrets", secret).await.expect(201);
    let named = json!({ "namespace": "atoll-system", "name": "another" });
    above.merge(EAST, json!({ "spec": { "credentials": { "secret": named } } })).await.expect(200);
    // Naming a Secret is not enough: its label must name this cluster.
    let (message, _) = wait_for_failure(&above, "CredentialsMissing").await;
    assert!(message.contains("has no label atoll.dev/cluster=east"), "{message}");
    let label = json!({ "metadata": { "labels": { "atoll.dev/cluster": "east" } } });
    above.merge("/api/v1/namespaces/atoll-system/secrets/another", label).await.expect(200);
    let (message, _) = wait_for_failure(&above, "AnotherCluster").await;
    assert!(message.contains("nothing is written to it"), "{message}");
    assert_eq!(west.admin().get("/api/v1/namespaces/atoll-system").await.status, 404);
    above.merge(EAST, json!({ "spec": { "credentials": { "secret": secret_of_east } } })).await.expect(200);
    wait_until_ready(&above).await;
    // Connections hang without being refused.
    fleet.clusters[0].fault("add partition");
    wait_for_failure(&above, "TimedOut").await;
}

/// The reason depends on when the connection ends, which depends on the load of the machine.
const SYNCER_MISSING: [&str; 2] = ["SyncerHangs", "SyncerSilent"];

fn fleet_with_agent() -> Fleet {
    Fleet::start_with(Setup::new().flag("--cluster-grace-period", GRACE), Mode::None, &["east"])
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_agent_is_reported_until_it_continues() {
    let mut fleet = fleet_with_agent();
    let above = fleet.admin();
    wait_until_ready(&above).await;
    let syncer = fleet.agents.pop().unwrap();
    syncer.signal(Signal::STOP);
    let (message, _) = wait_for_failure_of(&above, &SYNCER_MISSING).await;
    assert!(message.contains("atoll syncer --from-kubeconfig"), "{message}");
    syncer.signal(Signal::CONT);
    wait_until_ready(&above).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_or_stopped_agent_is_reported_until_another_starts() {
    let mut fleet = fleet_with_agent();
    let above = fleet.admin();
    wait_until_ready(&above).await;
    // Dropping it kills the process.
    drop(fleet.agents.pop().unwrap());
    wait_for_failure_of(&above, &SYNCER_MISSING).await;
    let second = start_agent(&fleet.join_outputs[0]);
    wait_until_ready(&above).await;
    second.stop();
    wait_for_failure(&above, "SyncerStopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_without_a_control_plane_continues_and_reports_it_below() {
    let mut fleet = fleet_with_agent();
    wait_until_ready(&fleet.admin()).await;
    let east = fleet.clusters[0].admin();
    let lost = |lease: &Value| lease["metadata"]["annotations"]["atoll.dev/control-plane-lost"].clone();
    fleet.atoll.kill();
    wait_for("the Lease below has the annotation", &east, LEASE_BELOW, |lease| {
        lost(lease).as_str().is_some_and(|lost| lost.starts_with("since "))
    })
    .await;
    let renewed = east.get(LEASE_BELOW).await.expect(200)["spec"]["renewTime"].clone();
    wait_for("the Lease below is renewed", &east, LEASE_BELOW, |lease| lease["spec"]["renewTime"] != renewed)
        .await;
    fleet.atoll.restart();
    wait_for("the annotation is removed", &east, LEASE_BELOW, |lease| lost(lease).is_null()).await;
    wait_until_ready(&fleet.admin()).await;
}
