//! State machine of a pod on a simulated node.
//!
//! Pure: time and faults are inputs; the output is a status, when to continue, and whether the pod can be
//! deleted.

mod container;
mod log;
mod probe;
mod status;

use atoll_meta::object;
use serde_json::Value;

pub use self::container::ProbeResults;
use self::container::{Container, ContainerState};
pub use self::log::Log;
use crate::program::milliseconds;
use crate::usage::Meter;

/// Annotations of a pod with the results of its probes (`fail`), and with the time that its containers take
/// to stop.
const PROBES: [&str; 3] =
    ["sim.atoll.dev/startup-probe", "sim.atoll.dev/readiness-probe", "sim.atoll.dev/liveness-probe"];
const STOP_AFTER: &str = "sim.atoll.dev/stop-after";

/// A point in time: milliseconds of a monotonic clock, and seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimTime {
    pub millis: u64,
    pub seconds: i64,
}

/// The environment of a pod on its node.
pub struct NodeEnvironment<'a> {
    /// Milliseconds between the arrival of a pod and the start of its containers.
    pub start_delay: u64,
    pub address: &'a str,
    pub host: &'a str,
    /// Reason and message with which the node refuses new pods.
    pub refuses: Option<(&'static str, &'static str)>,
    pub crashes: &'a dyn Fn(&str) -> bool,
}

/// Next actions for a pod.
#[derive(Debug, Default)]
pub struct PodStep {
    /// The new status, if changed.
    pub status: Option<Value>,
    /// Milliseconds until the next step.
    pub again: Option<u64>,
    /// Whether the pod has stopped and can be deleted.
    pub remove: bool,
}

#[derive(Clone, Debug)]
pub struct Pod {
    uid: String,
    arrived: u64,
    /// The time when its deletion was requested.
    deletion_requested: Option<u64>,
    refused: Option<(&'static str, &'static str)>,
    inits: Vec<Container>,
    containers: Vec<Container>,
}

impl Pod {
    /// Creates the state of a pod, which may have run before this process started.
    pub fn new(pod: &Value, now: SimTime) -> Pod {
        let containers = |field: &str, statuses: &str| -> Vec<Container> {
            let known = pod["status"][statuses].as_array().map_or(&[][..], Vec::as_slice);
            let specs = pod["spec"][field].as_array().into_iter().flatten();
            specs
                .map(|spec| {
                    let mut container = Container::new(spec, pod);
                    if let Some(status) = known.iter().find(|status| status["name"] == spec["name"]) {
                        container.resume(spec, status, now);
                    }
                    container
                })
                .collect()
        };
        Pod {
            uid: object::uid(pod).into(),
            arrived: now.millis,
            deletion_requested: None,
            refused: None,
            inits: containers("initContainers", "initContainerStatuses"),
            containers: containers("containers", "containerStatuses"),
        }
    }

    /// Returns the log of a container; of the first one if the name is empty.
    pub fn log(&self, container: &str) -> Option<&Log> {
        let mut all = self.containers.iter().chain(&self.inits);
        all.find(|known| container.is_empty() || known.name == container).map(|known| &known.log)
    }

    pub fn log_line(&mut self, container: usize, now: SimTime, line: String) {
        if let Some(container) = self.containers.get_mut(container) {
            container.log.log_line(now, line);
        }
    }

    pub fn is_serving(&self) -> bool {
        self.containers.iter().any(Container::is_running)
    }

    /// Updates the usage of its containers.
    pub fn measure(&mut self, pod: &Value, now: SimTime) {
        for (containers, field) in [(&mut self.inits, "initContainers"), (&mut self.containers, "containers")]
        {
            let specs = pod["spec"][field].as_array().into_iter().flatten();
            for (container, spec) in containers.iter_mut().zip(specs) {
                container.measure(spec, pod, now);
            }
        }
    }

    /// Returns name, start time and usage of each running container.
    pub fn usage(&self) -> impl Iterator<Item = (&str, i64, &Meter)> {
        self.inits.iter().chain(&self.containers).filter_map(|container| match container.state {
            ContainerState::Running { at, .. } => Some((container.name.as_str(), at, &container.meter)),
            _ => None,
        })
    }

    /// Returns the CPU time of all containers, in nanoseconds.
    pub fn spent(&self, now: SimTime) -> u64 {
        let all = self.inits.iter().chain(&self.containers);
        all.map(|container| container.meter.spent(now.millis)).fold(0, u64::saturating_add)
    }

    /// Ends all containers, because the node was stopped.
    pub fn stop_all(&mut self, now: SimTime) {
        for container in self.inits.iter_mut().chain(&mut self.containers) {
            if container.is_running() {
                container.end(255, "Unknown", now);
            }
        }
    }

    pub fn step(&mut self, pod: &Value, now: SimTime, environment: &NodeEnvironment<'_>) -> PodStep {
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let is_over = matches!(phase, "Succeeded" | "Failed");
        let mut again = None;
        if object::is_being_deleted(pod) {
            if is_over || self.stopped(pod, now, &mut again) {
                return self.last_step(pod, now, environment);
            }
        } else if is_over {
            return PodStep::default();
        } else {
            self.refused = self.refused.or(environment.refuses.filter(|_| self.is_new()));
            if self.refused.is_none() {
                self.progress(pod, now, environment, &mut again);
            }
        }
        PodStep {
            status: status::changed(pod, self, now, environment),
            again: again.map(|time: u64| time.saturating_sub(now.millis)),
            remove: false,
        }
    }

    fn is_new(&self) -> bool {
        self.inits.iter().chain(&self.containers).all(|container| container.state == ContainerState::Waiting)
    }

    /// Whether all containers have stopped, at the latest after the grace period.
    fn stopped(&mut self, pod: &Value, now: SimTime, again: &mut Option<u64>) -> bool {
        let request = *self.deletion_requested.get_or_insert(now.millis);
        let grace = object::deletion_grace_period_seconds(pod).unwrap_or(30).max(0).cast_unsigned() * 1000;
        let takes =
            object::annotation(pod, STOP_AFTER).and_then(milliseconds).unwrap_or(0).max(pre_stop(pod));
        let due = request + takes.min(grace);
        if now.millis < due && self.is_serving() {
            *again = Some(due);
            return false;
        }
        let code = if takes > grace { 137 } else { 0 };
        for container in self.inits.iter_mut().chain(&mut self.containers) {
            if container.is_running() {
                container.end(code, if code == 0 { "Completed" } else { "Error" }, now);
            }
        }
        true
    }

    /// Returns the last step of a pod that is being deleted. With finalizers, its status is written before
    /// the deletion.
    fn last_step(&mut self, pod: &Value, now: SimTime, environment: &NodeEnvironment<'_>) -> PodStep {
        let has_finalizers = object::finalizers(pod).next().is_some();
        let status = if has_finalizers { status::changed(pod, self, now, environment) } else { None };
        PodStep { status, again: None, remove: true }
    }

    fn progress(
        &mut self,
        pod: &Value,
        now: SimTime,
        environment: &NodeEnvironment<'_>,
        again: &mut Option<u64>,
    ) {
        let mut soon = |time: u64| *again = Some(again.map_or(time, |again: u64| again.min(time)));
        let starts = self.arrived + environment.start_delay;
        if self.is_new() && now.millis < starts {
            return soon(starts);
        }
        let deadline = pod["spec"]["activeDeadlineSeconds"]
            .as_i64()
            .map(|seconds| self.arrived.saturating_add(seconds.max(0).cast_unsigned().saturating_mul(1000)));
        if let Some(deadline) = deadline {
            if now.millis >= deadline {
                self.refused = Some((
                    "DeadlineExceeded",
                    "Pod was active on the node longer than the specified deadline",
                ));
                return self.stop_all(now);
            }
            soon(deadline);
        }
        let probe_results = probe_results(pod);
        let specs = |field: &str| pod["spec"][field].as_array().map_or(&[][..], Vec::as_slice);
        let policy = pod["spec"]["restartPolicy"].as_str().unwrap_or("Always");
        let mut initialized = true;
        for (container, spec) in self.inits.iter_mut().zip(specs("initContainers")) {
            if !initialized {
                break;
            }
            let is_sidecar = spec["restartPolicy"] == "Always";
            // A failed init container is restarted unless the pod's policy is Never.
            let policy = match (is_sidecar, policy) {
                (true, _) => "Always",
                (false, "Never") => "Never",
                (false, _) => "OnFailure",
            };
            advance(container, spec, policy, now, environment, probe_results).into_iter().for_each(&mut soon);
            initialized = match is_sidecar {
                true => container.started,
                false => container.exit_code() == Some(0),
            };
            if !is_sidecar && initialized {
                container.ready = true;
            }
        }
        if !initialized {
            return;
        }
        for (container, spec) in self.containers.iter_mut().zip(specs("containers")) {
            advance(container, spec, policy, now, environment, probe_results).into_iter().for_each(&mut soon);
        }
        if self.containers.iter().all(|container| container.exit_code().is_some()) {
            for container in &mut self.inits {
                if container.is_running() {
                    container.end(0, "Completed", now);
                }
            }
        }
    }
}

/// Advances one container: starts, continues or restarts it. Returns the time of the next step.
fn advance(
    container: &mut Container,
    spec: &Value,
    policy: &str,
    now: SimTime,
    environment: &NodeEnvironment<'_>,
    probe_results: ProbeResults,
) -> Option<u64> {
    match container.state {
        ContainerState::Waiting => container.start(spec, now, false),
        ContainerState::Backoff { until } if now.millis >= until => container.start(spec, now, true),
        ContainerState::Backoff { until } => return Some(until),
        ContainerState::Running { .. } | ContainerState::Ended(_) => {}
    }
    let crashes = (environment.crashes)(spec["image"].as_str().unwrap_or_default());
    let next = container.run(now, crashes, probe_results);
    let code = container.exit_code();
    if code.is_some_and(|code| is_restarted(spec, policy, code)) {
        container.back_off(now);
        if let ContainerState::Backoff { until } = container.state {
            return Some(until);
        }
    }
    next
}

/// Whether a container that ended with `code` is restarted.
fn is_restarted(spec: &Value, policy: &str, code: i32) -> bool {
    let rules = spec["restartPolicyRules"].as_array().into_iter().flatten();
    for rule in rules.filter(|rule| rule["action"] == "Restart") {
        let listed = rule["exitCodes"]["values"].as_array().into_iter().flatten().any(|value| *value == code);
        if listed == (rule["exitCodes"]["operator"] == "In") {
            return true;
        }
    }
    match spec["restartPolicy"].as_str().unwrap_or(policy) {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

fn probe_results(pod: &Value) -> ProbeResults {
    let passes = |annotation: &str| object::annotation(pod, annotation) != Some("fail");
    let [startup, readiness, liveness] = PROBES.map(passes);
    ProbeResults { startup, readiness, liveness }
}

/// Returns the longest preStop sleep of the containers.
fn pre_stop(pod: &Value) -> u64 {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let seconds = containers.filter_map(|spec| spec["lifecycle"]["preStop"]["sleep"]["seconds"].as_i64());
    seconds.max().unwrap_or(0).max(0).cast_unsigned() * 1000
}

#[cfg(test)]
mod tests;
