//! Pods, whose status is computed from several fields.

// upstream: pkg/printers/internalversion/printers.go

use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

use super::{AGE, NAME};
use crate::fields::{at, flag, is_condition_true, is_deleting, list, number, text, text_or};
use crate::format::{moment, since};
use crate::{Cell, Column, Printer};

pub static POD: Printer = Printer {
    conditions,
    ..Printer::new(&[
        NAME,
        Column::new(
            "Ready",
            Cell::Special(|pod, _| Summary::of(pod).ready().into()),
            "Containers that are ready.",
        ),
        Column::new(
            "Status",
            Cell::Special(|pod, _| Summary::of(pod).reason.into()),
            "Aggregate status of the containers.",
        ),
        Column::new(
            "Restarts",
            Cell::Special(|pod, now| Summary::of(pod).restarts(now).into()),
            "Number of restarts and time since the last one.",
        ),
        AGE,
        Column::new("IP", Cell::Special(address), "Address of the pod.").wide(),
        Column::new("Node", Cell::TextOr("spec.nodeName", "<none>"), "Node of the pod.").wide(),
        Column::new(
            "Nominated Node",
            Cell::TextOr("status.nominatedNodeName", "<none>"),
            "Node on which pods are preempted for it.",
        )
        .wide(),
        Column::new("Readiness Gates", Cell::Special(readiness_gates), "Readiness gates that are satisfied.")
            .wide(),
    ])
};

fn conditions(pod: &Value) -> Option<Value> {
    let message = match text(pod, "status.phase") {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    let reason = text(pod, "status.phase");
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

fn address(pod: &Value, _: Timestamp) -> Value {
    // If both fields are set and differ, upstream uses the older one.
    let first = list(pod, "status.podIPs").first().map_or("", |address| text(address, "ip"));
    match text_or(pod, "status.podIP", first) {
        "" => "<none>".into(),
        address => address.into(),
    }
}

fn readiness_gates(pod: &Value, _: Timestamp) -> Value {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open = gates.iter().filter(|gate| is_condition_true(pod, text(gate, "conditionType"))).count();
    format!("{open}/{}", gates.len()).into()
}

/// The aggregate state of a Pod's containers.
struct Summary {
    total: usize,
    ready: usize,
    reason: String,
    restarts: i64,
    /// Time of the last termination of a restarted container.
    restarted: Option<(Timestamp, String)>,
}

impl Summary {
    fn of(pod: &Value) -> Summary {
        let phase = text(pod, "status.phase");
        let mut reason = match text(pod, "status.reason") {
            "" => phase,
            reason => reason,
        };
        let gated = |condition: &Value| {
            text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
        };
        if list(pod, "status.conditions").iter().any(gated) {
            reason = "SchedulingGated";
        }
        let sidecars = list(pod, "spec.initContainers").iter().filter(|container| is_sidecar(container));
        let mut summary = Summary {
            total: list(pod, "spec.containers").len() + sidecars.count(),
            ready: 0,
            reason: reason.to_owned(),
            restarts: 0,
            restarted: None,
        };
        let sidecars = summary.initialise(pod);
        if let Some(sidecars) = sidecars {
            (summary.restarts, summary.restarted) = sidecars;
            summary.run(pod);
        }
        let terminal = matches!(phase, "Succeeded" | "Failed");
        if is_deleting(pod) && text(pod, "status.reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if is_deleting(pod) && !terminal {
            summary.reason = "Terminating".to_owned();
        }
        summary
    }

    /// Processes init containers. If they are done, returns the restarts of sidecars, which are the only ones
    /// that still count.
    fn initialise(&mut self, pod: &Value) -> Option<(i64, Option<(Timestamp, String)>)> {
        let specs = list(pod, "spec.initContainers");
        let (mut sidecar_restarts, mut sidecar_restarted) = (0, None);
        let mut initialising = false;
        for (position, container) in list(pod, "status.initContainerStatuses").iter().enumerate() {
            let name = text(container, "name");
            // The last container with a name counts.
            let sidecar = specs.iter().rfind(|spec| text(spec, "name") == name).is_some_and(is_sidecar);
            self.restarts += number(container, "restartCount");
            later(&mut self.restarted, container);
            if sidecar {
                sidecar_restarts += number(container, "restartCount");
                later(&mut sidecar_restarted, container);
            }
            let terminated = at(container, "state.terminated");
            let waiting = text(container, "state.waiting.reason");
            if terminated.is_some_and(|state| number(state, "exitCode") == 0) {
                continue;
            }
            if sidecar && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            self.reason = match terminated {
                Some(state) => format!("Init:{}", end(state)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{position}/{}", specs.len()),
            };
            initialising = true;
            break;
        }
        let done = !initialising || is_condition_true(pod, "Initialized");
        done.then_some((sidecar_restarts, sidecar_restarted))
    }

    /// Processes containers in reverse, so that the first one determines the reason.
    fn run(&mut self, pod: &Value) {
        let mut running = false;
        let mut failure = None;
        for container in list(pod, "status.containerStatuses").iter().rev() {
            self.restarts += number(container, "restartCount");
            later(&mut self.restarted, container);
            let waiting = text(container, "state.waiting.reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(state) = at(container, "state.terminated") {
                self.reason = end(state);
                if number(state, "exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if flag(container, "ready") && at(container, "state.running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        // A completed container does not determine the reason if others are running or failed.
        if self.reason == "Completed" {
            if running && is_condition_true(pod, "Ready") {
                self.reason = "Running".to_owned();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }

    fn ready(&self) -> String {
        format!("{}/{}", self.ready, self.total)
    }

    fn restarts(&self, now: Timestamp) -> String {
        match &self.restarted {
            Some((_, text)) if self.restarts != 0 => format!("{} ({} ago)", self.restarts, since(text, now)),
            _ => self.restarts.to_string(),
        }
    }
}

/// Whether an init container keeps running.
fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

/// Keeps the later of a time and that of a container's last termination.
fn later(kept: &mut Option<(Timestamp, String)>, container: &Value) {
    let finished = text(container, "lastState.terminated.finishedAt");
    if let Some(end) = moment(finished)
        && kept.as_ref().is_none_or(|(last, _)| *last < end)
    {
        *kept = Some((end, finished.to_owned()));
    }
}

/// Returns the reason of a container's termination.
fn end(state: &Value) -> String {
    match (text(state, "reason"), number(state, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(state, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
