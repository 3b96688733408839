//! Faults as JSON and text.

use std::fmt;
use std::time::Duration;

use atoll_meta::time::{format_duration, parse_duration};
use serde_json::{Value, json};

use super::Fault;

/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(600);
/// Maximum clock skew, so that times stay valid in Kubernetes.
const MAX_SKEW: i64 = 100 * 365 * 86_400;

impl Fault {
    /// Returns the name of the fault.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Slow { .. } => "slow",
            Fault::Lossy { .. } => "lossy",
            Fault::PartitionClients | Fault::PartitionNodes { .. } => "partition",
            Fault::CrashLoop { .. } => "crash-loop",
            Fault::FullNode { .. } => "full-node",
            Fault::DeadNode { .. } => "dead-node",
            Fault::DeadCluster => "dead-cluster",
            Fault::MissingApi { .. } => "missing-api",
            Fault::ClockSkew { .. } => "clock-skew",
        }
    }

    /// Returns the fault as JSON: `{"kind": "slow", "latency": "200ms"}`.
    pub fn to_json(&self) -> Value {
        let mut text = json!({ "kind": self.kind() });
        match self {
            Fault::Slow { latency, jitter } => {
                text["latency"] = span(*latency).into();
                if !jitter.is_zero() {
                    text["jitter"] = span(*jitter).into();
                }
            }
            Fault::Lossy { rate } => text["rate"] = json!(rate),
            Fault::PartitionClients | Fault::DeadCluster => {}
            Fault::PartitionNodes { nodes } => text["nodes"] = json!(nodes),
            Fault::CrashLoop { image } => text["image"] = image.as_str().into(),
            Fault::FullNode { node } | Fault::DeadNode { node } => text["node"] = node.as_str().into(),
            Fault::MissingApi { group, version } => text["api"] = api(group, version).into(),
            Fault::ClockSkew { seconds } => text["skew"] = skew(*seconds).into(),
        }
        text
    }

    /// Parses a fault, or returns the error.
    pub fn from_json(value: &Value) -> Result<Fault, String> {
        let kind = value["kind"]
            .as_str()
            .ok_or("kind: must be the name of a fault, as in {\"kind\": \"dead-cluster\"}")?;
        let word = |name: &str| match value[name].as_str().filter(|text| !text.is_empty()) {
            Some(text) => Ok(text.to_string()),
            None => Err(format!("{name}: required for {kind}")),
        };
        let late = |name: &str| match value[name].as_str() {
            None => Ok(Duration::ZERO),
            Some(text) => {
                let nanos = parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
                let span = nanos.map(Duration::from_nanos).filter(|span| *span <= MAX_DELAY);
                span.ok_or_else(|| {
                    format!("{name}: {text:?} is not a duration of at most ten minutes, such as 200ms")
                })
            }
        };
        match kind {
            "slow" => {
                let (latency, jitter) = (late("latency")?, late("jitter")?);
                if latency.is_zero() && jitter.is_zero() {
                    return Err("latency: required for slow, such as 200ms".into());
                }
                Ok(Fault::Slow { latency, jitter })
            }
            "lossy" => match value["rate"].as_f64() {
                Some(rate) if rate > 0.0 && rate <= 1.0 => Ok(Fault::Lossy { rate }),
                _ => Err("rate: required for lossy, above 0 and at most 1, such as 0.2".into()),
            },
            "partition" => match &value["nodes"] {
                Value::Null => Ok(Fault::PartitionClients),
                nodes => {
                    let nodes = nodes.as_array().map(|nodes| {
                        nodes.iter().filter_map(Value::as_str).map(ToString::to_string).collect::<Vec<_>>()
                    });
                    let nodes = nodes.filter(|nodes| !nodes.is_empty());
                    let nodes = nodes.ok_or("nodes: must be a list of node names")?;
                    Ok(Fault::PartitionNodes { nodes })
                }
            },
            "crash-loop" => Ok(Fault::CrashLoop { image: word("image")? }),
            "full-node" => Ok(Fault::FullNode { node: word("node")? }),
            "dead-node" => Ok(Fault::DeadNode { node: word("node")? }),
            "dead-cluster" => Ok(Fault::DeadCluster),
            "missing-api" => {
                let text = word("api")?;
                let (group, version) = text.rsplit_once('/').unwrap_or(("", &text));
                Ok(Fault::MissingApi { group: group.into(), version: version.into() })
            }
            "clock-skew" => {
                let text = word("skew")?;
                let seconds = parse_duration(&text).map(|nanos| nanos / 1_000_000_000);
                let seconds = seconds.filter(|seconds| seconds.abs() <= MAX_SKEW && *seconds != 0);
                let wrong =
                    || format!("skew: {text:?} is not a duration of at least a second, such as +5m or -90s");
                Ok(Fault::ClockSkew { seconds: seconds.ok_or_else(wrong)? })
            }
            other => Err(format!(
                "kind: unknown fault {other:?}; known faults: slow, lossy, partition, crash-loop, full-node, dead-node, \
                 dead-cluster, missing-api and clock-skew"
            )),
        }
    }
}

/// Description for people.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Slow { latency, jitter } if jitter.is_zero() => write!(f, "slow by {}", span(*latency)),
            Fault::Slow { latency, jitter } => {
                write!(f, "slow by {} to {}", span(*latency), span(latency.saturating_add(*jitter)))
            }
            Fault::Lossy { rate } => {
                write!(f, "lossy: {} of 100 connections, responses and events", rate * 100.0)
            }
            Fault::PartitionClients => write!(f, "partition: clients disconnected"),
            Fault::PartitionNodes { nodes } => write!(f, "partition: {} disconnected", nodes.join(", ")),
            Fault::CrashLoop { image } => write!(f, "crash-loop of images like {image}"),
            Fault::FullNode { node } => write!(f, "full-node {node}"),
            Fault::DeadNode { node } => write!(f, "dead-node {node}"),
            Fault::DeadCluster => write!(f, "dead-cluster"),
            Fault::MissingApi { group, version } => write!(f, "missing-api {}", api(group, version)),
            Fault::ClockSkew { seconds } => write!(f, "clock-skew {}", skew(*seconds)),
        }
    }
}

fn api(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_string() } else { format!("{group}/{version}") }
}

fn span(span: Duration) -> String {
    format_duration(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}

fn skew(seconds: i64) -> String {
    let sign = if seconds < 0 { "" } else { "+" };
    format!("{sign}{}", format_duration(seconds.saturating_mul(1_000_000_000)))
}
