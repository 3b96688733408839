//! Determines whether a node sends heartbeats, and the conditions of one that does not.

// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go

use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::ConditionView;
use serde_json::{Value, json};

use crate::shared::conditions;

/// Conditions that become Unknown when a node sends no heartbeats.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Remembered state of a node. Times are by the local clock, because other clocks may be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Time of the last heartbeat.
    pub last_heartbeat: Timestamp,
    /// The heartbeat time and Ready status that the node reported.
    heartbeat: Option<String>,
    pub ready: Option<String>,
    renewed: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
pub struct GracePeriods {
    pub monitor: Duration,
    pub startup: Duration,
}

#[derive(Debug)]
pub struct Observation {
    pub health: Health,
    /// The node with unknown conditions, if it must be written.
    pub unknown: Option<Value>,
    /// Whether the node was ready before.
    pub was_ready: bool,
    /// `True`, `False` or `Unknown`; `None` if the node has no Ready condition yet.
    pub ready: Option<String>,
}

pub fn observe(
    known: Option<&Health>,
    node: &Value,
    lease: Option<&Value>,
    now: Timestamp,
    grace_periods: GracePeriods,
) -> Observation {
    let condition = conditions::find(node, "Ready");
    let heartbeat = condition.and_then(ConditionView::last_heartbeat_time).map(String::from);
    let ready = condition.map(|condition| condition.status().to_string()).filter(|status| !status.is_empty());
    let created =
        object::creation_timestamp(node).and_then(|created| time::parse(created).ok()).unwrap_or(now);
    let first = if ready.is_none() { created } else { now };
    let mut health = match known {
        None => Health { last_heartbeat: first, heartbeat: None, ready: None, renewed: None },
        Some(known) => {
            let is_changed =
                known.ready.is_some() != ready.is_some() || (ready.is_some() && known.heartbeat != heartbeat);
            Health { last_heartbeat: if is_changed { now } else { known.last_heartbeat }, ..known.clone() }
        }
    };
    (health.heartbeat, health.ready) = (heartbeat, ready.clone());
    let renewed = lease.and_then(|lease| time::parse_micro(lease["spec"]["renewTime"].as_str()?).ok());
    if renewed.is_some() && health.renewed < renewed {
        health.renewed = renewed;
        health.last_heartbeat = now;
    }
    let was_ready = ready.as_deref() == Some("True");
    let grace = if ready.is_none() { grace_periods.startup } else { grace_periods.monitor };
    let mut observation = Observation { health, unknown: None, was_ready, ready };
    if nanos(now) - nanos(observation.health.last_heartbeat)
        > i128::try_from(grace.as_nanos()).unwrap_or(i128::MAX)
    {
        observation.unknown = unknown(node, now);
        observation.ready = Some("Unknown".into());
        observation.health.ready = observation.ready.clone();
    }
    observation
}

fn nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

/// Returns the node with unknown conditions, unless it already has them.
fn unknown(node: &Value, now: Timestamp) -> Option<Value> {
    if conditions::find(node, "Ready").is_some_and(|ready| ready.status() == "Unknown") {
        return None;
    }
    let now = now.to_time();
    let mut unknown = node.clone();
    for r#type in CONDITIONS {
        let condition = match conditions::find(node, r#type) {
            Some(known) if known.status() == "Unknown" => continue,
            Some(known) => json!({
                "type": r#type,
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastHeartbeatTime": known.last_heartbeat_time(),
            }),
            None => json!({
                "type": r#type,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": object::creation_timestamp(node),
            }),
        };
        conditions::set_in(&mut unknown, condition, &now);
    }
    Some(unknown)
}

#[cfg(test)]
mod tests;
