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

/// Delay before a paused placement is tried again, because there is no event when the pause ends.
const PAUSED_DELAY: Duration = Duration::from_secs(2);
/// Delay before a refused placement is tried again: the server may know what the caches do not contain yet.
const REFUSED_DELAY: Duration = Duration::from_secs(5);
const PLACEMENT: &str = "placement";
/// Reasons of events.
const PLACED: &str = "Placed";
const REFUSED: &str = "PlacementRefused";

/// An object to place.
pub struct PlacementTarget {
    pub resource: &'static Resource,
    pub at: Key,
    pub object: Arc<Value>,
}

/// A placement to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub shares: Vec<Share>,
    pub by: String,
    pub duplicate: bool,
}

/// The outcome of writing a placement.
pub enum Written {
    /// Written at this revision.
    At(u64),
    /// The object was changed or deleted: its next change is on the way.
    Stale,
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
        let patch = json!({
            "metadata": { "uid": uid, "resourceVersion": revision },
            "spec": {
                "clusters": wanted.shares,
                "by": wanted.by,
                "duplicate": wanted.duplicate.then_some(true),
                "decisions": decisions::recorded(&Placement::of(&target.object), wanted, self.clock.now().to_time()),
            },
        });
        match self.api.patch(target.resource, &target.at, PLACEMENT, &patch).await {
            Ok(placement) => {
                if !wanted.shares.is_empty() {
                    let message = format!("placed on {} by {}", names_of(&wanted.shares), wanted.by);
                    self.recorder.normal(target.resource, &target.object, PLACED, message);
                }
                Ok(Written::At(object::resource_version(&placement).parse().unwrap_or(0)))
            }
            Err(status) if matches!(status.code(), 404 | 409) => Ok(Written::Stale),
            Err(status) if status.has_cause(CAUSE) => Ok(Written::Refused {
                message: status.message().to_string(),
                next: Next::After(PAUSED_DELAY),
            }),
            Err(status) if matches!(status.code(), 403 | 422) => {
                let message = status.message().to_string();
                self.recorder.warning(target.resource, &target.object, REFUSED, message.clone());
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
            match self.api.patch_status_strategic(target.resource, &target.at, &patch).await {
                Err(status) if matches!(status.code(), 404 | 409) => return Ok(()),
                written => drop(written?),
            }
        }
        if is_news && !is_known {
            let message = verdict.message.clone();
            self.recorder.warning(target.resource, &target.object, verdict.reason, message);
        }
        Ok(())
    }
}
