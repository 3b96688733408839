//! Waits for the first heartbeat of a cluster that has joined.

use std::time::Duration;

use atoll_fleet::ClusterView;
use serde_json::Value;
use tokio::time::Instant;

use super::super::control_plane_connection::{self, ControlPlaneConnection};
use crate::advice::{Failure, invocation};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Waits until the cluster is ready; fails with the reason after `wait`.
pub async fn first(
    fleet: &ControlPlaneConnection,
    name: &str,
    wait: Duration,
) -> Result<(String, ()), Failure> {
    let deadline = Instant::now() + wait;
    loop {
        let cluster = fleet.api.get(&control_plane_connection::path(name)).await?;
        match ready(&cluster) {
            Ok(()) => return Ok(("received the first heartbeat: the cluster is ready".into(), ())),
            Err(why) if Instant::now() >= deadline => {
                return Err(Failure::new(
                    format!(
                        "cluster {name} is registered, but after {} seconds it is not ready: {why}",
                        wait.as_secs()
                    ),
                    format!("see the reason with: {} cluster describe {name}", invocation()),
                ));
            }
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Checks the condition Ready; the error is its message.
fn ready(cluster: &Value) -> Result<(), String> {
    match ClusterView::of(cluster).condition("Ready").filter(|ready| !ready.status().is_empty()) {
        Some(ready) if ready.is_true() => Ok(()),
        Some(ready) => Err(ready.message().to_string()),
        None => Err("it has no condition Ready; does the control plane run its controllers?".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_come_from_the_ready_condition() {
        let cluster = |status: &str| json!({ "status": { "conditions": [{ "type": "Ready", "status": status, "message": "m" }] } });
        assert_eq!(ready(&cluster("True")), Ok(()));
        assert_eq!(ready(&cluster("Unknown")), Err("m".to_string()));
        assert!(ready(&json!({})).unwrap_err().contains("controllers"));
    }
}
