//! The usage of a workload's pods in all clusters, from the reports of the clusters. Pure.
//!
//! Clusters report sums over pods, so the calculation is that of [`super::usage`] for pods that are all alike:
//! ready pods without a measurement count as in upstream, and so do all pods of a cluster whose reports are missing
//! or outdated.

// upstream: pkg/controller/podautoscaler/replica_calculator.go

use atoll_fleet::view::PodCounts;
use atoll_meta::quantity::Quantity;

use super::usage::{Tolerance, ceiling, float};

/// The pods of a share.
#[derive(Clone, Debug)]
pub struct SharePods {
    pub cluster: String,
    /// Replicas of the share.
    pub replicas: i64,
    /// The report of the cluster, or why that does not count.
    pub reported: Result<PodCounts, String>,
}

/// Pods of all clusters, with the usage of one resource in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedPods {
    /// Ready pods that were measured.
    pub measured: i64,
    pub used: i64,
    /// Requests of the measured pods; `None` if some of them request nothing.
    pub requested: Option<i64>,
    /// Pods that are not ready.
    pub unready: i64,
    /// Pods without a measurement.
    pub missing: i64,
    /// Why clusters have no measurements.
    reasons: Vec<String>,
}

/// The number of replicas that is to be changed.
#[derive(Clone, Copy, Debug)]
pub struct CurrentReplicas {
    pub replicas: i64,
    /// Number of clusters that each run all replicas; 1 if they are divided.
    pub copies: i64,
    /// Whether the workload moves, so that more replicas run than it asks for.
    pub is_moving: bool,
    pub tolerance: Tolerance,
}

impl MergedPods {
    /// Adds up the pods of all clusters, for `cpu` or `memory`.
    pub fn of(shares: &[SharePods], resource: &str) -> MergedPods {
        let mut merged = MergedPods { requested: Some(0), ..MergedPods::default() };
        for share in shares {
            let cluster = &share.cluster;
            let pods = match &share.reported {
                Ok(pods) => pods,
                Err(reason) => {
                    merged.missing += share.replicas.max(0);
                    merged.reasons.push(format!("{cluster} {reason}"));
                    continue;
                }
            };
            merged.unready += (pods.total - pods.ready).max(0);
            let measured = pods.usage.as_ref().filter(|usage| usage.pods > 0);
            let Some(usage) = measured else {
                merged.missing += pods.ready.max(0);
                let reason = if pods.ready > 0 { "reports no usage of pods" } else { "has no ready pods" };
                merged.reasons.push(format!("{cluster} {reason}"));
                continue;
            };
            let (used, requested) = match resource {
                "cpu" => (Some(&usage.cpu), usage.requests.cpu.as_ref()),
                "memory" => (Some(&usage.memory), usage.requests.memory.as_ref()),
                _ => (None, None),
            };
            let Some(used) = used.and_then(|text| millis(text)) else {
                merged.missing += pods.ready.max(0);
                merged.reasons.push(format!("{cluster} does not report {resource}"));
                continue;
            };
            merged.measured += usage.pods;
            merged.used = merged.used.saturating_add(used.max(0));
            let requested = requested.and_then(|text| millis(text));
            let sum = |all: i64| Some(all.saturating_add(requested?.max(0)));
            merged.requested = merged.requested.and_then(sum);
            merged.missing += (pods.ready - usage.pods).max(0);
        }
        merged
    }

    /// Returns an error if nothing was measured.
    fn check(&self) -> Result<(), String> {
        match (self.measured > 0, self.reasons.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => Err("no cluster reports usage of the target's pods".into()),
            (false, false) => {
                Err(format!("no cluster reports usage of the target's pods: {}", self.reasons.join(", ")))
            }
        }
    }

    /// Computes replicas from a percentage of the pods' requests. Returns the replicas needed, the utilization and
    /// the average usage.
    pub fn by_utilization(
        &self,
        target: i64,
        resource: &str,
        current: CurrentReplicas,
    ) -> Result<(i64, i64, i64), String> {
        self.check()?;
        let missing = || format!("missing request for {resource} in the target's pods");
        let requested = self.requested.filter(|requested| *requested > 0).ok_or_else(missing)?;
        let of_pod = requested / self.measured;
        let part = |used: i64, pods: i64| {
            let all = requested.saturating_add(of_pod.saturating_mul(pods - self.measured));
            used.saturating_mul(100) / all.max(1)
        };
        let ratio = |used: i64, pods: i64| float(part(used, pods)) / float(target);
        let assumed = of_pod.saturating_mul(target.max(100)) / 100;
        let replicas = self.needed(current, assumed, ratio);
        Ok((replicas, part(self.used, self.measured), self.used / self.measured))
    }

    /// Computes replicas from an average value per pod. Returns the replicas needed and the average usage.
    pub fn by_average(&self, target: i64, current: CurrentReplicas) -> Result<(i64, i64), String> {
        self.check()?;
        let ratio = |used: i64, pods: i64| float(used / pods.max(1)) / float(target);
        Ok((self.needed(current, target, ratio), self.used / self.measured))
    }

    /// Assumes for pods without a measurement the usage that changes the count least: `assumed` if fewer pods would
    /// be needed, and none if more would be.
    fn needed(&self, current: CurrentReplicas, assumed: i64, ratio: impl Fn(i64, i64) -> f64) -> i64 {
        let present = current.replicas.saturating_mul(current.copies);
        let of_all = self.needed_pods(present, current, assumed, ratio);
        let replicas = of_all.saturating_add(current.copies - 1) / current.copies.max(1);
        match current.is_moving {
            // The pods that will be taken away share the load.
            true => replicas.max(current.replicas),
            false => replicas,
        }
    }

    fn needed_pods(
        &self,
        present: i64,
        current: CurrentReplicas,
        assumed: i64,
        ratio_of: impl Fn(i64, i64) -> f64,
    ) -> i64 {
        let ratio = ratio_of(self.used, self.measured);
        let counted = |pods: i64| if current.is_moving { pods.min(present) } else { pods };
        let grows_with_unready = self.unready > 0 && ratio > 1.0;
        if !grows_with_unready && self.missing == 0 {
            return match current.tolerance.covers(ratio) {
                true => present,
                false => ceiling(ratio * float(counted(self.measured))),
            };
        }
        let (mut used, mut pods) = (self.used, self.measured);
        if ratio < 1.0 {
            used = used.saturating_add(assumed.saturating_mul(self.missing));
            pods += self.missing;
        } else if ratio > 1.0 {
            pods += self.missing;
        }
        if grows_with_unready {
            pods += self.unready;
        }
        let new_ratio = ratio_of(used, pods);
        let changes_direction = (ratio < 1.0 && new_ratio > 1.0) || (ratio > 1.0 && new_ratio < 1.0);
        if current.tolerance.covers(new_ratio) || changes_direction {
            return present;
        }
        let needed = ceiling(new_ratio * float(counted(pods)));
        let changes_direction =
            (new_ratio < 1.0 && needed > present) || (new_ratio > 1.0 && needed < present);
        if changes_direction { present } else { needed }
    }
}

fn millis(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(|quantity| quantity.millis())
}

#[cfg(test)]
mod tests;
