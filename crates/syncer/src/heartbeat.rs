//! Looks at the cluster again and again, says so there, and tells above how it is.

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::time::format_duration;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::census::Census;
use crate::core::Core;
use crate::guard::{self, Findings, Guard, Objection};

/// After something went wrong it is looked at again after this long, and then later and later.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Which version it is changes rarely.
const VERSION_BEATS: u64 = 30;

pub async fn keep(core: &Arc<Core>, guard: &mut Guard, census: &Census) {
    let mut version = None;
    let mut pause = FIRST_PAUSE;
    for beat in 0u64.. {
        let master = core.master().await;
        let began = Instant::now();
        let (findings, mut verdict) = guard.check(&core.below, &core.settings, &master).await;
        if verdict.is_ok() {
            let until = began + guard::duration(&core.settings);
            verdict = core.open(until, &master).await.map_err(|status| guard::objection(&status));
        }
        if verdict.is_err() {
            core.trust.close();
        } else if version.is_none() || beat % VERSION_BEATS == 0 {
            let answer = core.below.get("/version").await.ok().flatten();
            version = answer.and_then(|answer| answer["gitVersion"].as_str().map(str::to_string)).or(version);
        }
        core.reports.beat(status(core, &findings, verdict.as_ref().err(), version.as_deref(), census));
        match verdict {
            Ok(()) => {
                pause = FIRST_PAUSE;
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(core.settings.about(core.settings.interval)) => {}
                    // Who doubts all the time is not heeded all the time.
                    () = core.trust.doubts.notified() => tokio::time::sleep_until(began + FIRST_PAUSE).await,
                }
            }
            Err(objection) => {
                tracing::debug!(cluster = %core.settings.cluster, reason = objection.reason, "{}", objection.message);
                tokio::time::sleep(core.settings.about(pause)).await;
                pause = (pause * 2).min(core.settings.interval);
            }
        }
    }
}

fn status(
    core: &Core,
    findings: &Findings,
    objection: Option<&Objection>,
    version: Option<&str>,
    census: &Census,
) -> Value {
    let settings = &core.settings;
    let mut status = match objection {
        // It may be another one's nodes.
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
    let now = settings.clock.now().to_time();
    let syncer =
        json!({ "version": settings.version, "instance": settings.instance, "lastHeartbeatTime": now });
    status.insert("syncer".into(), syncer);
    Value::Object(status)
}
