//! A cluster that fails repeatedly has to be stable before it is ready again, even across restarts of the
//! control plane.

use std::time::{SystemTime, UNIX_EPOCH};

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup, revision};
use serde_json::{Value, json};

use crate::health::{EAST, condition};

/// Long enough that a busy machine makes no difference.
const GRACE: u32 = 300;

/// Sends a heartbeat as a syncer does.
async fn send_heartbeat(above: &Client, problem: Option<&str>) {
    let mut heartbeat = json!({ "id": "a", "syncer": { "version": "1", "instance": "one" } });
    if let Some(reason) = problem {
        heartbeat["reason"] = reason.into();
        heartbeat["message"] = "as a test has it".into();
    }
    above.post("/services/sync/east", json!({ "heartbeat": heartbeat })).await.expect(200);
}

/// Sends heartbeats until the condition Ready has this reason.
async fn heartbeat_until(above: &Client, problem: Option<&str>, reason: &str) -> Value {
    let mut cluster = Value::Null;
    eventually(reason, async || {
        send_heartbeat(above, problem).await;
        cluster = above.get(EAST).await.expect(200);
        condition(&cluster, "Ready").1 == reason
    })
    .await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn flapping_cluster_stays_unready_after_a_restart() {
    let setup = Setup::new().flag("--controllers", "clusterhealth").flag("--cluster-grace-period", GRACE);
    let mut control_plane = setup.start();
    let above = control_plane.admin();
    let east = json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } });
    above.post("/apis/atoll.dev/v1alpha1/clusters", east).await.expect(201);
    heartbeat_until(&above, None, "Synced").await;
    for failure in 1..=4 {
        heartbeat_until(&above, Some("CredentialsRefused"), "CredentialsRefused").await;
        let recovered = heartbeat_until(&above, None, if failure < 4 { "Synced" } else { "Flapping" }).await;
        assert_eq!(recovered["status"]["failures"].as_array().unwrap().len(), failure);
    }
    let held = above.get(EAST).await.expect(200);
    let (_, _, message) = condition(&held, "Ready");
    assert!(message.contains("has failed 4 times since"), "{message}");
    // Unchanged heartbeats cause no writes.
    for _ in 0..5 {
        send_heartbeat(&above, None).await;
    }
    assert_eq!(revision(&above.get(EAST).await.expect(200)), revision(&held));

    control_plane.kill();
    // Times have a resolution of seconds.
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let began = second();
    eventually("a second has passed", async || second() > began).await;
    control_plane.restart();
    let above = control_plane.admin();
    // Until the first heartbeat the condition is unchanged. Then the stable time starts again.
    let mut now = Value::Null;
    eventually("the condition is updated", async || {
        send_heartbeat(&above, None).await;
        now = above.get(EAST).await.expect(200);
        let (status, reason, message_now) = condition(&now, "Ready");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Flapping"));
        message_now != message
    })
    .await;
    assert!(condition(&now, "Ready").2.contains("has failed 4 times since"), "{now}");
    // Earlier failures count, and the list of failures is limited.
    for _ in 5..=18 {
        heartbeat_until(&above, Some("CredentialsRefused"), "CredentialsRefused").await;
        now = heartbeat_until(&above, None, "Flapping").await;
    }
    assert_eq!(now["status"]["failures"].as_array().unwrap().len(), 16);
}
