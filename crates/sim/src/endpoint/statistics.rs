//! Statistics of nodes and pods, as kubelets serve them: summary and metrics.

// upstream: pkg/kubelet/server/stats/handler.go
// upstream: pkg/kubelet/metrics/collectors/resource_metrics.go

use std::fmt::Write;
use std::sync::Arc;

use atoll_meta::quantity::Quantity;
use atoll_meta::time;
use serde_json::{Value, json};

use crate::kubelet::{Kubelet, RunningPod};
use crate::pod::SimTime;
use crate::usage::Usage;

/// Current usage, and CPU time used so far.
#[derive(Clone, Copy, Default)]
struct UsageTotals {
    usage: Usage,
    spent: u64,
}

/// A running container.
struct ContainerStatistics {
    name: String,
    started_at: i64,
    totals: UsageTotals,
}

/// A pod with its running containers.
struct PodStatistics {
    running: Arc<RunningPod>,
    parts: Vec<ContainerStatistics>,
    totals: UsageTotals,
}

/// A reachable node and its pods, sorted.
pub struct Statistics {
    name: String,
    node: Arc<Value>,
    pods: Vec<PodStatistics>,
    totals: UsageTotals,
    now: SimTime,
}

impl Statistics {
    pub fn of(kubelet: &Kubelet, name: &str) -> Option<Statistics> {
        let (node, now) = (kubelet.node(name)?, kubelet.now());
        let mut totals = UsageTotals { usage: Usage::of_node(&node), spent: kubelet.spent(name) };
        let mut pods = Vec::new();
        for running in kubelet.pods_of(Some(name)) {
            let mut sum = UsageTotals::default();
            let pod = running.pod();
            let parts: Vec<ContainerStatistics> = pod
                .usage()
                .map(|(name, started_at, meter)| {
                    sum.usage += meter.usage;
                    let totals = UsageTotals { usage: meter.usage, spent: meter.spent(now.millis) };
                    ContainerStatistics { name: name.into(), started_at, totals }
                })
                .collect();
            sum.spent = pod.spent(now);
            drop(pod);
            totals.usage += sum.usage;
            totals.spent = totals.spent.saturating_add(sum.spent);
            if !parts.is_empty() {
                pods.push(PodStatistics { running, parts, totals: sum });
            }
        }
        pods.sort_by(|one, other| one.running.key.cmp(&other.running.key));
        Some(Statistics { name: name.into(), node, pods, totals, now })
    }

    /// Returns the response of `/stats/summary`.
    pub fn summary(&self) -> Value {
        let at = time::format(self.now.seconds);
        let filled = |totals: UsageTotals, room: Option<u64>| {
            let Usage { nanocores, bytes } = totals.usage;
            let processors = json!({
                "time": at, "usageNanoCores": nanocores, "usageCoreNanoSeconds": totals.spent,
            });
            let mut memory = json!({
                "time": at, "usageBytes": bytes, "workingSetBytes": bytes, "rssBytes": bytes,
                "pageFaults": 0, "majorPageFaults": 0,
            });
            if let Some(room) = room {
                memory["availableBytes"] = room.saturating_sub(bytes).into();
            }
            (processors, memory)
        };
        let containers = |pod: &PodStatistics| -> Vec<Value> {
            let each = pod.parts.iter().map(|part| {
                let (cpu, memory) = filled(part.totals, None);
                json!({
                    "name": part.name, "startTime": time::format(part.started_at), "cpu": cpu, "memory": memory,
                })
            });
            each.collect()
        };
        let pods = self.pods.iter().map(|pod| {
            let (cpu, memory) = filled(pod.totals, None);
            let RunningPod { key, uid, arrived, .. } = &*pod.running;
            json!({
                "podRef": {"name": &*key.name, "namespace": &*key.namespace, "uid": uid},
                "startTime": time::format(*arrived),
                "containers": containers(pod),
                "cpu": cpu,
                "memory": memory,
            })
        });
        let pods: Vec<Value> = pods.collect();
        let room = self.node["status"]["capacity"]["memory"].as_str();
        let room =
            room.and_then(|text| Quantity::parse(text).ok()).map(|room| room.units().max(0).cast_unsigned());
        let (cpu, memory) = filled(self.totals, room);
        let started_at = &self.node["metadata"]["creationTimestamp"];
        json!({
            "node": {"nodeName": self.name, "startTime": started_at, "cpu": cpu, "memory": memory},
            "pods": pods,
        })
    }

    /// Returns the response of `/metrics/resource`.
    pub fn resources(&self) -> String {
        let mut out = String::new();
        let at = self.now.seconds.saturating_mul(1000);
        let seconds = |totals: UsageTotals| totals.spent as f64 / 1e9;
        let bytes = |totals: UsageTotals| totals.usage.bytes as f64;
        let of_pod = |pod: &PodStatistics| {
            format!("namespace=\"{}\",pod=\"{}\"", pod.running.key.namespace, pod.running.key.name)
        };
        let parts = || {
            let each = self.pods.iter().flat_map(|pod| pod.parts.iter().map(move |part| (pod, part)));
            each.map(|(pod, part)| (format!("container=\"{}\",{}", part.name, of_pod(pod)), part))
        };
        let pods = || self.pods.iter().map(|pod| (of_pod(pod), pod.totals));
        let node = || std::iter::once((String::new(), self.totals));
        let mut family =
            |name: &str, kind: &str, help: &str, samples: Vec<(String, f64)>, at: Option<i64>| {
                if samples.is_empty() {
                    return;
                }
                // Writing to a string cannot fail.
                let _ = writeln!(out, "# HELP {name} [STABLE] {help}\n# TYPE {name} {kind}");
                for (labels, value) in samples {
                    let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                    let at = at.map(|at| format!(" {at}")).unwrap_or_default();
                    let _ = writeln!(out, "{name}{labels} {value}{at}");
                }
            };
        for (name, kind, help, samples, at) in [
            (
                "container_cpu_usage_seconds_total",
                "counter",
                "Cumulative cpu time consumed by the container in core-seconds",
                parts().map(|(labels, part)| (labels, seconds(part.totals))).collect(),
                Some(at),
            ),
            (
                "container_memory_working_set_bytes",
                "gauge",
                "Current working set of the container in bytes",
                parts().map(|(labels, part)| (labels, bytes(part.totals))).collect(),
                Some(at),
            ),
            (
                "container_start_time_seconds",
                "gauge",
                "Start time of the container since unix epoch in seconds",
                parts().map(|(labels, part)| (labels, part.started_at as f64)).collect(),
                None,
            ),
            (
                "node_cpu_usage_seconds_total",
                "counter",
                "Cumulative cpu time consumed by the node in core-seconds",
                node().map(|(labels, totals)| (labels, seconds(totals))).collect(),
                Some(at),
            ),
            (
                "node_memory_working_set_bytes",
                "gauge",
                "Current working set of the node in bytes",
                node().map(|(labels, totals)| (labels, bytes(totals))).collect(),
                Some(at),
            ),
            (
                "pod_cpu_usage_seconds_total",
                "counter",
                "Cumulative cpu time consumed by the pod in core-seconds",
                pods().map(|(labels, totals)| (labels, seconds(totals))).collect(),
                Some(at),
            ),
            (
                "pod_memory_working_set_bytes",
                "gauge",
                "Current working set of the pod in bytes",
                pods().map(|(labels, totals)| (labels, bytes(totals))).collect(),
                Some(at),
            ),
            (
                "resource_scrape_error",
                "gauge",
                "1 if there was an error while getting container metrics, 0 otherwise",
                vec![(String::new(), 0.0)],
                None,
            ),
        ] {
            family(name, kind, help, samples, at);
        }
        out
    }
}

/// Returns the requested node. All kubelets share one listener, so the node comes from the URI that the API
/// server forwards, such as `/api/v1/nodes/NAME/proxy/stats/summary`.
pub fn requested_node(uri: &str) -> Option<&str> {
    let mut segments = uri.split('/').skip_while(|segment| *segment != "nodes").skip(1);
    let name = segments.next()?;
    // The name may be preceded by a scheme and followed by a port.
    let plain = match name.split(':').collect::<Vec<_>>()[..] {
        [name] | [name, _] | [_, name, _] => name,
        _ => return None,
    };
    (segments.next() == Some("proxy")).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_is_parsed_from_the_forwarded_uri() {
        for (uri, expected) in [
            ("/api/v1/nodes/east-node-1/proxy/stats/summary", Some("east-node-1")),
            ("/clusters/root/api/v1/nodes/n/proxy/metrics/resource", Some("n")),
            ("/api/v1/nodes/https:n:10250/proxy/stats/summary", Some("n")),
            ("/api/v1/nodes/n:10250/proxy/", Some("n")),
            ("/api/v1/nodes/n", None),
            ("/stats/summary", None),
            ("", None),
        ] {
            assert_eq!(requested_node(uri), expected, "{uri}");
        }
    }
}
