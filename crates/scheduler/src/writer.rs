//! Writes decisions: placements, and the condition and events of objects that are not placed.

use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::pause::CAUSE;
use atoll_fleet::placed_condition::{self, ConditionValue};
use atoll_fleet::placement::{Share, names_of};
use atoll_informer::{ApiScope, Clock, Key, Next, Recorder, Resource};
use atoll_meta::views::condition;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::decisions;
use crate::moving::{AWAY, have_same_amounts, have_same_turns};

/// Delay before a paused placement is tried again, because there is no event when the pause ends.
pub const PAUSED_DELAY: Duration = Duration::from_secs(2);
/// Delay before a refused placement is tried again: the server may know what the caches do not contain yet.
const REFUSED_DELAY: Duration = Duration::from_secs(5);
const PLACEMENT: &str = "placement";
/// Reasons of events.
const PLACED: &str = "Placed";
const MOVING: &str = "Moving";
const ROLLING_OUT: &str = "RollingOut";
const FAILED_OVER: &str = "FailedOver";
const REFUSED: &str = "PlacementRefused";

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
}

impl Wanted {
    /// Whether a placement is already like this. The order of shares does not matter.
    pub fn is_same(&self, placement: &Placement) -> bool {
        placement.by == self.by
            && placement.duplicate == self.duplicate
            && placement.phase == self.phase
            && have_same_amounts(&placement.clusters, &self.shares)
            && have_same_turns(&placement.clusters, &self.shares)
            && have_same_amounts(&placement.target, &self.target)
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
        match (now.is_empty(), held.is_empty()) {
            (true, true) => "all clusters have the new Pod template, or may roll it out".to_string(),
            (true, false) => format!("the new Pod template waits for {held}"),
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
            phase => {
                let to = names_of(&self.target);
                let on = if shares.is_empty() { "no cluster" } else { &shares };
                (MOVING, format!("{phase}: on {on}, moving to {to} by {by}"))
            }
        }
    }
}

/// The outcome of writing a placement.
pub enum Written {
    /// Written at this revision.
    At(u64),
    /// The object was changed or deleted: its next change is on the way.
    Stale,
    /// Not while a pause applies.
    Paused { message: String },
    /// Not now; the reason, and when to try again.
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
        let is_rollout = wanted.is_rollout_of(&before);
        let decisions = match is_rollout {
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
                "decisions": decisions,
            },
        });
        match self.api.patch(&target.resource, &target.at, PLACEMENT, &patch).await {
            Ok(placement) => {
                if is_rollout {
                    let message = wanted.rollout_event();
                    self.recorder.normal(&target.resource, &target.object, ROLLING_OUT, message);
                } else if !wanted.shares.is_empty() || !wanted.phase.is_empty() {
                    let (reason, message) = wanted.event();
                    self.recorder.normal(&target.resource, &target.object, reason, message);
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

    /// Tells why an object is not placed. An event is written if `is_news`.
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
