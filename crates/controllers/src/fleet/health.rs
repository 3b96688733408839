//! Whether clusters can be used: from what was last heard of each, and how long ago that was.

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Cache, Key, Next, Queue};
use atoll_meta::time::{self, Timestamp};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::clusters;
use crate::context::Context;
use crate::{conditions, wake};

const AT_ONCE: usize = 16;
/// Problems that lie in the way to a cluster, not in what is found there.
const OUT_OF_REACH: [&str; 3] = ["CredentialsRefused", "Overloaded", "Unreachable"];

pub async fn run(context: Context) {
    let clusters = context.informers.of(&clusters());
    let queue = Queue::new();
    wake::itself(&clusters, &queue);
    clusters.synced().await;
    queue
        .work("health of clusters", AT_ONCE, move |key| {
            let (context, clusters) = (context.clone(), clusters.clone());
            async move { sync(&context, &clusters, &key).await }
        })
        .await;
}

async fn sync(context: &Context, clusters: &Arc<Cache>, key: &Key) -> Result<Next, Status> {
    let Some(cluster) = clusters.get(key).filter(|cluster| !object::is_being_deleted(cluster)) else {
        return Ok(Next::Done);
    };
    let now = context.clock.now();
    let patience = context.settings.cluster_grace_period;
    let heard = heard(&cluster, now, patience);
    let mut changed = cluster.as_ref().clone();
    let mut news = false;
    for mut condition in found(&cluster, &heard, patience) {
        condition["observedGeneration"] = object::generation(&cluster).into();
        news |= conditions::set_in(&mut changed, condition, &now.to_time());
    }
    if news {
        match context.world().update_status(&clusters.resource, &changed).await {
            Err(status) if matches!(status.reason(), "Conflict" | "NotFound") => return Ok(Next::Again),
            written => clusters.wrote(&written?),
        }
    }
    Ok(match heard {
        Heard::Lately { left } => Next::After(left),
        Heard::LongAgo | Heard::Never => Next::Done,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Never,
    LongAgo,
    /// And for this long that counts.
    Lately {
        left: Duration,
    },
}

fn heard(cluster: &Value, now: Timestamp, patience: Duration) -> Heard {
    let last = cluster["status"]["syncer"]["lastHeartbeatTime"].as_str();
    let Some(last) = last.and_then(|text| time::parse(text).ok()) else { return Heard::Never };
    let since = Duration::from_secs(u64::try_from(now.seconds.saturating_sub(last.seconds)).unwrap_or(0));
    match patience.checked_sub(since).filter(|left| !left.is_zero()) {
        Some(left) => Heard::Lately { left },
        None => Heard::LongAgo,
    }
}

/// What conditions say of a cluster, but when and of which generation.
fn found(cluster: &Value, heard: &Heard, patience: Duration) -> [Value; 3] {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({ "type": kind, "status": status, "reason": reason, "message": message });
    let problem = &cluster["status"]["problem"];
    let silent = format!(
        "nothing was heard from whoever syncs it for {} seconds; is it running, and can it reach this control plane?",
        patience.as_secs()
    );
    let (reason, message) = match (heard, problem["reason"].as_str()) {
        (Heard::Never, _) => ("NeverHeardOf", "nobody has begun to sync it yet"),
        (Heard::LongAgo, _) => ("SyncerSilent", silent.as_str()),
        (Heard::Lately { .. }, Some(reason)) => (reason, problem["message"].as_str().unwrap_or_default()),
        (Heard::Lately { .. }, None) => ("", ""),
    };
    let ready = match reason {
        "" => condition("Ready", "True", "Synced", "it is reached and synced"),
        reason => condition("Ready", "False", reason, message),
    };
    let reachable = match reason {
        "NeverHeardOf" | "SyncerSilent" => condition("Reachable", "Unknown", reason, message),
        reason if OUT_OF_REACH.contains(&reason) => condition("Reachable", "False", reason, message),
        _ => condition("Reachable", "True", "Answers", "its API answers"),
    };
    let (spec, status) = (&cluster["spec"], &cluster["status"]);
    let schedulable = match () {
        () if spec["unschedulable"] == true => {
            condition("Schedulable", "False", "Cordoned", "an administrator has closed it to new work")
        }
        () if spec["paused"] == true || status["paused"].is_string() => {
            let why = status["paused"].as_str().unwrap_or("an administrator has paused it");
            condition("Schedulable", "False", "Paused", why)
        }
        () if spec["access"] == "observe" => {
            condition("Schedulable", "False", "Observed", "it joined to be looked at only")
        }
        () if !reason.is_empty() => condition("Schedulable", "False", "NotReady", "it is not ready"),
        () => condition("Schedulable", "True", "Open", "new work may go there"),
    };
    [ready, reachable, schedulable]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_judged_by_what_was_heard() {
        let patience = Duration::from_secs(40);
        let now = time::parse("2026-11-15T08:01:00Z").unwrap();
        let beat = |at: &str| json!({ "syncer": { "lastHeartbeatTime": at } });
        let with = |mut status: Value, reason: &str| {
            status["problem"] = json!({ "reason": reason, "message": "m" });
            status
        };
        let lately = "2026-11-15T08:00:50Z";
        let mut paused = beat(lately);
        paused["paused"] = "its workspace is paused".into();
        for (spec, status, expected) in [
            (
                json!({}),
                json!({}),
                "Ready=False/NeverHeardOf Reachable=Unknown/NeverHeardOf Schedulable=False/NotReady",
            ),
            (json!({}), beat(lately), "Ready=True/Synced Reachable=True/Answers Schedulable=True/Open"),
            (
                json!({}),
                beat("2026-11-15T08:00:20Z"),
                "Ready=False/SyncerSilent Reachable=Unknown/SyncerSilent Schedulable=False/NotReady",
            ),
            (
                json!({}),
                with(beat(lately), "Unreachable"),
                "Ready=False/Unreachable Reachable=False/Unreachable Schedulable=False/NotReady",
            ),
            (
                json!({}),
                with(beat(lately), "AnotherCluster"),
                "Ready=False/AnotherCluster Reachable=True/Answers Schedulable=False/NotReady",
            ),
            (
                json!({ "unschedulable": true }),
                beat(lately),
                "Ready=True/Synced Reachable=True/Answers Schedulable=False/Cordoned",
            ),
            (
                json!({ "paused": true }),
                beat(lately),
                "Ready=True/Synced Reachable=True/Answers Schedulable=False/Paused",
            ),
            (json!({}), paused, "Ready=True/Synced Reachable=True/Answers Schedulable=False/Paused"),
            (
                json!({ "access": "observe" }),
                beat(lately),
                "Ready=True/Synced Reachable=True/Answers Schedulable=False/Observed",
            ),
        ] {
            let cluster = json!({ "spec": spec, "status": status });
            let heard = heard(&cluster, now, patience);
            let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_string();
            let said: Vec<String> = found(&cluster, &heard, patience)
                .iter()
                .map(|one| format!("{}={}/{}", text(one, "type"), text(one, "status"), text(one, "reason")))
                .collect();
            assert_eq!(said.join(" "), expected);
        }
        let cluster = json!({ "status": beat(lately) });
        assert_eq!(heard(&cluster, now, patience), Heard::Lately { left: Duration::from_secs(30) });
        // A clock that went back does not make it silent.
        let early = time::parse("2026-11-15T07:00:00Z").unwrap();
        assert_eq!(heard(&cluster, early, patience), Heard::Lately { left: patience });
    }
}
