//! Workloads with autoscalers: their replicas, and the side that sets them.

use std::collections::HashMap;

use atoll_fleet::Placement;
use atoll_fleet::autoscaling::{ABOVE, BELOW, PINNED, STOPPING};
use atoll_fleet::placement::Share;
use atoll_placement::demand::{Demand, Work};
use atoll_placement::rules::{Division, Rules};

use crate::autoscalers::AutoscalerState;
use crate::autoscalers::side::{SideStep, Situation, next};
use crate::moving::NextShares;
use crate::reports::ReportedPods;
use crate::round::Round;
use crate::writer::{PlacementTarget, Wanted};

/// The effect of autoscalers on one decision.
pub struct Autoscaled {
    state: AutoscalerState,
    /// `spec.replicas` above.
    replicas: i64,
    /// Replicas that run on its only cluster, if an autoscaler there sets them.
    running: Option<i64>,
}

impl Round<'_> {
    /// Reads the autoscalers of a workload. If a cluster sets the replicas, these are the requested ones.
    pub fn autoscaled(
        &self,
        target: &PlacementTarget,
        placement: &Placement,
        demand: &mut Demand,
        reports: &HashMap<String, ReportedPods>,
    ) -> Autoscaled {
        let replicas = demand.replicas;
        if !matches!(demand.work, Work::Replicas | Work::Ordinals) {
            return Autoscaled { state: AutoscalerState::default(), replicas, running: None };
        }
        let state = self.scheduler.autoscalers.state(&target.resource, &target.at, &self.ledger.fleet);
        let running = running(placement, reports, state.most, replicas);
        if let Some(running) = running
            && (replicas > 0 || !state.is_clear)
        {
            demand.replicas = running;
        }
        Autoscaled { state, replicas, running }
    }
}

impl Autoscaled {
    /// Whether the next step depends on reports.
    pub fn awaits_reports(&self, side: &str) -> bool {
        self.running.is_some() || (self.state.exists && ![ABOVE, PINNED].contains(&side))
    }

    /// The next step, if these shares are to be written. `are_own` is whether all of their clusters are registered in
    /// the workspace: on others, only replicas that the scheduler has room for may run.
    pub fn step(
        &self,
        placement: &Placement,
        rules: &Rules,
        (shares, are_own): (&NextShares, bool),
        reports: &HashMap<String, ReportedPods>,
    ) -> SideStep {
        let only = |clusters: &[Share]| match clusters {
            [share] => Some((share.uid.clone(), share.replicas)),
            _ => None,
        };
        let now = only(&placement.clusters);
        let stays = match (&now, shares.shares.as_slice()) {
            (Some((uid, _)), [next]) => **uid == *next.uid && shares.phase.is_empty(),
            _ => false,
        };
        let is_confirmed = now.is_some_and(|(uid, replicas)| {
            let asked = reports.get(&uid).filter(|pods| pods.is_applied).map(|pods| pods.asked);
            asked.is_some() && asked == Some(replicas.unwrap_or(self.replicas))
        });
        next(&Situation {
            side: &placement.autoscaler,
            is_autoscaled: self.state.exists && self.replicas > 0,
            is_undivided: is_undivided(rules) && are_own && !self.state.keeps_above,
            is_pinned: matches!(rules.division, Division::Pinned(_)),
            is_clear: self.state.is_clear,
            clusters: shares.shares.len(),
            stays,
            is_confirmed,
            replicas: self.replicas,
            running: self.running.unwrap_or(self.replicas),
        })
    }

    /// The present placement with the running replicas, while the autoscaler leaves its cluster.
    pub fn stopping(&self, placement: &Placement) -> Wanted {
        let mut wanted = Wanted { autoscaler: STOPPING, ..Wanted::present(placement) };
        if let ([share], Some(running)) = (wanted.shares.as_mut_slice(), self.running) {
            share.replicas = Some(running);
        }
        wanted
    }
}

/// Whether the rules place all replicas on one cluster, regardless of their number.
fn is_undivided(rules: &Rules) -> bool {
    let is_named = rules.clusters.names.len() == 1;
    match &rules.division {
        Division::Single => true,
        Division::Weighted(weights) => weights.len() == 1 && is_named,
        Division::Pinned(_) => false,
        _ => rules.max_clusters == Some(1) || is_named,
    }
}

/// Replicas of a workload on its only cluster, if an autoscaler there sets them, within the limits of the
/// autoscaler.
fn running(
    placement: &Placement,
    reports: &HashMap<String, ReportedPods>,
    most: i64,
    replicas: i64,
) -> Option<i64> {
    let [share] = placement.clusters.as_slice() else { return None };
    if ![BELOW, STOPPING].contains(&placement.autoscaler.as_str()) {
        return None;
    }
    let known = share.replicas.unwrap_or(replicas);
    let reported = reports.get(&share.uid).filter(|pods| pods.is_applied).map(|pods| pods.asked);
    // The report of a cluster may contain any number.
    let most = if most > 0 { most.max(known) } else { i64::MAX };
    Some(reported.filter(|asked| *asked > 0).unwrap_or(known).min(most))
}

#[cfg(test)]
mod tests {
    use atoll_placement::rules::ClusterFilter;

    use super::*;

    #[test]
    fn replicas_in_the_only_cluster_are_followed() {
        let on = |side: &str, shares: &[(&str, i64)]| Placement {
            clusters: shares
                .iter()
                .map(|(name, replicas)| Share { replicas: Some(*replicas), ..Share::on(name, name) })
                .collect(),
            autoscaler: side.into(),
            ..Placement::default()
        };
        let report = |asked: i64, is_applied: bool| {
            let pods = ReportedPods { asked, is_applied, ..ReportedPods::default() };
            HashMap::from([("east".to_string(), pods)])
        };
        for (placement, reports, most, expected) in [
            (on(BELOW, &[("east", 2)]), report(8, true), 10, Some(8)),
            (on(STOPPING, &[("east", 2)]), report(8, true), 10, Some(8)),
            (on(ABOVE, &[("east", 2)]), report(8, true), 10, None),
            (on("", &[("east", 2)]), report(8, true), 10, None),
            (on(BELOW, &[("east", 2), ("west", 2)]), report(8, true), 10, None),
            // Without a report, the last known number stays.
            (on(BELOW, &[("east", 2)]), report(8, false), 10, Some(2)),
            (on(BELOW, &[("east", 2)]), HashMap::new(), 10, Some(2)),
            (on(BELOW, &[("east", 2)]), report(0, true), 10, Some(2)),
            // The number stays within the maximum, also after the maximum was lowered.
            (on(BELOW, &[("east", 2)]), report(1 << 40, true), 10, Some(10)),
            (on(BELOW, &[("east", 12)]), report(12, true), 10, Some(12)),
            // The autoscaler was deleted.
            (on(BELOW, &[("east", 8)]), report(8, true), 0, Some(8)),
        ] {
            assert_eq!(running(&placement, &reports, most, 3), expected, "{placement:?}");
        }
    }

    #[test]
    fn rules_tell_what_is_undivided() {
        let named = |names: &[&str]| ClusterFilter::named(names.iter().copied());
        let weights = |names: &[&str]| {
            let weights = names.iter().map(|name| (ClusterFilter::named([*name]), 1)).collect();
            Rules { division: Division::Weighted(weights), clusters: named(names), ..Rules::default() }
        };
        let of = |division: Division| Rules { division, ..Rules::default() };
        for (rules, expected) in [
            (Rules::by_default(), true),
            (of(Division::Single), true),
            (of(Division::Even), false),
            (of(Division::Duplicate), false),
            (Rules { max_clusters: Some(1), ..of(Division::Pack) }, true),
            (Rules { clusters: named(&["east"]), ..of(Division::Even) }, true),
            (Rules { clusters: named(&["east", "west"]), ..of(Division::Even) }, false),
            (weights(&["east"]), true),
            (weights(&["east", "west"]), false),
            (of(Division::Pinned(vec![("east".into(), 2)])), false),
        ] {
            assert_eq!(is_undivided(&rules), expected, "{:?}", rules.division);
        }
    }
}
