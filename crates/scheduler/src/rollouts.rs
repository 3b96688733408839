//! Rollouts of a new Pod template: the write of the template holds all shares of a workload, and each is released
//! when its turn comes.
//!
//! ```text
//!   reports ─► RolloutShare ─► turns (pure) ─► held, maxUnavailable and maxSurge of the shares
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::placement::Share;
use atoll_meta::object;
use atoll_placement::budgets::{RolloutBudget, RolloutShare};
use atoll_placement::demand::{Demand, Work};
use atoll_placement::fleet::Fleet;
use atoll_placement::policy::Strategy;
use atoll_placement::rollout::{Turn, turns};
use serde_json::Value;

use crate::reports::ReportedPods;

/// The reason of the event about a rollout that does not continue.
const ROLLOUT_HALTED: &str = "RolloutHalted";
/// Seconds that Pods of a new template may take to become available: the default of `progressDeadlineSeconds` of a
/// Deployment, for kinds that have no such field.
// upstream: pkg/apis/apps/v1/defaults.go
const DEADLINE: i64 = 600;

/// A workload whose Pod template may have changed.
pub struct Rollout<'a> {
    pub object: &'a Value,
    pub demand: &'a Demand,
    pub strategy: Strategy,
    /// Seconds after which a rollout without progress has halted, where the kind has no such time of its own.
    pub deadline: Option<i64>,
    pub fleet: &'a Fleet,
    /// Reports by uid of the cluster.
    pub reports: &'a HashMap<String, ReportedPods>,
}

/// A rollout that does not continue.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Halt {
    /// The reason and the message of the event.
    pub report: Option<(&'static str, String)>,
    /// The time, in seconds, at which another cluster will have made no progress for too long.
    pub due: Option<i64>,
}

/// Whether some share of a placement is held or rolls out.
pub fn is_rolling_out(placement: &Placement) -> bool {
    placement.clusters.iter().any(|share| share.held || share.is_rolling_out())
}

impl Rollout<'_> {
    /// Sets the turns of the shares that are written next. Returns whether any rollout has not finished.
    pub fn stage(&self, placement: &Placement, shares: &mut [Share]) -> bool {
        if !is_rolling_out(placement) || shares.len() < 2 {
            return false;
        }
        let known = |share: &Share| placement.share_of(&share.name, &share.uid);
        let states: Vec<RolloutShare> = shares.iter().map(|share| self.state(share, known(share))).collect();
        let is_divided = shares.iter().all(|share| share.replicas.is_some());
        let turns = turns(self.object, self.demand.work, is_divided, self.strategy, &states);
        for (share, turn) in shares.iter_mut().zip(&turns) {
            let before = placement.share_of(&share.name, &share.uid).cloned().unwrap_or_default();
            set(share, *turn, &before);
        }
        turns.iter().any(|turn| *turn != Turn::Finished)
    }

    /// The reason why clusters keep their template: new Pods do not become available on another one. `since` is
    /// the time, in seconds, since which a cluster reports the same pods.
    pub fn halted(&self, shares: &[Share], since: impl Fn(&str, &ReportedPods) -> i64, now: i64) -> Halt {
        let mut halt = Halt::default();
        let held = names(shares.iter().filter(|share| share.held));
        if held.is_empty() {
            return halt;
        }
        let mut stalled = Vec::new();
        for share in shares.iter().filter(|share| !share.held) {
            let Some(report) = self.reports.get(&share.uid) else { continue };
            if report.is_held || report.generation < object::generation(self.object) {
                continue;
            }
            match self.stalls_at(share, report, &since) {
                Some(at) if at <= now => stalled.push(share),
                Some(at) => halt.due = Some(halt.due.map_or(at, |due: i64| due.min(at))),
                None => {}
            }
        }
        if !stalled.is_empty() {
            let (stalled, time) = (names(stalled.into_iter()), self.time());
            let message = format!(
                "the rollout is halted: Pods of the new template do not become available on {stalled} within {time}; {held} \
                 keeps the earlier template; apply a template that works, or the earlier one"
            );
            halt.report = Some((ROLLOUT_HALTED, message));
        }
        halt
    }

    /// The time, in seconds, from which a cluster counts as stalled; `None` if it has finished, or does not stall.
    fn stalls_at(
        &self,
        share: &Share,
        report: &ReportedPods,
        since: impl Fn(&str, &ReportedPods) -> i64,
    ) -> Option<i64> {
        if self.demand.work == Work::Replicas {
            // The Deployment controller of the cluster reports the deadline.
            return report.is_stalled.then_some(i64::MIN);
        }
        let state = self.state(share, Some(share));
        let has_finished = state.updated >= state.replicas && state.available >= state.replicas;
        let is_stalling = !has_finished && !state.is_lost;
        is_stalling.then(|| since(&share.uid, report).saturating_add(self.deadline.unwrap_or(DEADLINE)))
    }

    /// The deadline for new Pods, as text for messages.
    fn time(&self) -> String {
        match self.demand.work {
            Work::Replicas => "progressDeadlineSeconds".to_string(),
            _ => format!("{} seconds", self.deadline.unwrap_or(DEADLINE)),
        }
    }

    fn state(&self, share: &Share, known: Option<&Share>) -> RolloutShare {
        let report = self.reports.get(&share.uid).copied().unwrap_or_default();
        let has_template =
            report.generation >= object::generation(self.object) && report.is_observed && !report.is_held;
        let is_lost = self
            .fleet
            .cluster(&share.uid)
            .is_none_or(|state| state.is_fenced || state.readiness.is_not_ready());
        let replicas = match self.demand.work {
            Work::EveryNode => report.desired,
            _ => share.replicas.unwrap_or(self.demand.replicas),
        };
        let is_released = known.is_none_or(|known| !known.held || known.is_rolling_out());
        RolloutShare {
            uid: Arc::from(share.uid.as_str()),
            replicas,
            updated: if has_template { report.updated + self.partition(share) } else { 0 },
            available: if is_lost { 0 } else { report.ready.min(replicas) },
            has_started: is_released || has_template,
            is_lost,
        }
    }

    /// The number of Pods of a StatefulSet on the cluster that keep their template.
    fn partition(&self, share: &Share) -> i64 {
        if self.demand.work != Work::Ordinals {
            return 0;
        }
        let whole = self.object["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
        (whole - share.first_ordinal.unwrap_or(0)).clamp(0, share.replicas.unwrap_or(self.demand.replicas))
    }
}

fn names<'s>(shares: impl Iterator<Item = &'s Share>) -> String {
    shares.map(|share| share.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Sets the turn of a share.
fn set(share: &mut Share, turn: Turn, before: &Share) {
    let has = RolloutBudget {
        max_unavailable: before.max_unavailable.unwrap_or(0),
        max_surge: before.max_surge.unwrap_or(0),
    };
    share.held = turn == Turn::Held;
    let budget = match turn {
        Turn::Finished | Turn::Now(None) => None,
        // A larger budget is not worth another write.
        Turn::Now(Some(now))
            if before.is_rolling_out()
                && now.max_unavailable >= has.max_unavailable
                && now.max_surge >= has.max_surge =>
        {
            Some(has)
        }
        Turn::Now(Some(now)) => Some(now),
        Turn::Held => before.is_rolling_out().then_some(has),
    };
    share.max_unavailable = budget.map(|budget| budget.max_unavailable);
    share.max_surge = budget.map(|budget| budget.max_surge);
}

#[cfg(test)]
mod tests {
    use atoll_placement::cluster::{ClusterState, Readiness};
    use serde_json::json;

    use super::*;

    fn report(generation: i64, updated: i64, is_held: bool) -> ReportedPods {
        ReportedPods {
            ready: 2,
            running: 2,
            updated,
            generation,
            is_observed: true,
            is_held,
            is_applied: true,
            ..ReportedPods::default()
        }
    }

    fn fleet() -> Fleet {
        let mut fleet = Fleet::new();
        for name in ["east", "west"] {
            let readiness = Readiness::Ready { since: 0 };
            fleet.set_cluster(ClusterState {
                name: name.into(),
                uid: name.into(),
                readiness,
                ..ClusterState::default()
            });
        }
        fleet
    }

    /// Held shares with the numbers of their budgets.
    type Shown<'a> = [(bool, Option<i64>); 2];

    #[test]
    fn one_cluster_after_the_other_gets_the_template() {
        let budget = json!({ "maxUnavailable": 1, "maxSurge": 0 });
        let object = json!({
            "metadata": { "generation": 5 },
            "spec": { "replicas": 4, "strategy": { "rollingUpdate": budget } },
        });
        let demand = Demand { replicas: 4, work: Work::Replicas, ..Demand::default() };
        let share = |name: &str, held, max_unavailable: Option<i64>| Share {
            replicas: Some(2),
            held,
            max_unavailable,
            max_surge: max_unavailable.map(|_| 0),
            ..Share::on(name, name)
        };
        let (old, new) = (report(5, 0, true), report(5, 2, false));
        let cases: [(Shown<'_>, [ReportedPods; 2], Shown<'_>, bool); 6] = [
            ([(true, None), (true, None)], [old, old], [(false, Some(1)), (true, None)], true),
            // The report is from before the template changed.
            (
                [(false, Some(1)), (true, None)],
                [report(4, 2, false), old],
                [(false, Some(1)), (true, None)],
                true,
            ),
            (
                [(false, Some(1)), (true, None)],
                [report(5, 1, false), old],
                [(false, Some(1)), (true, None)],
                true,
            ),
            ([(false, Some(1)), (true, None)], [new, old], [(false, None), (false, Some(1))], true),
            ([(false, None), (false, Some(1))], [new, new], [(false, None), (false, None)], false),
            // The template changes again: the cluster that was rolling out comes first.
            ([(true, None), (true, Some(1))], [old, old], [(true, None), (false, Some(1))], true),
        ];
        for (before, reports, expected, is_rolling) in cases {
            let clusters: Vec<Share> = ["east", "west"]
                .iter()
                .zip(before)
                .map(|(name, (held, unavailable))| share(name, held, unavailable))
                .collect();
            let placement = Placement { clusters, ..Placement::default() };
            let mut shares = vec![share("east", false, None), share("west", false, None)];
            let [east, west] = reports;
            let reports = HashMap::from([("east".to_string(), east), ("west".to_string(), west)]);
            let rollout = Rollout {
                object: &object,
                demand: &demand,
                strategy: Strategy::AllAtOnce,
                deadline: None,
                fleet: &fleet(),
                reports: &reports,
            };
            let found = rollout.stage(&placement, &mut shares);
            let shown: Vec<(bool, Option<i64>)> =
                shares.iter().map(|share| (share.held, share.max_unavailable)).collect();
            assert_eq!((shown.as_slice(), found), (&expected[..], is_rolling), "{before:?} {reports:?}");
        }
    }

    #[test]
    fn a_template_that_does_not_work_halts_the_rollout() {
        let object = json!({ "metadata": { "generation": 5 } });
        let stalled = ReportedPods { is_stalled: true, ..report(5, 1, false) };
        for (east, held, expected) in [
            (stalled, true, true),
            (report(5, 1, false), true, false),
            // The rollout does not wait for it.
            (stalled, false, false),
            // The report is about the template before.
            (ReportedPods { generation: 4, ..stalled }, true, false),
            (ReportedPods { is_held: true, ..stalled }, true, false),
        ] {
            let reports =
                HashMap::from([("east".to_string(), east), ("west".to_string(), report(5, 0, true))]);
            let demand = Demand { work: Work::Replicas, ..Demand::default() };
            let rollout = Rollout {
                object: &object,
                demand: &demand,
                strategy: Strategy::OneByOne,
                deadline: None,
                fleet: &fleet(),
                reports: &reports,
            };
            let shares = [Share::on("east", "east"), Share { held, ..Share::on("west", "west") }];
            let found = rollout.halted(&shares, |_, _| 0, 0).report;
            assert_eq!(found.is_some(), expected, "{east:?} {held}");
            assert!(
                found.is_none_or(|(_, text)| text.contains("on east within") && text.contains("west keeps"))
            );
        }
    }

    #[test]
    fn pods_without_a_deadline_of_their_own_halt_a_rollout_too() {
        let object = json!({ "metadata": { "generation": 5 } });
        let share =
            |held| Share { replicas: Some(2), held, ..Share::on(if held { "west" } else { "east" }, "") };
        let shares =
            [Share { uid: "east".into(), ..share(false) }, Share { uid: "west".into(), ..share(true) }];
        let old = report(5, 0, true);
        for (work, east, deadline, now, (is_halted, due)) in [
            (Work::Ordinals, report(5, 1, false), None, 699, (false, Some(700))),
            (Work::Ordinals, report(5, 1, false), None, 700, (true, None)),
            (Work::Ordinals, report(5, 1, false), Some(5), 105, (true, None)),
            (Work::EveryNode, ReportedPods { desired: 2, ..report(5, 1, false) }, Some(5), 105, (true, None)),
            // All of its Pods have the template, and one does not become available.
            (Work::Ordinals, ReportedPods { ready: 1, ..report(5, 2, false) }, Some(5), 105, (true, None)),
            (Work::Ordinals, report(5, 2, false), Some(5), 105, (false, None)),
            // The report is about the template before.
            (Work::Ordinals, report(4, 1, false), Some(5), 105, (false, None)),
        ] {
            let reports = HashMap::from([("east".to_string(), east), ("west".to_string(), old)]);
            let demand = Demand { work, replicas: 4, ..Demand::default() };
            let rollout = Rollout {
                object: &object,
                demand: &demand,
                strategy: Strategy::AllAtOnce,
                deadline,
                fleet: &fleet(),
                reports: &reports,
            };
            let halt = rollout.halted(&shares, |_, _| 100, now);
            assert_eq!((halt.report.is_some(), halt.due), (is_halted, due), "{work:?} {east:?} at {now}");
        }
    }

    #[test]
    fn one_share_has_no_turns() {
        let demand = Demand::default();
        let rollout = Rollout {
            object: &Value::Null,
            demand: &demand,
            strategy: Strategy::AllAtOnce,
            deadline: None,
            fleet: &fleet(),
            reports: &HashMap::new(),
        };
        let held = Share { held: true, ..Share::on("east", "east") };
        let placement = Placement { clusters: vec![held], ..Placement::default() };
        let mut shares = vec![Share::on("east", "east")];
        assert!(!rollout.stage(&placement, &mut shares) && !shares[0].held);
    }
}
