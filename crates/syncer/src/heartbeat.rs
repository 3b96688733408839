//! Checks the cluster periodically, renews its lease, and reports its state above.

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::time::format_duration;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::census::Census;
use crate::core::Core;
use crate::guard::{self, Findings, Guard, Note, Objection};

/// First pause after a failed check; later pauses grow exponentially.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Heartbeats between requests for the Kubernetes version.
const VERSION_BEATS: u64 = 30;
/// Number of heartbeat intervals after which a check of the cluster times out.
const PATIENCE: u32 = 2;
/// Shortest timeout of a check.
const LEAST: Duration = Duration::from_secs(5);

pub async fn keep(core: &Arc<Core>, guard: &mut Guard, census: &Census) {
    let mut version = None;
    let mut pause = FIRST_PAUSE;
    for beat in 0u64.. {
        let interval = core.contact.interval(&core.settings);
        let began = Instant::now();
        let (findings, verdict) = look(core, guard, interval).await;
        if verdict.is_err() {
            core.trust.close();
        } else if version.is_none() || beat % VERSION_BEATS == 0 {
            let answer = tokio::time::timeout(interval.max(LEAST), core.vital.get("/version")).await;
            let answer = answer.ok().and_then(Result::ok).flatten();
            version = answer.and_then(|answer| answer["gitVersion"].as_str().map(str::to_string)).or(version);
        }
        // An oversized response is reported, but syncing continues.
        let oversized = match verdict {
            Ok(()) => oversized(core),
            Err(_) => None,
        };
        let objection = verdict.as_ref().err().or(oversized.as_ref());
        let mut status = status(core, &findings, objection, version.as_deref(), census, interval);
        if verdict.is_ok() {
            let unmapped = tokio::time::timeout(interval.max(LEAST), unmapped(core)).await;
            unmapped.into_iter().for_each(|unmapped| status["unmappedNamespaces"] = unmapped);
        }
        core.reports.beat(status);
        match verdict {
            Ok(()) => {
                pause = FIRST_PAUSE;
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(core.settings.about(interval)) => {}
                    // Limit the rate of rechecks.
                    () = core.trust.doubts.notified() => tokio::time::sleep_until(began + FIRST_PAUSE).await,
                }
            }
            Err(objection) => {
                tracing::debug!(cluster = %core.settings.cluster, reason = objection.reason, "{}", objection.message);
                tokio::time::sleep(core.settings.about(pause)).await;
                pause = (pause * 2).min(interval);
            }
        }
    }
}

/// Returns the recent refusal of an oversized response, if any.
fn oversized(core: &Core) -> Option<Objection> {
    let (cause, what) = core.below.client.budget()?.refused()?;
    Some(Objection::new(cause.name(), &core.settings.cluster, &what))
}

/// Checks the cluster once, and opens the write gate if the check succeeds.
async fn look(core: &Arc<Core>, guard: &mut Guard, interval: Duration) -> (Findings, Result<(), Objection>) {
    let master = core.master().await;
    let began = Instant::now();
    let cluster = &core.settings.cluster;
    // While the cluster asks clients to back off, report that without a request.
    if core.below.rests_for() > interval {
        let objection = Objection::new("Overloaded", cluster, "");
        return (Findings::default(), Err(objection));
    }
    let note = Note { interval, lost: core.contact.lost() };
    let looking = async {
        let (findings, verdict) = guard.check(&core.vital, &core.settings, &master, &note).await;
        let until = began + guard::duration(interval);
        let verdict = match verdict {
            Ok(()) => {
                core.open(until, &master).await.map_err(|status| Objection::of(&status, &core.settings))
            }
            objection => objection,
        };
        (findings, verdict)
    };
    match tokio::time::timeout((interval * PATIENCE).max(LEAST), looking).await {
        Ok(looked) => looked,
        Err(_) => (Findings::default(), Err(Objection::new("TimedOut", cluster, ""))),
    }
}

/// Returns the namespaces of the cluster that workspaces other than the registering one use without a label
/// that allows it.
async fn unmapped(core: &Core) -> Value {
    let master = core.master().await;
    // An older control plane does not send the registering workspace.
    if master.workspace.is_empty() {
        return json!([]);
    }
    let unmapped = core.spaces.unmapped(&core.vital, &master.workspace).await;
    let namespace = |(name, workspace): &(String, String)| json!({ "name": name, "workspace": workspace });
    unmapped.iter().map(namespace).collect()
}

fn status(
    core: &Core,
    findings: &Findings,
    objection: Option<&Objection>,
    version: Option<&str>,
    census: &Census,
    interval: Duration,
) -> Value {
    let settings = &core.settings;
    let mut status = match objection {
        // The nodes may belong to another cluster.
        Some(objection) if objection.reason == "AnotherCluster" => Map::new(),
        _ => census.status(),
    };
    if let Some(objection) = objection {
        status.insert("reason".into(), objection.reason.into());
        status.insert("message".into(), objection.message.as_str().into());
    }
    if let Some(why) = core.pauses.of_all() {
        status.insert("paused".into(), why.into());
    }
    if !findings.identity.is_empty() {
        status.insert("id".into(), findings.identity.as_str().into());
        let millis = findings.latency.as_micros().div_ceil(1000);
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
