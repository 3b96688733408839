//! One control plane with a number of clusters and workloads, and the phases that are measured with them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::arrivals::Arrivals;
use super::clusters::{ReportedClusters, read_lines};
use super::workloads::{self, DecidedBy, SHARES, apply_policy, policy};
use crate::connection::{Target, unexpected_response};
use crate::error::{BenchError, BenchResult};
use crate::server::{RunningServer, ServerKind};
use crate::session::Session;
use crate::sync::latency::open_watch;
use crate::{process, progress};

const METRIC: &str = "atoll_expired_watches";
/// A phase has ended when nothing has arrived for this long.
const QUIET: Duration = Duration::from_secs(3);
/// Maximum time until the first placement of a phase. Clusters are lost after a while only.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum time of a phase.
const TIMEOUT: Duration = Duration::from_secs(900);
/// Time after joining, so that new clusters count as settled.
const SETTLING: Duration = Duration::from_secs(12);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub struct Scenario {
    server: RunningServer,
    clusters: usize,
    workloads: usize,
}

pub struct PhaseMeasurement {
    pub name: &'static str,
    /// Workloads that were placed.
    pub objects: usize,
    /// Lines in the views.
    pub lines: usize,
    /// Objects per second: decided about without writing, written, and in the views of their clusters.
    pub decided: Option<f64>,
    pub written: f64,
    pub in_view: f64,
    /// CPU time of the control plane for each object, in seconds.
    pub busy: f64,
    /// Whether the goal applies.
    pub is_judged: bool,
}

impl PhaseMeasurement {
    pub fn describe(&self) -> Value {
        json!({
            "phase": self.name,
            "objects": self.objects,
            "lines": self.lines,
            "decided_per_second": self.decided,
            "written_per_second": self.written,
            "in_view_per_second": self.in_view,
            "busy_seconds_per_object": self.busy,
        })
    }
}

/// The expected effect of a phase.
struct Expected {
    name: &'static str,
    /// Workloads that are placed and lines of each, if all of them are known to be.
    all: Option<u32>,
    /// Whether time counts from the first placement.
    from_first: bool,
}

impl Scenario {
    pub fn start(session: &Session, clusters: usize, workloads: usize) -> BenchResult<Scenario> {
        let directory = session.directory(ServerKind::Atoll).join(format!("place-{clusters}"));
        let server = session.programs.start_with_controllers(&directory)?;
        Ok(Scenario { server, clusters, workloads })
    }

    /// Stops the server and returns its CPU time.
    pub fn stop(self) -> BenchResult<Duration> {
        self.server.stop()
    }

    /// Measures all phases. Also returns how many watches have expired.
    pub async fn measure(&mut self) -> BenchResult<(Vec<PhaseMeasurement>, Option<f64>)> {
        let target = self.server.target.clone();
        let arrivals = Arc::new(Arrivals::new(2 * self.workloads));
        progress("  joining");
        let mut clusters = ReportedClusters::join(&target, self.clusters, &arrivals).await?;
        tokio::time::sleep(SETTLING).await;
        let watch = open_watch(&target, workloads::DEPLOYMENTS).await?;
        let seen = arrivals.clone();
        clusters.spawn(read_lines(watch, move |event| seen.see_event(event)));

        progress("  creating workloads that stay in the control plane");
        for by in [DecidedBy::Policy, DecidedBy::Default] {
            workloads::create_namespaces(&target, by, self.workloads).await?;
        }
        apply_policy(&target, &policy(None)).await?;
        workloads::create(&target, DecidedBy::Policy, 0, self.workloads).await?;
        self.wait_until_decided(&target).await?;
        let mut phases = Vec::new();

        let changed = policy(Some([2, 1]));
        let decided = self.decide_alone(&target, &changed).await?;
        let expected = Expected { name: "policy, cold", all: Some(SHARES), from_first: false };
        let mut cold = self.phase(&clusters, &arrivals, expected, || apply_policy(&target, &changed)).await?;
        (cold.decided, cold.is_judged) = (Some(decided), true);
        phases.push(cold);

        let changed = policy(Some([1, 2]));
        let expected = Expected { name: "weights changed", all: None, from_first: false };
        phases.push(self.phase(&clusters, &arrivals, expected, || apply_policy(&target, &changed)).await?);

        let expected = Expected { name: "cluster lost", all: None, from_first: true };
        clusters.lose_one();
        phases.push(self.phase(&clusters, &arrivals, expected, || async { Ok(()) }).await?);

        let expected = Expected { name: "default, created at once", all: Some(1), from_first: false };
        let create = || workloads::create(&target, DecidedBy::Default, self.workloads, self.workloads);
        phases.push(self.phase(&clusters, &arrivals, expected, create).await?);

        clusters.check()?;
        Ok((phases, metric(&target, METRIC).await?))
    }

    /// Starts a change and measures until nothing arrives any more.
    async fn phase<F: Future<Output = BenchResult<()>>>(
        &self,
        clusters: &ReportedClusters,
        arrivals: &Arrivals,
        expected: Expected,
        change: impl FnOnce() -> F,
    ) -> BenchResult<PhaseMeasurement> {
        progress(&format!("  {}", expected.name));
        arrivals.reset();
        let (mut begun, mut busy) = (Instant::now(), process::busy(&self.server.processes)?);
        let deadline = begun + TIMEOUT;
        change().await?;
        let mut busy_after = busy;
        let mut last = (0, 0);
        loop {
            clusters.check()?;
            let (times, now) = (arrivals.times(), Instant::now());
            let counts = (arrivals.written(), arrivals.lines());
            if counts != last {
                (busy_after, last) = (process::busy(&self.server.processes)?, counts);
            }
            if let Some(first) = times.first_written.filter(|first| expected.from_first && *first > begun) {
                // Everything before was waiting.
                (begun, busy) = (first, process::busy(&self.server.processes)?);
            }
            match times.quiet() {
                Some(quiet) if quiet >= QUIET => break,
                None if now > begun + BEGIN_TIMEOUT => {
                    return Err(BenchError::Response(format!("{}: nothing was placed", expected.name)));
                }
                _ if now > deadline => {
                    return Err(BenchError::Response(format!("{}: does not end", expected.name)));
                }
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
        let (objects, lines, times) = (arrivals.written(), arrivals.lines(), arrivals.times());
        if let Some(each) = expected.all
            && (objects != self.workloads || lines < self.workloads * each as usize)
        {
            let (name, all) = (expected.name, self.workloads);
            return Err(BenchError::Response(format!(
                "{name}: {objects} of {all} workloads were placed, with {lines} lines in the views"
            )));
        }
        let rate = |until: Option<Instant>| {
            let took = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(begun));
            objects as f64 / took.as_secs_f64().max(1e-3)
        };
        let measured = PhaseMeasurement {
            name: expected.name,
            objects,
            lines,
            decided: None,
            written: rate(times.last_written),
            in_view: rate(times.last_written.max(times.last_line)),
            busy: busy_after.saturating_sub(busy).as_secs_f64() / objects.max(1) as f64,
            is_judged: false,
        };
        progress(&format!(
            "    {objects} objects, {:.0} written and {:.0} in the views per second, {:.2} ms of CPU each",
            measured.written,
            measured.in_view,
            measured.busy * 1e3
        ));
        Ok(measured)
    }

    /// Asks what a policy would do, and returns decisions per second. Nothing is written.
    async fn decide_alone(&self, target: &Target, policy: &Value) -> BenchResult<f64> {
        progress("  deciding alone");
        let body = json!({ "policy": policy }).to_string();
        let begun = Instant::now();
        let (answer, body) = target.try_call("POST", "/services/what-if", &body).await?;
        let took = begun.elapsed();
        if answer.status != 200 {
            return Err(unexpected_response("POST", "/services/what-if", answer, &body));
        }
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let changes = answer["changes"].as_array().map_or(0, Vec::len);
        if changes != self.workloads {
            let all = self.workloads;
            return Err(BenchError::Response(format!(
                "the policy would change {changes} of {all} workloads"
            )));
        }
        Ok(changes as f64 / took.as_secs_f64())
    }

    /// Waits until the scheduler has said about each workload that it stays in the control plane.
    async fn wait_until_decided(&self, target: &Target) -> BenchResult<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let body = target.call("GET", workloads::DEPLOYMENTS, "").await?;
            let body = String::from_utf8_lossy(&body);
            let decided = body.matches("\"type\":\"Placed\"").count();
            if decided >= self.workloads {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(BenchError::Response(format!("{decided} workloads have the condition Placed")));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

/// Returns a metric of the server without labels.
async fn metric(target: &Target, name: &str) -> BenchResult<Option<f64>> {
    let body = target.call("GET", "/metrics", "").await?;
    let text = String::from_utf8_lossy(&body);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Ok(value)
}
