//! Writes decisions: placements, and the condition and events of objects that are not placed.

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::autoscaling::{ABOVE, BELOW, PINNED, SIDES, STOPPING};
use atoll_fleet::pause::CAUSE;
use atoll_fleet::placed_condition::{self, ConditionValue};
use atoll_fleet::placement::{LeftOut, Share, have_same_clusters, names_of};
use atoll_informer::{ApiScope, Clock, Key, Next, Recorder, Resource};
use atoll_meta::views::condition;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::decisions;
use crate::moving::{AWAY, have_same_amounts, have_same_turns};

/// Delay before a paused placement is tried again, because there is no event when the pause ends.
pub const PAUSED_DELAY: Duration = Duration::from_secs(2);
/// Delay before a refused placement is retried: the server may have newer objects than the caches.
const REFUSED_DELAY: Duration = Duration::from_secs(5);
const PLACEMENT: &str = "placement";
/// Reasons of events.
const PLACED: &str = "Placed";
const MOVING: &str = "Moving";
const ROLLING_OUT: &str = "RollingOut";
const FAILED_OVER: &str = "FailedOver";
const REFUSED: &str = "PlacementRefused";
const AUTOSCALING: &str = "Autoscaling";

/// An object to place.
pub struct PlacementTarget {
    pub resource: Resource,
    pub at: Key,
    pub object: Arc<Value>,
}

/// A placement to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub shares: Vec<Share>,
    pub by: String,
    pub duplicate: bool,
    /// The step of a move; empty if the shares are to stay.
    pub phase: String,
    /// The shares that the move leads to.
    pub target: Vec<Share>,
    /// Number of replicas that no cluster has room for.
    pub missing: i64,
    /// The reason why replicas stay on a cluster that they are to leave.
    pub blocked: String,
    /// Clusters that the intent names and that take nothing.
    pub left_out: Vec<LeftOut>,
    /// The side of its autoscaler, if it has one.
    pub autoscaler: &'static str,
}

impl Wanted {
    /// A placement as it is now.
    pub fn present(placement: &Placement) -> Wanted {
        let side = SIDES.into_iter().find(|side| placement.autoscaler == *side);
        Wanted {
            shares: placement.clusters.clone(),
            by: placement.by.clone(),
            duplicate: placement.duplicate,
            phase: placement.phase.clone(),
            target: placement.target.clone(),
            missing: placement.missing,
            blocked: placement.blocked.clone(),
            left_out: placement.left_out.clone(),
            autoscaler: side.unwrap_or_default(),
        }
    }

    /// Whether a placement is already like this. The order of shares does not matter.
    pub fn is_same(&self, placement: &Placement) -> bool {
        placement.by == self.by
            && placement.duplicate == self.duplicate
            && placement.phase == self.phase
            && placement.missing == self.missing
            && placement.blocked == self.blocked
            && placement.left_out == self.left_out
            && placement.autoscaler == self.autoscaler
            && have_same_amounts(&placement.clusters, &self.shares)
            && have_same_turns(&placement.clusters, &self.shares)
            && have_same_amounts(&placement.target, &self.target)
    }

    /// Whether only what is told changes: how many replicas are missing, why some stay, and what is left out.
    pub fn is_count_of(&self, placement: &Placement) -> bool {
        let (missing, blocked) = (placement.missing, placement.blocked.clone());
        let left_out = placement.left_out.clone();
        let counted = Wanted { missing, blocked, left_out, ..self.clone() };
        !self.is_same(placement) && counted.is_same(placement)
    }

    /// Whether the placement only follows an autoscaler, or lets it change sides.
    fn is_autoscaling_of(&self, placement: &Placement) -> bool {
        let is_followed = [BELOW, STOPPING].contains(&self.autoscaler) && self.shares.len() == 1;
        placement.by == self.by
            && placement.phase == self.phase
            && (placement.autoscaler != self.autoscaler || is_followed)
            && self.shares.len() == placement.clusters.len()
            && self.shares.iter().all(|share| match placement.share_of(&share.name, &share.uid) {
                Some(before) => is_followed || before.numbers() == share.numbers(),
                None => false,
            })
    }

    /// The message of the event about an autoscaler that changes sides.
    fn autoscaler_event(&self) -> Option<String> {
        let on = names_only(&self.shares);
        match self.autoscaler {
            BELOW => Some(format!("its HorizontalPodAutoscaler acts in cluster {on}")),
            STOPPING => Some(format!("its HorizontalPodAutoscaler leaves cluster {on}")),
            ABOVE => Some(
                "its HorizontalPodAutoscaler acts in the control plane, by the usage in all clusters".into(),
            ),
            PINNED => Some(format!(
                "its HorizontalPodAutoscaler does nothing, because the replicas are pinned: {}",
                names_of(&self.shares)
            )),
            _ => None,
        }
    }

    /// Whether only the turns of a rollout change.
    fn is_rollout_of(&self, placement: &Placement) -> bool {
        placement.by == self.by
            && placement.phase == self.phase
            && have_same_amounts(&placement.clusters, &self.shares)
            && !have_same_turns(&placement.clusters, &self.shares)
    }

    /// The message of the event about a step of a rollout.
    fn rollout_event(&self) -> String {
        let names = |is: fn(&Share) -> bool| {
            let names: Vec<&str> =
                self.shares.iter().filter(|share| is(share)).map(|share| share.name.as_str()).collect();
            names.join(", ")
        };
        let (now, held) = (names(|share| !share.held && share.is_rolling_out()), names(|share| share.held));
        let free = names(|share| !share.held);
        // Without a budget, clusters that roll out cannot be distinguished from those that have finished.
        let now = if now.is_empty() { free } else { now };
        match (now.is_empty(), held.is_empty()) {
            (true, _) => format!("the new Pod template waits on {held}"),
            (false, true) if !self.shares.iter().any(Share::is_rolling_out) => {
                "all clusters have the new Pod template, or may roll it out".to_string()
            }
            (false, true) => format!("rolling out the new Pod template on {now}"),
            (false, false) => format!("rolling out the new Pod template on {now}; {held} follows"),
        }
    }

    /// The reason and the message of the event about the placement.
    fn event(&self) -> (&'static str, String) {
        let (shares, by) = (names_of(&self.shares), &self.by);
        match self.phase.as_str() {
            "" => (PLACED, format!("placed on {shares} by {by}")),
            AWAY => {
                let home = names_of(&self.target);
                (FAILED_OVER, format!("placed on {shares}, because its cluster is lost; returns to {home}"))
            }
            phase if have_same_clusters(&self.shares, &self.target) => {
                (PLACED, format!("{phase}: on {shares} by {by}, on the way to {}", names_of(&self.target)))
            }
            phase => {
                let to = names_of(&self.target);
                let on = if shares.is_empty() { "no cluster" } else { &shares };
                (MOVING, format!("{phase}: on {on}, moving to {to} by {by}"))
            }
        }
    }
}

fn names_only(shares: &[Share]) -> String {
    shares.iter().map(|share| share.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The outcome of writing a placement.
pub enum Written {
    /// Written at this revision.
    At(u64),
    /// The object was changed or deleted: its next change is on the way.
    Stale,
    /// Refused because of a pause.
    Paused { message: String },
    /// Not written; the reason, and when to retry.
    Refused { message: String, next: Next },
}

pub struct Writer {
    pub api: ApiScope,
    pub clock: Arc<dyn Clock>,
    pub recorder: Recorder,
}

impl Writer {
    pub async fn place(&self, target: &PlacementTarget, wanted: &Wanted) -> Result<Written, Status> {
        let (uid, revision) = (object::uid(&target.object), object::resource_version(&target.object));
        let before = Placement::of(&target.object);
        let (is_rollout, is_count) = (wanted.is_rollout_of(&before), wanted.is_count_of(&before));
        let is_autoscaling = wanted.is_autoscaling_of(&before);
        let changes_sides = wanted.autoscaler != before.autoscaler;
        let decisions = match is_rollout || is_count || is_autoscaling {
            true => before.decisions,
            false => decisions::recorded(&before, wanted, self.clock.now().to_time()),
        };
        let patch = json!({
            "metadata": { "uid": uid, "resourceVersion": revision },
            "spec": {
                "clusters": wanted.shares,
                "by": wanted.by,
                "duplicate": wanted.duplicate.then_some(true),
                "phase": (!wanted.phase.is_empty()).then_some(&wanted.phase),
                "target": (!wanted.target.is_empty()).then_some(&wanted.target),
                "missing": (wanted.missing > 0).then_some(wanted.missing),
                "blocked": (!wanted.blocked.is_empty()).then_some(&wanted.blocked),
                "leftOut": (!wanted.left_out.is_empty()).then_some(&wanted.left_out),
                "autoscaler": (!wanted.autoscaler.is_empty()).then_some(wanted.autoscaler),
                "decisions": decisions,
            },
        });
        match self.api.patch(&target.resource, &target.at, PLACEMENT, &patch).await {
            Ok(placement) => {
                if is_rollout {
                    let message = wanted.rollout_event();
                    self.recorder.normal(&target.resource, &target.object, ROLLING_OUT, message);
                } else if is_autoscaling || is_count {
                    // The autoscaler reports numbers, and another event reports replicas without a cluster.
                } else if !wanted.shares.is_empty() || !wanted.phase.is_empty() {
                    let (reason, message) = wanted.event();
                    self.recorder.normal(&target.resource, &target.object, reason, message);
                }
                if let Some(message) = wanted.autoscaler_event().filter(|_| changes_sides) {
                    self.recorder.normal(&target.resource, &target.object, AUTOSCALING, message);
                }
                Ok(Written::At(object::resource_version(&placement).parse().unwrap_or(0)))
            }
            Err(status) if matches!(status.code(), 404 | 409) => Ok(Written::Stale),
            Err(status) if status.has_cause(CAUSE) => {
                Ok(Written::Paused { message: status.message().to_string() })
            }
            Err(status) if matches!(status.code(), 403 | 422) => {
                let message = status.message().to_string();
                self.recorder.warning(&target.resource, &target.object, REFUSED, message.clone());
                Ok(Written::Refused { message, next: Next::After(REFUSED_DELAY) })
            }
            Err(status) => Err(status),
        }
    }

    /// Sets `spec.replicas` of an object that has not changed since. Returns whether it was set.
    pub async fn scale(&self, target: &PlacementTarget, replicas: i64) -> Result<bool, Status> {
        let patch = json!({
            "metadata": { "resourceVersion": object::resource_version(&target.object) },
            "spec": { "replicas": replicas },
        });
        match self.api.patch(&target.resource, &target.at, "scale", &patch).await {
            Err(status) if matches!(status.code(), 404 | 409) => Ok(false),
            written => written.map(|_| true),
        }
    }

    /// Reports why an object is not placed. An event is written if `is_news`.
    pub async fn report(
        &self,
        target: &PlacementTarget,
        verdict: &ConditionValue,
        is_news: bool,
    ) -> Result<(), Status> {
        let kind = (&*target.resource.group, &*target.resource.plural);
        let known = condition(&target.object, placed_condition::CONDITION);
        let is_known = known.is_some_and(|known| {
            (known.status(), known.reason(), known.message())
                == (verdict.status, verdict.reason, verdict.message.as_str())
        });
        if placed_condition::has_condition(kind) && !is_known {
            let now = self.clock.now().to_time();
            let since = known.filter(|known| known.status() == verdict.status);
            let since = since.and_then(|known| known.last_transition_time()).unwrap_or(&now);
            let condition = json!({
                "type": placed_condition::CONDITION, "status": verdict.status, "reason": verdict.reason,
                "message": verdict.message, "lastTransitionTime": since,
            });
            let patch = json!({
                "metadata": { "uid": object::uid(&target.object) }, "status": { "conditions": [condition] },
            });
            match self.api.patch_status_strategic(&target.resource, &target.at, &patch).await {
                Err(status) if matches!(status.code(), 404 | 409) => return Ok(()),
                written => drop(written?),
            }
        }
        if is_news && !is_known {
            let message = verdict.message.clone();
            self.recorder.warning(&target.resource, &target.object, verdict.reason, message);
        }
        Ok(())
    }
}
