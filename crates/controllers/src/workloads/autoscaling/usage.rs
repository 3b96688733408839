//! Computes the number of pods that the measured usage needs.

// upstream: pkg/controller/podautoscaler/replica_calculator.go
// upstream: pkg/controller/podautoscaler/metrics/utilization.go

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::object;
use atoll_meta::quantity::Quantity;
use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::PodView;
use atoll_quota::Amounts;
use serde_json::Value;

use crate::shared::pods;

/// A measurement of a pod, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub value: i64,
    pub at: Timestamp,
    pub window: Duration,
}

/// Samples by pod name.
pub type Samples = BTreeMap<String, Sample>;

/// Deviations of the usage ratio from 1 that do not cause scaling.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub down: f64,
    pub up: f64,
}

impl Tolerance {
    pub fn covers(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// Times during which the CPU usage of a starting pod is not reliable.
#[derive(Clone, Copy, Debug)]
pub struct StartupDelays {
    pub initialization: Duration,
    pub readiness_delay: Duration,
}

pub struct ReplicaCalculator<'a> {
    /// The pods that the scale's selector matches.
    pub pods: &'a [Arc<Value>],
    pub current: i64,
    pub tolerance: Tolerance,
    pub start: StartupDelays,
    pub now: Timestamp,
}

#[derive(Debug, Default)]
struct PodGroups {
    ready: usize,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";
const NO_SAMPLES: &str = "did not receive metrics for targeted pods (pods might be unready)";

fn later(time: Timestamp, by: Duration) -> i128 {
    nanos(time) + i128::try_from(by.as_nanos()).unwrap_or(i128::MAX / 2)
}

fn nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

fn parsed(time: Option<&str>) -> Option<Timestamp> {
    time::parse(time?).ok()
}

impl ReplicaCalculator<'_> {
    fn groups(&self, samples: &Samples, resource: &str) -> PodGroups {
        let mut groups = PodGroups::default();
        for pod in self.pods {
            let name = object::name(pod).to_string();
            let phase = pods::phase(pod);
            if object::is_being_deleted(pod) || phase == "Failed" {
                groups.ignored.insert(name);
            } else if phase == "Pending" {
                groups.unready.insert(name);
            } else if let Some(sample) = samples.get(&name) {
                if resource == "cpu" && self.is_starting(pod, sample) {
                    groups.unready.insert(name);
                } else {
                    groups.ready += 1;
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }

    /// Whether the CPU usage of a pod is not reliable yet.
    fn is_starting(&self, pod: &Value, sample: &Sample) -> bool {
        let pod = PodView::of(pod);
        let (Some(condition), Some(started)) = (pod.condition("Ready"), parsed(pod.start_time())) else {
            return true;
        };
        let is_unready = condition.is_false();
        let changed = parsed(condition.last_transition_time()).unwrap_or(Timestamp::new(0, 0));
        match later(started, self.start.initialization) > nanos(self.now) {
            true => is_unready || nanos(sample.at) < later(changed, sample.window),
            false => is_unready && later(started, self.start.readiness_delay) > nanos(changed),
        }
    }

    /// Computes replicas from a percentage of the pods' requests. Returns the replicas needed, the
    /// utilization and the average usage.
    pub fn by_utilization(
        &self,
        mut samples: Samples,
        target: i64,
        resource: &str,
        container: &str,
    ) -> Result<(i64, i64, i64), String> {
        let groups = self.relevant(&mut samples, resource)?;
        let requests = requests(self.pods, container, resource)?;
        let (ratio, part, raw) = utilization(&samples, &requests, target)?;
        let of_missing = |name: &String| requests.get(name).copied().unwrap_or(0) * target.max(100) / 100;
        let again = |samples: &Samples| utilization(samples, &requests, target).map(|(ratio, _, _)| ratio);
        Ok((self.needed(samples, &groups, ratio, of_missing, again)?, part, raw))
    }

    /// Computes replicas from an average value per pod. Returns the replicas needed and the average usage.
    pub fn by_average(
        &self,
        mut samples: Samples,
        target: i64,
        resource: &str,
    ) -> Result<(i64, i64), String> {
        let groups = self.relevant(&mut samples, resource)?;
        let (ratio, usage) = average(&samples, target);
        let again = |samples: &Samples| Ok(average(samples, target).0);
        Ok((self.needed(samples, &groups, ratio, |_| target, again)?, usage))
    }

    fn relevant(&self, samples: &mut Samples, resource: &str) -> Result<PodGroups, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.into());
        }
        let groups = self.groups(samples, resource);
        samples.retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
        if samples.is_empty() { Err(NO_SAMPLES.into()) } else { Ok(groups) }
    }

    /// Assumes for pods without samples the usage that changes the count least.
    fn needed(
        &self,
        mut samples: Samples,
        groups: &PodGroups,
        ratio: f64,
        of_missing: impl Fn(&String) -> i64,
        again: impl Fn(&Samples) -> Result<f64, String>,
    ) -> Result<i64, String> {
        let grows_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !grows_with_unready && groups.missing.is_empty() {
            return Ok(match self.tolerance.covers(ratio) {
                true => self.current,
                false => ceiling(ratio * count(groups.ready)),
            });
        }
        let assumed = |value: i64| Sample { value, at: self.now, window: Duration::ZERO };
        for name in &groups.missing {
            if ratio < 1.0 {
                samples.insert(name.clone(), assumed(of_missing(name)));
            } else if ratio > 1.0 {
                samples.insert(name.clone(), assumed(0));
            }
        }
        if grows_with_unready {
            samples.extend(groups.unready.iter().map(|name| (name.clone(), assumed(0))));
        }
        let new_ratio = again(&samples)?;
        let changes_direction = (ratio < 1.0 && new_ratio > 1.0) || (ratio > 1.0 && new_ratio < 1.0);
        if self.tolerance.covers(new_ratio) || changes_direction {
            return Ok(self.current);
        }
        let needed = ceiling(new_ratio * count(samples.len()));
        let changes_direction =
            (new_ratio < 1.0 && needed > self.current) || (new_ratio > 1.0 && needed < self.current);
        Ok(if changes_direction { self.current } else { needed })
    }

    /// Computes replicas from an object or external metric with one target value for all pods.
    pub fn by_value(&self, usage: i64, target: i64) -> Result<i64, String> {
        let ratio = float(usage) / float(target);
        if self.current == 0 {
            return Ok(ceiling(ratio));
        }
        if self.tolerance.covers(ratio) {
            return Ok(self.current);
        }
        if self.pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        let ready = self.pods.iter().filter(|pod| pods::phase(pod) == "Running" && pods::is_ready(pod));
        Ok(ceiling(ratio * count(ready.count())))
    }

    /// Computes replicas from an object or external metric with a target value per pod. Returns the replicas
    /// needed and the value per replica.
    pub fn by_average_of_total(&self, usage: i64, target: i64, replicas: i64) -> (i64, i64) {
        let ratio = float(usage) / (float(target) * float(replicas));
        let needed =
            if self.tolerance.covers(ratio) { replicas } else { ceiling(float(usage) / float(target)) };
        let share = if usage == i64::MAX { usage } else { truncate((float(usage) / float(replicas)).ceil()) };
        (needed, share)
    }
}

#[allow(clippy::cast_precision_loss)]
pub fn float(number: i64) -> f64 {
    number as f64
}

fn count(number: usize) -> f64 {
    float(i64::try_from(number).unwrap_or(i64::MAX))
}

#[allow(clippy::cast_possible_truncation)]
pub fn truncate(number: f64) -> i64 {
    number as i64
}

/// Rounds a pod count up, limited to `i32::MAX`.
pub fn ceiling(number: f64) -> i64 {
    truncate(number.ceil()).min(i64::from(i32::MAX))
}

fn utilization(
    samples: &Samples,
    requests: &BTreeMap<String, i64>,
    target: i64,
) -> Result<(f64, i64, i64), String> {
    let known = || samples.iter().filter_map(|(name, sample)| Some((sample.value, *requests.get(name)?)));
    let (used, requested) = known()
        .fold((0_i64, 0_i64), |(used, all), (value, request)| (used.saturating_add(value), all + request));
    if requested == 0 {
        return Err("no metrics returned matched known pods".into());
    }
    let part = used.saturating_mul(100) / requested;
    let entries = i64::try_from(known().count()).unwrap_or(1).max(1);
    Ok((float(part) / float(target), part, used / entries))
}

fn average(samples: &Samples, target: i64) -> (f64, i64) {
    let sum = samples.values().fold(0_i64, |sum, sample| sum.saturating_add(sample.value));
    let usage = sum / i64::try_from(samples.len()).unwrap_or(1).max(1);
    (float(usage) / float(target), usage)
}

/// Returns the request of each pod in thousandths: of the pod itself, of one container, or of all containers.
fn requests(pods: &[Arc<Value>], container: &str, resource: &str) -> Result<BTreeMap<String, i64>, String> {
    let of_pod = |pod: &Arc<Value>| {
        let name = object::name(pod);
        let pod_level = PodView::of(pod).spec().requests();
        let is_pod_level = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        let has_pod_level =
            pod_level.is_some_and(|pod_level| pod_level.keys().any(|name| is_pod_level(name)));
        let request = match has_pod_level && container.is_empty() {
            true => atoll_quota::requests(pod, &Amounts::default())
                .get(resource)
                .map(Quantity::millis)
                .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"))?,
            false => container_requests(pod, container, resource)?,
        };
        Ok((name.to_string(), request))
    };
    pods.iter().map(of_pod).collect()
}

fn container_requests(pod: &Value, wanted: &str, resource: &str) -> Result<i64, String> {
    let spec = PodView::of(pod).spec();
    let mut sum = 0;
    for container in spec.containers().chain(spec.sidecars()) {
        let name = container.name();
        if wanted.is_empty() || wanted == name {
            sum += amount(&container.requests()[resource]).ok_or_else(|| {
                format!("missing request for {resource} in container {name} of Pod {}", object::name(pod))
            })?;
        }
        if wanted == name {
            return Ok(sum);
        }
    }
    match wanted.is_empty() {
        true => Ok(sum),
        false => Err(format!("container {wanted} not found in Pod {}", object::name(pod))),
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    let text =
        value.as_str().map(String::from).or_else(|| value.as_i64().map(|number| number.to_string()))?;
    Quantity::parse(&text).ok()
}

/// Returns a quantity in thousandths.
pub fn amount(value: &Value) -> Option<i64> {
    quantity(value).map(|quantity| quantity.millis())
}

/// Returns a quantity as a float, computed as upstream does so that comparisons at a bound agree.
pub fn fraction(value: &Value) -> Option<f64> {
    let text = quantity(value)?.canonical();
    let unit = match text.as_bytes().last()? {
        b'n' => 1e-9,
        b'u' => 1e-6,
        b'm' => 1e-3,
        _ => 1.0,
    };
    let digits = text.trim_end_matches(['n', 'u', 'm']);
    digits.parse::<f64>().ok().map(|number| number * unit)
}

#[cfg(test)]
mod tests;
