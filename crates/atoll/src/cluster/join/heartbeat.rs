//! Waits until a cluster that has joined is heard of.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::super::fleet::{self, Fleet};
use crate::advice::{Failure, invocation};

const PAUSE: Duration = Duration::from_millis(200);

/// Returns when the cluster is ready; what is wrong if it is not in time.
pub async fn first(fleet: &Fleet, name: &str, wait: Duration) -> Result<(String, ()), Failure> {
    let deadline = Instant::now() + wait;
    loop {
        let cluster = fleet.api.get(&fleet::path(name)).await?;
        match ready(&cluster) {
            Ok(()) => return Ok(("heard of it for the first time: it is ready".into(), ())),
            Err(why) if Instant::now() >= deadline => {
                return Err(Failure::new(
                    format!(
                        "cluster {name} is registered, but after {} seconds it is not ready: {why}",
                        wait.as_secs()
                    ),
                    format!("see what is wrong with: {} cluster describe {name}", invocation()),
                ));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Why a cluster is not ready.
fn ready(cluster: &Value) -> Result<(), String> {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().find(|one| one["type"] == "Ready");
    let text = |field: &str| ready.map_or("", |ready| ready[field].as_str().unwrap_or_default());
    match (text("status"), text("message")) {
        ("True", _) => Ok(()),
        ("", _) => Err("nobody says how it is; does the control plane run its controllers?".to_string()),
        (_, message) => Err(message.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_says_itself_why_it_is_not_ready() {
        let cluster = |status: &str| json!({ "status": { "conditions": [{ "type": "Ready", "status": status, "message": "m" }] } });
        assert_eq!(ready(&cluster("True")), Ok(()));
        assert_eq!(ready(&cluster("Unknown")), Err("m".to_string()));
        assert!(ready(&json!({})).unwrap_err().contains("controllers"));
    }
}
