//! Deletion order of pods.

// upstream: pkg/controller/controller_utils.go
// upstream: pkg/apis/core/helper/helpers.go

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::{ContainerStatusView, PodView};
use serde_json::Value;

use super::availability::{is_active, is_ready, phase, ready_since};

/// Annotation with the deletion cost.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Number of active related pods by node.
pub struct RelatedPods(HashMap<String, usize>);

impl RelatedPods {
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a Arc<Value>>) -> RelatedPods {
        let mut found: HashMap<String, usize> = HashMap::new();
        for pod in pods.into_iter().filter(|pod| is_active(pod)) {
            *found.entry(node(pod).into()).or_default() += 1;
        }
        RelatedPods(found)
    }

    fn on_node_of(&self, pod: &Value) -> usize {
        self.0.get(node(pod)).copied().unwrap_or(0)
    }
}

/// Sorts pods by deletion order: without a node, not running, not ready, low cost, many related pods on the
/// node, ready for a short time, restarted often, young. Ages compare by their order of magnitude, so that it
/// is not always the same pods that are deleted.
pub fn sort_for_deletion(pods: &mut Vec<Arc<Value>>, related: &RelatedPods, now: Timestamp) {
    let mut ranked: Vec<(Rank, Arc<Value>)> =
        pods.drain(..).map(|pod| (Rank::of(&pod, related, now), pod)).collect();
    ranked.sort_by(|(one, left), (other, right)| {
        one.cmp(other).then_with(|| object::uid(left).cmp(object::uid(right)))
    });
    pods.extend(ranked.into_iter().map(|(_, pod)| pod));
}

/// Compared field by field; the smallest is deleted first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    assigned: bool,
    phase: u8,
    is_ready: bool,
    cost: i32,
    related: Reverse<usize>,
    ready_age: Age,
    restarts: Reverse<(i64, i64)>,
    age: Age,
}

/// Binary logarithm of an age; `None` if the time is unknown, which is less than any.
type Age = Option<i64>;

impl Rank {
    fn of(pod: &Value, related: &RelatedPods, now: Timestamp) -> Rank {
        let created = object::creation_timestamp(pod).and_then(|text| time::parse(text).ok());
        Rank {
            assigned: !node(pod).is_empty(),
            phase: match phase(pod) {
                "Unknown" => 1,
                "Running" => 2,
                _ => 0,
            },
            is_ready: is_ready(pod),
            cost: cost(pod),
            related: Reverse(related.on_node_of(pod)),
            ready_age: ready_since(pod).map(|since| magnitude(since, now)),
            restarts: Reverse(restarts(pod)),
            age: created.map(|since| magnitude(since, now)),
        }
    }
}

fn node(pod: &Value) -> &str {
    PodView::of(pod).node_name().unwrap_or_default()
}

fn magnitude(since: Timestamp, now: Timestamp) -> i64 {
    let nanos = |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let age = nanos(now) - nanos(since);
    if age > 0 { i64::from(age.ilog2()) } else { -1 }
}

/// Returns the deletion cost; zero if it is not a plain number.
fn cost(pod: &Value) -> i32 {
    let Some(text) = object::annotation(pod, DELETION_COST) else { return 0 };
    let is_plain = match text.as_bytes() {
        [b'0'] => true,
        [first, ..] => *first == b'-' || (b'1'..=b'9').contains(first),
        [] => false,
    };
    if is_plain { text.parse().unwrap_or(0) } else { 0 }
}

/// Returns the highest restart count of a container, and of a sidecar.
fn restarts(pod: &Value) -> (i64, i64) {
    let pod = PodView::of(pod);
    let regular = pod.container_statuses().map(ContainerStatusView::restart_count).max();
    let sidecars = pod.sidecar_statuses().map(ContainerStatusView::restart_count).max();
    (regular.unwrap_or(0), sidecars.unwrap_or(0))
}

#[cfg(test)]
mod tests;
