//! A cluster that fails again and again is not believed at once, whoever is restarted.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::health::{EAST, condition};
use crate::support::access::{Access, revision};
use crate::support::eventually;
use crate::support::process::Setup;

/// So long that nothing here depends on how busy the machine is.
const GRACE: u32 = 300;

/// Says what whoever syncs would say.
async fn beat(above: &Access, problem: Option<&str>) {
    let mut heartbeat = json!({ "id": "a", "syncer": { "version": "1", "instance": "one" } });
    if let Some(reason) = problem {
        heartbeat["reason"] = reason.into();
        heartbeat["message"] = "as a test has it".into();
    }
    above.post("/services/sync/east", json!({ "heartbeat": heartbeat })).await.expect(200);
}

/// Says it until the condition has this reason.
async fn until(above: &Access, problem: Option<&str>, reason: &str) -> Value {
    let mut cluster = Value::Null;
    eventually(reason, async || {
        beat(above, problem).await;
        cluster = above.get(EAST).await.expect(200);
        condition(&cluster, "Ready").1 == reason
    })
    .await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_no_reason_to_believe_a_cluster_that_fails_again_and_again() {
    let setup = Setup::new().flag("--controllers", "clusterhealth").flag("--cluster-grace-period", GRACE);
    let mut control_plane = setup.start();
    let above = control_plane.admin();
    let east = json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } });
    above.post("/apis/atoll.dev/v1alpha1/clusters", east).await.expect(201);
    until(&above, None, "Synced").await;
    for fall in 1..=4 {
        until(&above, Some("CredentialsRefused"), "CredentialsRefused").await;
        let well = until(&above, None, if fall < 4 { "Synced" } else { "Flapping" }).await;
        assert_eq!(well["status"]["failures"].as_array().unwrap().len(), fall);
    }
    let held = above.get(EAST).await.expect(200);
    let (_, _, message) = condition(&held, "Ready");
    assert!(message.contains("it has failed 4 times since"), "{message}");
    // While nothing changes nothing is written.
    for _ in 0..5 {
        beat(&above, None).await;
    }
    assert_eq!(revision(&above.get(EAST).await.expect(200)), revision(&held));

    control_plane.kill();
    // Times are told in seconds.
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let began = second();
    eventually("it is later", async || second() > began).await;
    control_plane.restart();
    let above = control_plane.admin();
    // Until it is heard of, it is as it was; then it has to be steady anew.
    let mut now = Value::Null;
    eventually("it is judged anew", async || {
        beat(&above, None).await;
        now = above.get(EAST).await.expect(200);
        let (status, reason, said) = condition(&now, "Ready");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Flapping"));
        said != message
    })
    .await;
    assert!(condition(&now, "Ready").2.contains("it has failed 4 times since"), "{now}");
    // What failed before counts, and what is kept of it has an end.
    for _ in 5..=18 {
        until(&above, Some("CredentialsRefused"), "CredentialsRefused").await;
        now = until(&above, None, "Flapping").await;
    }
    assert_eq!(now["status"]["failures"].as_array().unwrap().len(), 16);
}
