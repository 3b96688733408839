//! State machine of a container: waiting, running, ended, restarting.

use serde_json::{Value, json};

use super::SimTime;
use super::probe::Probe;
use crate::program::{self, Program};
use crate::usage::{Meter, Usage};

const FIRST_BACKOFF: u64 = 10_000;
const LAST_BACKOFF: u64 = 300_000;
/// Running time after which the backoff is reset.
const FORGET: u64 = 2 * LAST_BACKOFF;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Not started yet.
    Waiting,
    /// Ended, and restarted at this time.
    Backoff {
        until: u64,
    },
    Running {
        since: u64,
        at: i64,
    },
    Ended(Ended),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub code: i32,
    pub reason: &'static str,
    pub started_at: i64,
    pub at: i64,
}

#[derive(Clone, Debug)]
pub struct Container {
    pub name: String,
    pub state: ContainerState,
    pub last: Option<Ended>,
    pub restarts: i64,
    /// Whether the startup probe has passed, or there is none.
    pub started: bool,
    pub ready: bool,
    program: Program,
    backoff: u64,
    startup: Option<Probe>,
    readiness: Option<Probe>,
    liveness: Option<Probe>,
    /// Recent output, with times.
    pub log: super::log::Log,
    /// Resource usage.
    pub meter: Meter,
}

/// Current results of the probes of a pod.
#[derive(Clone, Copy, Debug)]
pub struct ProbeResults {
    pub startup: bool,
    pub readiness: bool,
    pub liveness: bool,
}

impl Container {
    pub fn new(spec: &Value, pod: &Value) -> Container {
        Container {
            name: spec["name"].as_str().unwrap_or_default().into(),
            state: ContainerState::Waiting,
            last: None,
            restarts: 0,
            started: false,
            ready: false,
            program: program::of(spec, pod),
            backoff: FIRST_BACKOFF,
            startup: None,
            readiness: None,
            liveness: None,
            log: super::log::Log::default(),
            meter: Meter::default(),
        }
    }

    /// Updates its usage, which is zero unless it runs.
    pub fn measure(&mut self, spec: &Value, pod: &Value, now: SimTime) {
        let usage = if self.is_running() { Usage::of_container(spec, pod) } else { Usage::default() };
        if usage != self.meter.usage {
            self.meter.set(usage, now.millis);
        }
    }

    /// Restores the state of a container that ran before this process started.
    pub fn resume(&mut self, spec: &Value, status: &Value, now: SimTime) {
        let seconds = |time: &Value| {
            time.as_str().and_then(|time| atoll_meta::time::parse(time).ok()).map_or(0, |time| time.seconds)
        };
        let ended = |state: &Value| {
            let state = state.get("terminated")?;
            Some(Ended {
                code: state["exitCode"].as_i64().and_then(|code| code.try_into().ok()).unwrap_or(0),
                reason: if state["exitCode"] == 0 { "Completed" } else { "Error" },
                started_at: seconds(&state["startedAt"]),
                at: seconds(&state["finishedAt"]),
            })
        };
        self.restarts = status["restartCount"].as_i64().unwrap_or(0);
        self.last = ended(&status["lastState"]);
        if let Some(running) = status["state"].get("running") {
            self.start(spec, now, false);
            self.state = ContainerState::Running { since: now.millis, at: seconds(&running["startedAt"]) };
            self.started = status["started"].as_bool().unwrap_or(false);
            self.ready = status["ready"].as_bool().unwrap_or(false);
        } else if let Some(ended) = ended(&status["state"]) {
            self.ready = status["ready"].as_bool().unwrap_or(false);
            self.state = ContainerState::Ended(ended);
        } else if self.last.is_some() {
            self.state = ContainerState::Backoff { until: now.millis + FIRST_BACKOFF };
        }
    }

    pub fn start(&mut self, spec: &Value, now: SimTime, again: bool) {
        if again {
            self.restarts += 1;
        }
        self.state = ContainerState::Running { since: now.millis, at: now.seconds };
        self.startup = Probe::new(spec, "startupProbe", now.millis);
        self.readiness = Probe::new(spec, "readinessProbe", now.millis);
        self.liveness = Probe::new(spec, "livenessProbe", now.millis);
        self.started = self.startup.is_none();
        self.ready = self.started && self.readiness.is_none();
        for line in &self.program.output {
            self.log.log_line(now, line.clone());
        }
    }

    pub fn end(&mut self, code: i32, reason: &'static str, now: SimTime) {
        let started_at = if let ContainerState::Running { at, .. } = self.state { at } else { now.seconds };
        self.state = ContainerState::Ended(Ended { code, reason, started_at, at: now.seconds });
        self.started = false;
        self.ready = false;
    }

    /// Schedules the restart of an ended container, with a backoff that is reset after a long run.
    pub fn back_off(&mut self, now: SimTime) {
        let ContainerState::Ended(ended) = &self.state else { return };
        let ran = ended.at.saturating_sub(ended.started_at).max(0).cast_unsigned() * 1000;
        if ran > FORGET {
            self.backoff = FIRST_BACKOFF;
        }
        self.last = Some(ended.clone());
        self.state = ContainerState::Backoff { until: now.millis + self.backoff };
        self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, ContainerState::Running { .. })
    }

    pub fn exit_code(&self) -> Option<i32> {
        if let ContainerState::Ended(ended) = &self.state { Some(ended.code) } else { None }
    }

    /// Advances a running container: it may end, crash, or be stopped by probes. Returns the time of the next
    /// step.
    pub fn run(&mut self, now: SimTime, crashes: bool, probe_results: ProbeResults) -> Option<u64> {
        let ContainerState::Running { since, .. } = self.state else { return None };
        if crashes {
            self.log.log_line(now, "crashing because of a crash-loop fault".into());
            self.end(1, "Error", now);
            return None;
        }
        let mut next = None;
        if let Some(end) = self.program.ends {
            if now.millis >= since + end.after {
                self.end(end.code, if end.code == 0 { "Completed" } else { "Error" }, now);
                return None;
            }
            next = Some(since + end.after);
        }
        let mut soon = |time: u64| next = Some(next.map_or(time, |next: u64| next.min(time)));
        if !self.started {
            let Some(startup) = &mut self.startup else { return next };
            startup.tick(now.millis, probe_results.startup);
            match startup.passed {
                Some(false) => {
                    self.end(137, "Error", now);
                    return None;
                }
                Some(true) => {
                    self.started = true;
                    for probe in [&mut self.readiness, &mut self.liveness].into_iter().flatten() {
                        probe.start(now.millis);
                    }
                }
                None => {
                    soon(startup.next());
                    return next;
                }
            }
        }
        match &mut self.readiness {
            None => self.ready = true,
            Some(readiness) => {
                readiness.tick(now.millis, probe_results.readiness);
                self.ready = readiness.passed == Some(true);
                // No further probes are needed while the result cannot change.
                if self.ready != probe_results.readiness {
                    soon(readiness.next());
                }
            }
        }
        if let Some(liveness) = &mut self.liveness {
            liveness.tick(now.millis, probe_results.liveness);
            if liveness.passed == Some(false) {
                self.log.log_line(now, "stopped: its liveness probe failed".into());
                self.end(137, "Error", now);
                return None;
            }
            if !probe_results.liveness {
                soon(liveness.next());
            }
        }
        next
    }

    /// Returns its entry in the pod's status. `waits_for` is the reason of a container that has not started.
    pub fn status(&self, spec: &Value, uid: &str, waits_for: &str) -> Value {
        let id = |restarts: i64| format!("sim://{uid}/{}/{restarts}", self.name);
        let ended = |ended: &Ended, id: String| {
            json!({"terminated": {
                "exitCode": ended.code,
                "reason": ended.reason,
                "startedAt": atoll_meta::time::format(ended.started_at),
                "finishedAt": atoll_meta::time::format(ended.at),
                "containerID": id,
            }})
        };
        let state = match &self.state {
            ContainerState::Waiting => json!({"waiting": {"reason": waits_for}}),
            ContainerState::Backoff { .. } => json!({"waiting": {
                "reason": "CrashLoopBackOff",
                "message": format!("back-off restarting failed container={}", self.name),
            }}),
            ContainerState::Running { at, .. } => {
                json!({"running": {"startedAt": atoll_meta::time::format(*at)}})
            }
            ContainerState::Ended(end) => ended(end, id(self.restarts)),
        };
        let last = self
            .last
            .as_ref()
            .map_or(json!({}), |last| ended(last, id(self.restarts - i64::from(self.is_running()))));
        let image = spec["image"].as_str().unwrap_or_default();
        let has_started = self.state != ContainerState::Waiting;
        let mut status = json!({
            "name": self.name,
            "state": state,
            "lastState": last,
            "ready": self.ready,
            "restartCount": self.restarts,
            "image": image,
            "imageID": if has_started { format!("sim://{image}") } else { String::new() },
            "started": self.started,
        });
        if has_started {
            status["containerID"] = id(self.restarts).into();
        }
        status
    }
}
