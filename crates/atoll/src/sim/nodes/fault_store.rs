//! The faults of simulated nodes at another server, stored in a ConfigMap of that server. Clients that may
//! write it can add and remove faults.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::{Client, WatchEvent};
use atoll_meta::object;
use atoll_sim::{Fault, Faults};
use serde_json::{Map, Value, json};

pub const COLLECTION: &str = "/api/v1/namespaces/kube-system/configmaps";
pub const NAME: &str = "atoll-sim-faults";
/// Retry interval after a failed request.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The ConfigMap without faults.
pub fn empty() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": NAME }, "data": {} })
}

/// The faults in the ConfigMap by number, in order. Invalid entries are ignored.
pub fn read(config_map: &Value) -> Vec<(u64, Fault)> {
    let read = |(number, text): (&String, &Value)| {
        let fault = serde_json::from_str(text.as_str()?).ok()?;
        Some((number.parse().ok()?, Fault::from_json(&fault).ok()?))
    };
    let mut faults: Vec<(u64, Fault)> =
        config_map["data"].as_object().into_iter().flatten().filter_map(read).collect();
    faults.sort_by_key(|(number, _)| *number);
    faults
}

/// Writes faults to the ConfigMap.
pub fn write(config_map: &mut Value, faults: &[(u64, Fault)]) {
    let lines = faults.iter().map(|(number, fault)| (number.to_string(), fault.to_json().to_string().into()));
    config_map["data"] = Value::Object(lines.collect::<Map<String, Value>>());
}

/// The error message for a fault that only a whole simulated cluster supports.
pub fn unsupported(fault: &Fault) -> Option<String> {
    match fault {
        Fault::PartitionClients | Fault::MissingApi { .. } => Some(format!(
            "{fault}: only a simulated cluster supports this fault; simulated nodes support slow, \
             lossy, partition --nodes, crash-loop, full-node, dead-node, dead-cluster and clock-skew"
        )),
        _ => None,
    }
}

/// Applies the faults in the ConfigMap for as long as it is polled.
pub async fn follow(client: &Client, faults: &Arc<Faults>) {
    loop {
        match client.get(&format!("{COLLECTION}/{NAME}")).await {
            Ok(config_map) => {
                faults.replace(read(&config_map));
                watch(client, faults, object::resource_version(&config_map)).await;
            }
            Err(status) if status.reason() == "NotFound" => {
                faults.clear();
                // Create it, so that clients can see that there are simulated nodes.
                if client.create(COLLECTION, &empty()).await.is_ok() {
                    continue;
                }
            }
            Err(status) => tracing::debug!(%status, "cannot read the ConfigMap of faults; will retry"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn watch(client: &Client, faults: &Arc<Faults>, since: &str) {
    let path = format!(
        "{COLLECTION}?watch=true&fieldSelector=metadata.name%3D{NAME}&resourceVersion={since}&allowWatchBookmarks=true"
    );
    let Ok(mut events) = client.watch(&path).await else { return };
    while let Some(event) = events.next().await {
        match event {
            WatchEvent::Added(config_map) | WatchEvent::Modified(config_map) => {
                faults.replace(read(&config_map))
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Deleted(_) | WatchEvent::Error(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_round_trip_through_config_maps() {
        let faults =
            vec![(2, Fault::DeadNode { node: "n".into() }), (10, Fault::CrashLoop { image: "bad:*".into() })];
        let mut config_map = empty();
        write(&mut config_map, &faults);
        assert_eq!(read(&config_map), faults);
        config_map["data"]["x"] = "{}".into();
        config_map["data"]["3"] = "nonsense".into();
        assert_eq!(read(&config_map), faults, "invalid entries are ignored");
        assert!(unsupported(&faults[0].1).is_none());
        assert!(unsupported(&Fault::PartitionClients).is_some());
    }
}
