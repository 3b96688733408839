//! Limits how fast and how far the number of pods may change.

// upstream: pkg/controller/podautoscaler/horizontal.go
// upstream: pkg/apis/autoscaling/v2/defaults.go

use std::time::Duration;

use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

use super::usage::{float, truncate};

/// Recent recommendations and scale events of one autoscaler.
#[derive(Clone, Debug, Default)]
pub struct History {
    recommendations: Vec<(i64, Timestamp)>,
    ups: Vec<(i64, Timestamp)>,
    downs: Vec<(i64, Timestamp)>,
}

/// A replica count with the conditions that explain it: `AbleToScale` and `ScalingLimited`.
#[derive(Debug, PartialEq, Eq)]
pub struct ScaleDecision {
    pub replicas: i64,
    pub able: (&'static str, &'static str),
    pub limited: (bool, &'static str, &'static str),
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const TOO_FAST_UP: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");

/// The current and desired replica counts, and the bounds of the autoscaler.
#[derive(Clone, Copy, Debug)]
pub struct ScaleRequest {
    pub current: i64,
    pub desired: i64,
    pub least: i64,
    pub most: i64,
}

fn age(now: Timestamp, then: Timestamp) -> i128 {
    let nanos = |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    nanos(now) - nanos(then)
}

fn nanos(seconds: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000
}

impl History {
    /// Records the current count as the first recommendation.
    pub fn record_initial_recommendation(&mut self, current: i64, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((current, now));
        }
    }

    /// Records a scale event.
    pub fn store_scale_event(&mut self, behaviour: &Value, from: i64, to: i64, now: Timestamp) {
        if !behaviour.is_object() {
            return;
        }
        let (events, rules) = match to > from {
            true => (&mut self.ups, up_rules(behaviour)),
            false => (&mut self.downs, down_rules(behaviour)),
        };
        let longest = policies(&rules).iter().filter_map(|policy| policy["periodSeconds"].as_i64()).max();
        events.retain(|(_, then)| age(now, *then) <= nanos(longest.unwrap_or(0)));
        events.push(((to - from).abs(), now));
    }

    /// Applies stabilization and the scaling rules or default limits to a desired count.
    pub fn normalize(
        &mut self,
        request: ScaleRequest,
        behaviour: &Value,
        window: Duration,
        now: Timestamp,
    ) -> ScaleDecision {
        let (stabilized, why, (replicas, limit)) = match behaviour.is_object() {
            false => {
                let stabilized = self.stabilize(request.desired, window, now);
                (stabilized, DOWN_STABILIZED, default_limit(ScaleRequest { desired: stabilized, ..request }))
            }
            true => {
                let (stabilized, why) = self.stabilize_by_rules(request, behaviour, window, now);
                let request = ScaleRequest { desired: stabilized, ..request };
                (stabilized, why, self.limit_by_rules(request, behaviour, now))
            }
        };
        let able = if stabilized == request.desired { READY } else { why };
        ScaleDecision { replicas, able, limited: (replicas != stabilized, limit.0, limit.1) }
    }

    /// Returns the highest of the recent recommendations.
    fn stabilize(&mut self, desired: i64, window: Duration, now: Timestamp) -> i64 {
        let window = i128::try_from(window.as_nanos()).unwrap_or(i128::MAX);
        self.recommendations.retain(|(_, then)| age(now, *then) <= window);
        let highest = self.recommendations.iter().map(|(count, _)| *count).fold(desired, i64::max);
        self.recommendations.push((desired, now));
        highest
    }

    /// Keeps the current count between the lowest recent recommendation when scaling up and the highest when
    /// scaling down.
    fn stabilize_by_rules(
        &mut self,
        request: ScaleRequest,
        behaviour: &Value,
        window: Duration,
        now: Timestamp,
    ) -> (i64, (&'static str, &'static str)) {
        let seconds = |rules: &Value| rules["stabilizationWindowSeconds"].as_i64();
        let up = nanos(seconds(&up_rules(behaviour)).unwrap_or(0));
        let default = i64::try_from(window.as_secs()).unwrap_or(i64::MAX);
        let down = nanos(seconds(&down_rules(behaviour)).unwrap_or(default));
        let recent = |window: i128| {
            self.recommendations
                .iter()
                .filter(move |(_, then)| age(now, *then) < window)
                .map(|(count, _)| *count)
        };
        let lowest = recent(up).fold(request.desired, i64::min);
        let highest = recent(down).fold(request.desired, i64::max);
        let stabilized = request.current.max(lowest).min(highest);
        self.recommendations.retain(|(_, then)| age(now, *then) <= up.max(down));
        self.recommendations.push((request.desired, now));
        (stabilized, if request.desired >= request.current { UP_STABILIZED } else { DOWN_STABILIZED })
    }

    fn limit_by_rules(
        &self,
        request: ScaleRequest,
        behaviour: &Value,
        now: Timestamp,
    ) -> (i64, (&'static str, &'static str)) {
        let ScaleRequest { current, desired, least, most } = request;
        if desired > current {
            let limit = self.scale_limit(current, &up_rules(behaviour), true, now).max(current);
            let (bound, why) = if most > limit { (limit, TOO_FAST_UP) } else { (most, TOO_MANY) };
            if desired > bound {
                return (bound, why);
            }
        } else if desired < current {
            let limit = self.scale_limit(current, &down_rules(behaviour), false, now).min(current);
            let (bound, why) = if least < limit { (limit, TOO_FAST_DOWN) } else { (least, TOO_FEW) };
            if desired < bound {
                return (bound, why);
            }
        }
        (desired, WITHIN)
    }

    /// Returns the farthest count that the scaling rules allow.
    fn scale_limit(&self, current: i64, rules: &Value, up: bool, now: Timestamp) -> i64 {
        let select = rules["selectPolicy"].as_str().unwrap_or("Max");
        if select == "Disabled" {
            return current;
        }
        let limits = policies(rules).iter().map(|policy| {
            let period = nanos(policy["periodSeconds"].as_i64().unwrap_or(0));
            let change = |events: &[(i64, Timestamp)]| -> i64 {
                events.iter().filter(|(_, then)| age(now, *then) < period).map(|(change, _)| change).sum()
            };
            let start = current - change(&self.ups) + change(&self.downs);
            let value = policy["value"].as_i64().unwrap_or(0);
            match (policy["type"] == "Percent", up) {
                (false, true) => start + value,
                (false, false) => start - value,
                (true, true) => truncate((float(start) * (1.0 + float(value) / 100.0)).ceil()),
                // Truncated towards zero, as upstream does.
                (true, false) => truncate(float(start) * (1.0 - float(value) / 100.0)),
            }
        });
        // The farthest value, unless `selectPolicy` is `Min`.
        let limit = if (select == "Min") == up { limits.min() } else { limits.max() };
        limit.unwrap_or(current)
    }
}

/// Without scaling rules, a count at most doubles, or grows to four.
fn default_limit(request: ScaleRequest) -> (i64, (&'static str, &'static str)) {
    let ScaleRequest { current, desired, least, most } = request;
    let limit = (2 * current).max(4);
    let (bound, why) = if most > limit { (limit, TOO_FAST_UP) } else { (most, TOO_MANY) };
    match () {
        () if desired < least => (least, TOO_FEW),
        () if desired > bound => (bound, why),
        () => (desired, WITHIN),
    }
}

fn policies(rules: &Value) -> &[Value] {
    rules["policies"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the `scaleUp` rules with upstream's defaults.
fn up_rules(behaviour: &Value) -> Value {
    let double = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let four = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    with_policies(&behaviour["scaleUp"], json!([four, double]))
}

fn down_rules(behaviour: &Value) -> Value {
    let all = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    with_policies(&behaviour["scaleDown"], json!([all]))
}

fn with_policies(rules: &Value, default: Value) -> Value {
    let mut rules = if rules.is_object() { rules.clone() } else { json!({}) };
    if !rules["policies"].is_array() {
        rules["policies"] = default;
    }
    rules
}

#[cfg(test)]
mod tests;
