//! Usage of Pods, where the cluster has metrics.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_meta::quantity::Quantity;
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::syncer::Syncer;

/// Number of heartbeat intervals between two readings.
const INTERVALS: u32 = 3;
/// Maximum number of Pods of a cluster: the metrics of all of them are one response.
const MOST_PODS: usize = 5_000;
const API: &str = "/apis/metrics.k8s.io/v1beta1";
/// The right that clusters do not have that joined with an earlier version.
const RIGHT: &str = "list pods.metrics.k8s.io";

/// Failed readings in a row after which the last usage is dropped: it says nothing about the present any more.
const MOST_FAILURES: u32 = 2;

/// Reads the usage for as long as it is polled.
pub async fn run(syncer: &Arc<Syncer>) {
    let registration = syncer.registration().await;
    // An observer has no right to read metrics.
    if syncer.is_observing(&registration) {
        return std::future::pending().await;
    }
    let mut failures = 0;
    loop {
        let interval = syncer.connection.interval(&syncer.settings) * INTERVALS;
        tokio::time::sleep(syncer.settings.jitter(interval)).await;
        if syncer.inventory.pod_count() > MOST_PODS {
            continue;
        }
        match read(syncer).await {
            Ok(metrics) => {
                failures = 0;
                syncer.capabilities.set_missing(RIGHT, false);
                syncer.inventory.set_usage(&metrics.as_ref().map(usage_of).unwrap_or_default());
            }
            Err(status) => {
                failures += 1;
                if status.code() == 403 {
                    syncer.capabilities.set_missing(RIGHT, true);
                }
                if failures >= MOST_FAILURES {
                    syncer.inventory.set_usage(&HashMap::new());
                }
                tracing::debug!(%status, cluster = %syncer.settings.cluster, "cannot read the usage of Pods");
            }
        }
    }
}

/// Returns the metrics of all Pods; `None` if the cluster has none.
async fn read(syncer: &Syncer) -> Result<Option<Value>, Status> {
    // Clusters check permissions before they know that an API is not served.
    if syncer.below.get(API).await?.is_none() {
        return Ok(None);
    }
    syncer.below.get(&format!("{API}/pods")).await
}

/// Returns millicores and bytes by namespace and name.
fn usage_of(metrics: &Value) -> HashMap<String, (i64, i64)> {
    let pods = metrics["items"].as_array().into_iter().flatten();
    let amount = |container: &Value, name: &str| {
        container["usage"][name].as_str().and_then(|text| Quantity::parse(text).ok())
    };
    pods.map(|pod| {
        let containers = pod["containers"].as_array().into_iter().flatten();
        let sum = containers.fold((0i64, 0i64), |(cpu, memory), container| {
            let more =
                |name: &str, of: fn(&Quantity) -> i64| amount(container, name).map_or(0, |it| of(&it).max(0));
            (
                cpu.saturating_add(more("cpu", Quantity::millis)),
                memory.saturating_add(more("memory", Quantity::units)),
            )
        });
        (format!("{}/{}", object::namespace(pod), object::name(pod)), sum)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn usage_of_containers_is_added() {
        let pod = |name: &str, containers: Value| json!({ "metadata": { "namespace": "shop", "name": name }, "containers": containers });
        let usage = |cpu: &str, memory: &str| json!({ "usage": { "cpu": cpu, "memory": memory } });
        let metrics = json!({ "items": [
            pod("a", json!([usage("250m", "1Mi"), usage("1500000n", "1Ki")])),
            pod("b", json!([usage("nonsense", "-1Mi")])),
        ] });
        let expected = [("shop/a".to_string(), (252, (1 << 20) + 1024)), ("shop/b".to_string(), (0, 0))];
        assert_eq!(usage_of(&metrics), expected.into());
        assert!(usage_of(&json!({})).is_empty());
    }
}
