//! Checks the cluster periodically, renews its lease, and reports its state above.

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::time::format_duration;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::guard::{self, ClusterCheck, Guard, LeaseNote, NotReady};
use crate::syncer::Syncer;

/// First pause after a failed check; later pauses grow exponentially.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Heartbeats between requests for the Kubernetes version.
const VERSION_BEATS: u64 = 30;
/// Number of heartbeat intervals after which a check of the cluster times out.
const TIMEOUT_INTERVALS: u32 = 2;
/// Shortest timeout of a check.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(5);

pub async fn run(syncer: &Arc<Syncer>, guard: &mut Guard) {
    let mut version = None;
    let mut pause = FIRST_PAUSE;
    for beat in 0u64.. {
        let interval = syncer.connection.interval(&syncer.settings);
        let began = Instant::now();
        let (check, outcome) = check_once(syncer, guard, interval).await;
        if outcome.is_err() {
            syncer.gate.close();
        } else if version.is_none() || beat % VERSION_BEATS == 0 {
            let answer =
                tokio::time::timeout(interval.max(SHORTEST_TIMEOUT), syncer.unqueued.get("/version")).await;
            let answer = answer.ok().and_then(Result::ok).flatten();
            version = answer.and_then(|answer| answer["gitVersion"].as_str().map(str::to_string)).or(version);
        }
        // An oversized response is reported, but syncing continues.
        let oversized = match outcome {
            Ok(()) => oversized(syncer),
            Err(_) => None,
        };
        let problem = outcome.as_ref().err().or(oversized.as_ref());
        let mut status = status(syncer, &check, problem, version.as_deref(), interval);
        if outcome.is_ok() {
            let unmapped = tokio::time::timeout(interval.max(SHORTEST_TIMEOUT), unmapped(syncer)).await;
            unmapped.into_iter().for_each(|unmapped| status["unmappedNamespaces"] = unmapped);
        }
        syncer.reports.set_heartbeat(status);
        match outcome {
            Ok(()) => {
                pause = FIRST_PAUSE;
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(syncer.settings.jitter(interval)) => continue,
                    () = syncer.gate.recheck.notified() => {}
                    // The response to the first heartbeat contains the interval. Until the configured one is over,
                    // the control plane may already consider the cluster lost.
                    () = syncer.connection.interval_shortened.notified() => {}
                }
                // Limit the rate of rechecks.
                tokio::time::sleep_until(began + FIRST_PAUSE).await;
            }
            Err(problem) => {
                tracing::debug!(cluster = %syncer.settings.cluster, reason = problem.reason, "{}", problem.message);
                tokio::time::sleep(syncer.settings.jitter(pause)).await;
                pause = (pause * 2).min(interval);
            }
        }
    }
}

/// Returns the recent refusal of an oversized response, if any.
fn oversized(syncer: &Syncer) -> Option<NotReady> {
    let (cause, what) = syncer.below.client.budget()?.last_refusal()?;
    Some(NotReady::new(cause.name(), &syncer.settings.cluster, &what))
}

/// Checks the cluster once, and opens the write gate if the check succeeds.
async fn check_once(
    syncer: &Arc<Syncer>,
    guard: &mut Guard,
    interval: Duration,
) -> (ClusterCheck, Result<(), NotReady>) {
    let registration = syncer.registration().await;
    let began = Instant::now();
    let cluster = &syncer.settings.cluster;
    // While the cluster asks clients to back off, report that without a request.
    if syncer.below.backoff_left() > interval {
        let problem = NotReady::new("Overloaded", cluster, "");
        return (ClusterCheck::default(), Err(problem));
    }
    let note = LeaseNote { interval, lost: syncer.connection.outage() };
    let checking = async {
        let (check, outcome) = guard.check(&syncer.unqueued, &syncer.settings, &registration, &note).await;
        let until = began + guard::duration(interval);
        let outcome = match outcome {
            Ok(()) => syncer
                .open(until, &registration)
                .await
                .map_err(|status| NotReady::of(&status, &syncer.settings)),
            problem => problem,
        };
        (check, outcome)
    };
    match tokio::time::timeout((interval * TIMEOUT_INTERVALS).max(SHORTEST_TIMEOUT), checking).await {
        Ok(result) => result,
        Err(_) => (ClusterCheck::default(), Err(NotReady::new("TimedOut", cluster, ""))),
    }
}

/// Returns the namespaces of the cluster that workspaces other than the registering one use without a label
/// that allows it.
async fn unmapped(syncer: &Syncer) -> Value {
    let registration = syncer.registration().await;
    // An older control plane does not send the registering workspace.
    if registration.workspace.is_empty() {
        return json!([]);
    }
    let unmapped = syncer.namespaces.unmapped(&syncer.unqueued, &registration.workspace).await;
    let namespace = |(name, workspace): &(String, String)| json!({ "name": name, "workspace": workspace });
    unmapped.iter().map(namespace).collect()
}

fn status(
    syncer: &Syncer,
    check: &ClusterCheck,
    problem: Option<&NotReady>,
    version: Option<&str>,
    interval: Duration,
) -> Value {
    let settings = &syncer.settings;
    let mut status = match problem {
        // The nodes may belong to another cluster.
        Some(problem) if problem.reason == "AnotherCluster" => Map::new(),
        _ => {
            let mapped = syncer.namespaces.mapped(&syncer.inventory.namespaces_with_quotas());
            let mut status = syncer.inventory.status(&syncer.table.workloads(), &mapped);
            syncer.capabilities.add_to(&mut status);
            status
        }
    };
    if let Some(problem) = problem {
        status.insert("reason".into(), problem.reason.into());
        status.insert("message".into(), problem.message.as_str().into());
    }
    if let Some(why) = syncer.pauses.reason_for_all() {
        status.insert("paused".into(), why.into());
    }
    if !check.identity.is_empty() {
        status.insert("id".into(), check.identity.as_str().into());
        let millis = check.latency.as_micros().div_ceil(1000);
        let nanos = i64::try_from(millis).unwrap_or(i64::MAX / 1_000_000) * 1_000_000;
        status.insert("latency".into(), format_duration(nanos).into());
    }
    if let Some(version) = version {
        status.insert("kubernetesVersion".into(), version.into());
    }
    let syncer = json!({ "version": settings.version, "instance": settings.instance });
    status.insert("syncer".into(), syncer);
    status.insert("leaseDurationSeconds".into(), guard::duration(interval).as_secs().into());
    Value::Object(status)
}
