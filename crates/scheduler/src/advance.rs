//! The next step of one object: lost shares, the move under way and balance, then the decision.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::autoscaling::STOPPING;
use atoll_fleet::placed_by;
use atoll_fleet::placed_condition::{ConditionValue, MOVE_BLOCKED, STAYS_DIVIDED, UNSCHEDULABLE};
use atoll_fleet::placement::{Share, with_needed};
use atoll_informer::Key;
use atoll_meta::object;
use atoll_meta::views::items;
use atoll_placement::decide::{DecidedShare, PlacementDecision};
use atoll_placement::demand::{CurrentShare, Demand, Eviction, Work};
use atoll_placement::failover::returns_at;
use atoll_placement::intent::{Intent, IntentSource};
use atoll_placement::moves::shrunk;
use atoll_placement::node::{Effect, Taint, Toleration};
use atoll_placement::rules::{Division, Rules};
use serde_json::Value;

use crate::autoscalers::side::SideStep;
use crate::elsewhere;
use crate::losses::{self, Losses};
use crate::moving::{self, AWAY, NextShares};
use crate::rebalancing;
use crate::reports::ReportedPods;
use crate::rollouts::Rollout;
use crate::round::{DecidedStep, Round, left_out_message, message, pods, share, wanted};
use crate::workloads;
use crate::writer::{PAUSED_DELAY, PlacementTarget, Wanted};

/// Annotation of an object that may start with empty volumes on another cluster.
pub const ACCEPT_EMPTY_VOLUMES: &str = "atoll.dev/accept-empty-volumes";
/// Reason of the event about named clusters that take nothing.
const CLUSTERS_LEFT_OUT: &str = "ClustersLeftOut";
/// Taint of a cluster that is being drained.
pub const DRAIN: &str = "atoll.dev/drain";

/// An object to decide about.
pub struct Decidable<'a> {
    pub target: PlacementTarget,
    pub placement: &'a Placement,
    pub demand: Demand,
    pub rules: Rules,
    pub namespace: &'a Value,
    pub intent: Option<&'a (Intent, IntentSource)>,
}

impl Round<'_> {
    /// Decides about an object, reserves its resources, and returns the step towards the decision.
    pub fn advance(&mut self, key: &Key, object: Decidable<'_>) -> DecidedStep {
        let Decidable { target, placement, mut demand, mut rules, namespace, intent } = object;
        let now = self.scheduler.writer.clock.seconds();
        demand.is_paused = self.scheduler.pauses.take(key) && !demand.current.is_empty();
        let reports = self.read_reports(key, &target, &mut demand, now);
        let autoscaled = self.autoscaled(&target, placement, &mut demand, &reports);
        if demand.work == Work::EveryNode {
            // As on a drained node, DaemonSets stay until the cluster is removed.
            rules.tolerations.extend(drain_toleration());
        }
        let bound_for = self.ledger.shares(&placement.target, &demand.workspace_path);
        if let Some(serving) = self.scheduler.serving.as_ref().filter(|_| moving::is_moving(placement)) {
            serving.limit_ready(&target.at, &target.object, &self.scheduler.reports, &bound_for, &mut demand);
        }
        let is_moving = moving::is_moving(placement) && !demand.is_paused;
        let losses = self.losses(key, &mut demand, &rules, is_moving.then_some(&bound_for), now);
        let unconfirmed = unconfirmed(&demand, &reports);
        let awaits_removal = !unconfirmed.is_empty();
        // A lost cluster may confirm the removal much later. When it returns, all objects are balanced again.
        let awaits_removal_soon = unconfirmed.iter().any(|uid| !self.is_lost(uid));
        demand.evict(unconfirmed, Eviction::Leaving);

        let mut asked = match is_moving {
            true => moving::as_if_on(&demand, bound_for.clone()),
            false => demand.clone(),
        };
        asked.may_rebalance |= demand.current.iter().any(|share| share.unschedulable > 0);
        let is_balanced = self.scheduler.rebalancing.contains(key);
        let settled = asked.clone();
        let mut returns = false;
        if is_balanced {
            // Lost shares are replaced on any other cluster, even on one that has just become Ready.
            let may_move = !is_moving && !demand.is_paused && losses.replaced.is_empty();
            self.scheduler.rebalancing.set_waiting(key, !may_move || awaits_removal_soon);
            if may_move {
                returns = self.balance(key, &mut asked, (placement, &bound_for), &rules, now);
            }
        }
        let (target_and_namespace, mut decided) = ((&target, namespace), rules.clone());
        let mut decision = self.decide_allowed(target_and_namespace, &asked, &mut decided, intent);
        let is_for_balance = is_balanced && !is_moving && losses.replaced.is_empty();
        // A move for which an autoscaler was stopped has been counted already.
        if is_for_balance
            && placement.autoscaler != STOPPING
            && !demand.current.is_empty()
            && moving::changes_clusters(&demand, &decision)
            && let Err(at) = self.scheduler.rebalancing.begin(key, now, self.ledger.objects())
        {
            self.wake_at(key, at);
            self.scheduler.rebalancing.set_waiting(key, true);
            returns = false;
            decision = self.decide_allowed(target_and_namespace, &settled, &mut rules.clone(), intent);
        }

        self.scheduler.pending.set_rooms(key, &decision);
        let is_placed = !demand.current.is_empty();
        let code = if is_placed { MOVE_BLOCKED } else { UNSCHEDULABLE };
        let mut missing = (decision.unplaced > 0 || decision.kept > 0).then(|| message(&decision));
        if let Some(missing) = missing.as_mut().filter(|_| is_placed && decision.unplaced > 0)
            && let Some(remedy) = elsewhere::remedy(&self.ledger.fleet, &demand, &rules, &target)
        {
            *missing = format!("{missing}; {remedy}");
        }
        if decision.shares.is_empty() && awaits_removal {
            // The removal is confirmed by a change of the placement.
            return DecidedStep::Settled;
        }
        if decision.shares.is_empty() {
            // A placed object stays until another cluster has room for it.
            let message = missing.unwrap_or_else(|| "no cluster accepts the object".to_string());
            let shrunk = self.shrunk(&demand, &rules, intent);
            return self.stays(target, placement, shrunk, (code, message));
        }
        let fleet = &self.ledger.fleet;
        let kept = decision.kept + moving::keep_unplaced(fleet, &demand, &mut decision, &rules.division);
        let parts = if matches!(demand.work, Work::Completions { .. }) { "completions" } else { "replicas" };
        let missing = missing.map(|missing| match kept {
            0 => (UNSCHEDULABLE, missing),
            _ => (MOVE_BLOCKED, format!("{kept} of its {parts} stay where they are: {missing}")),
        });
        let mut next = match moving::next_shares(fleet, &demand, &decision, &rules) {
            Ok(next) => next,
            Err((code, reason)) => {
                if demand.is_paused {
                    // The pause was reported when the server refused the write.
                    self.wake_after(key, PAUSED_DELAY);
                    return DecidedStep::Settled;
                }
                let shrunk = self.shrunk(&demand, &rules, intent);
                return self.stays(target, placement, shrunk, (code, reason));
            }
        };
        if !demand.is_paused {
            moving::await_reports(&demand, &reports, placement, &mut next);
        }
        let are_own = next.shares.iter().all(|share| {
            fleet.cluster(&share.uid).is_none_or(|cluster| cluster.workspace == demand.workspace_path)
        });
        let side = match autoscaled.step(placement, &rules, (&next, are_own), &reports) {
            SideStep::Place(side) => side,
            SideStep::Scale(replicas) => return DecidedStep::Scale(target, replicas),
            SideStep::Stop => {
                // A cluster that was lost in the meantime need not confirm.
                self.wake_after(key, PAUSED_DELAY);
                self.scheduler.reports.set_awaited(key, true);
                // The move for which the autoscaler stops has not begun.
                self.scheduler.rebalancing.set_waiting(key, true);
                return self.outcome(key, target, placement, autoscaled.stopping(placement), None);
            }
        };
        let all = next.shares.iter().chain(&next.target);
        let taken = moving::reservations(all, |share| pods(share, &demand));
        let is_default = &*rules.by == placed_by::DEFAULT;
        self.ledger.reserve(key, (&demand.object, &demand.needs), taken, is_default);
        let mut wanted = wanted(&decision, &demand, &rules);
        wanted.missing = (missing_replicas(&demand, &decision) - kept).max(0);
        // Nothing is written about a part that stays because its cluster is lost, as in `stays`.
        let is_written = decision.kept == 0 || !demand.current.iter().any(|share| self.is_lost(&share.uid));
        let stays_divided =
            demand.work == Work::Ordinals && rules.division == Division::Single && next.shares.len() > 1;
        let divided = decision.reason.clone().filter(|_| stays_divided && missing.is_none());
        wanted.blocked = match kept {
            0 if divided.is_some() => STAYS_DIVIDED.to_string(),
            0 => String::new(),
            _ if is_written => MOVE_BLOCKED.to_string(),
            _ => placement.blocked.clone(),
        };
        describe(&mut wanted, &next, placement);
        wanted.autoscaler = side;
        let fleet = &self.ledger.fleet;
        let rollout = Rollout {
            object: &target.object,
            demand: &demand,
            strategy: rules.rollout,
            deadline: rules.rollout_deadline,
            fleet,
            reports: &reports,
        };
        let is_rolling_out = rollout.stage(placement, &mut wanted.shares);
        let progress = &self.scheduler.progress;
        let since = |cluster: &str, report: &ReportedPods| progress.since(key, cluster, report, now);
        let halted = rollout.halted(&wanted.shares, since, now);
        if !is_rolling_out {
            progress.remove(key);
        }
        if let Some(at) = halted.due {
            self.wake_at(key, at);
        }
        let awaits = is_rolling_out || !next.phase.is_empty() || autoscaled.awaits_reports(side);
        self.scheduler.reports.set_awaited(key, awaits);
        if demand.is_paused {
            wanted.left_out = placement.left_out.clone();
            (wanted.phase, wanted.target) = (placement.phase.clone(), placement.target.clone());
            self.wake_after(key, PAUSED_DELAY);
            if wanted.is_same(placement) {
                return DecidedStep::Settled;
            }
        } else if next.phase.is_empty() && !returns {
            stay_away(&mut wanted, placement, &losses, &rules);
        }
        if !workloads::is_workload(&target.resource) {
            wanted.shares = workloads::with_decided(placement, wanted.shares);
            if let Some(owned) = self.owned_shares(&target) {
                wanted.shares = with_needed(&wanted.shares, &owned);
            }
        }
        let refused = refused(&demand, &next, &reports);
        let left_out = left_out_message(&decision).map(|message| (CLUSTERS_LEFT_OUT, message));
        let divided = divided.map(|reason| (STAYS_DIVIDED, reason));
        let problem = missing.or(losses.held).or(halted.report).or(refused).or(divided).or(left_out);
        self.outcome(key, target, placement, wanted, problem)
    }

    /// Whether a cluster is not Ready, is fenced or does not exist any more.
    fn is_lost(&self, uid: &str) -> bool {
        let state = self.ledger.fleet.cluster(uid);
        state.is_none_or(|state| state.is_fenced || state.readiness.is_not_ready())
    }

    /// The shares of an object that stays on its clusters, if it has fewer replicas than they run.
    fn shrunk(
        &self,
        demand: &Demand,
        rules: &Rules,
        intent: Option<&(Intent, IntentSource)>,
    ) -> Option<Vec<DecidedShare>> {
        let has_pins = intent.is_some_and(|(intent, _)| intent.pins().next().is_some());
        (!has_pins).then(|| shrunk(&self.ledger.fleet, demand, &rules.division)).flatten()
    }

    /// The object stays on its clusters, and its placement says why. `shrunk` are its shares if they become smaller.
    fn stays(
        &self,
        target: PlacementTarget,
        placement: &Placement,
        shrunk: Option<Vec<DecidedShare>>,
        (code, message): (&'static str, String),
    ) -> DecidedStep {
        let is_lost = |share: &Share| self.is_lost(&share.uid);
        let mut wanted = Wanted { blocked: code.to_string(), ..Wanted::present(placement) };
        if let Some(shrunk) = shrunk {
            for share in &mut wanted.shares {
                let next = shrunk.iter().find(|next| share.is_of(&next.name, &next.uid));
                share.replicas = next.map_or(share.replicas, |next| next.replicas);
            }
            if placement.clusters.iter().any(is_lost) {
                wanted.blocked = placement.blocked.clone();
            }
            return DecidedStep::Place(target, wanted, Some((code, message)));
        }
        // Nothing is written because a cluster is lost: the control plane may be the one that is cut off.
        match wanted.is_same(placement)
            || placement.clusters.is_empty()
            || placement.clusters.iter().any(is_lost)
            || !workloads::is_workload(&target.resource)
        {
            true => report(target, code, message),
            false => DecidedStep::Place(target, wanted, Some((code, message))),
        }
    }

    fn outcome(
        &self,
        key: &Key,
        target: PlacementTarget,
        placement: &Placement,
        wanted: Wanted,
        problem: Option<(&'static str, String)>,
    ) -> DecidedStep {
        match (wanted.is_same(placement), problem) {
            (true, problem) => {
                self.scheduler.rebalancing.decided(key);
                match problem {
                    None => {
                        self.scheduler.pending.remove(key);
                        DecidedStep::Settled
                    }
                    Some((code, message)) => report(target, code, message),
                }
            }
            (false, problem) => DecidedStep::Place(target, wanted, problem),
        }
    }

    /// Adds the reports of clusters to the present shares of an object.
    pub fn read_reports(
        &mut self,
        key: &Key,
        target: &PlacementTarget,
        demand: &mut Demand,
        now: i64,
    ) -> HashMap<String, ReportedPods> {
        if demand.current.is_empty() {
            return HashMap::new();
        }
        let uid = object::uid(&target.object);
        let found = self.scheduler.reports.of(&target.at.workspace, uid);
        let mut due = None;
        for share in &mut demand.current {
            let Some(pods) = found.get(&*share.uid) else { continue };
            let stuck = self.scheduler.reports.fill(share, *pods, demand.work, (uid, now));
            due = due.into_iter().chain(stuck).min();
        }
        if let Some(at) = due {
            self.wake_at(key, at);
        }
        let is_applied = |share: &CurrentShare| found.get(&*share.uid).is_some_and(|pods| pods.is_applied);
        demand.has_bound_claims = has_claims(&target.object) && demand.current.iter().any(is_applied);
        demand.may_leave_volumes = object::annotation(&target.object, ACCEPT_EMPTY_VOLUMES) == Some("true");
        found
    }

    /// Finds shares on lost clusters, evicts those that are to be replaced, and wakes up for the others.
    pub fn losses(
        &mut self,
        key: &Key,
        demand: &mut Demand,
        rules: &Rules,
        bound_for: Option<&Vec<CurrentShare>>,
        now: i64,
    ) -> Losses {
        let on = demand.current.iter().chain(bound_for.into_iter().flatten()).map(|share| &share.uid);
        let workspaces = || -> Vec<Arc<str>> {
            let above = self.scheduler.api.ancestry(&key.workspace);
            above.into_iter().map(|(id, _)| id.into()).collect()
        };
        let late = || -> Option<HashSet<Arc<str>>> {
            let late = self.scheduler.heartbeats.late(&workspaces(), now)?;
            Some(late.iter().filter_map(|key| self.ledger.cluster_uid(key).cloned()).collect())
        };
        let losses = losses::of(&self.ledger.fleet, demand, &rules.failover, on, &late, now);
        demand.evict(losses.replaced.iter().cloned(), Eviction::Lost);
        let near = demand.current.iter().map(|share| &share.uid).chain(&demand.namespace_on);
        let emptied: Vec<_> = near.filter(|uid| self.is_emptied(uid, demand, rules)).cloned().collect();
        demand.evict(emptied, Eviction::Emptied);
        if let Some(at) = losses.due {
            self.scheduler.heartbeats.request(workspaces(), at - 1);
            self.wake_at(key, at);
        }
        losses
    }

    /// Whether an object must leave a cluster because of a taint that it does not tolerate. New objects of its
    /// namespace do not go there, either.
    fn is_emptied(&self, uid: &str, demand: &Demand, rules: &Rules) -> bool {
        let leads_away = |taint: &Taint| {
            taint.effect == Effect::NoExecute
                && !taint.is_tolerated(&rules.tolerations)
                && !taint.is_tolerated(&demand.needs.node.tolerations)
        };
        self.ledger.fleet.cluster(uid).is_some_and(|state| state.taints.iter().any(leads_away))
    }

    /// Lets an object move for the sake of balance, or return to the cluster that it had before a loss. Returns
    /// whether it returns.
    fn balance(
        &mut self,
        key: &Key,
        asked: &mut Demand,
        (placement, home): (&Placement, &[CurrentShare]),
        rules: &Rules,
        now: i64,
    ) -> bool {
        let fleet = &self.ledger.fleet;
        let recent = rebalancing::recently_ready(fleet, asked, &rules.failover, now);
        if moving::is_away(placement) {
            let returns = |share: &CurrentShare| {
                let at = fleet.cluster(&share.uid).and_then(|state| returns_at(state, &rules.failover));
                let is_free = !recent.clusters.contains(&share.uid) && !asked.is_evicted(&share.uid);
                is_free && at.is_some_and(|at| at <= now)
            };
            if home.iter().all(returns) {
                // The object may have been scaled in the meantime.
                let whole = home.iter().map(|share| CurrentShare { replicas: None, ..share.clone() });
                *asked = moving::as_if_on(asked, whole.collect());
                return true;
            }
        }
        asked.evict(recent.clusters, Eviction::RecentlyReady);
        asked.may_rebalance = true;
        if let Some(at) = recent.due {
            self.wake_at(key, at);
            self.scheduler.rebalancing.set_waiting(key, true);
        }
        false
    }

    /// Decides about an object again at a time, in seconds.
    fn wake_at(&mut self, key: &Key, at: i64) {
        let now = self.scheduler.writer.clock.now();
        let whole = Duration::from_secs(u64::try_from(at - now.seconds).unwrap_or(0));
        self.wake_after(key, whole.saturating_sub(Duration::from_nanos(now.nanos.into())));
    }

    pub fn wake_after(&mut self, key: &Key, delay: Duration) {
        self.wakes.push((key.clone(), delay));
    }
}

fn report(target: PlacementTarget, reason: &'static str, message: String) -> DecidedStep {
    DecidedStep::Report(target, ConditionValue { status: "False", reason, message })
}

/// Sets the shares, the phase and the target of a placement.
fn describe(wanted: &mut Wanted, next: &NextShares, placement: &Placement) {
    wanted.shares = next.shares.iter().map(share).collect();
    wanted.phase = match next.is_waiting && moving::is_moving(placement) {
        // A write is not worth it for the phase alone.
        true => placement.phase.clone(),
        false => next.phase.clone(),
    };
    wanted.target = next.target.iter().map(share).collect();
}

/// The number of replicas without a cluster. Work other than replicas is placed as a whole.
fn missing_replicas(demand: &Demand, decision: &PlacementDecision) -> i64 {
    if demand.work == Work::Replicas { decision.unplaced.max(0) } else { 0 }
}

/// Records the clusters of an object before the loss, if it is to return there.
fn stay_away(wanted: &mut Wanted, placement: &Placement, losses: &Losses, rules: &Rules) {
    let is_single = rules.division == Division::Single && !rules.names_clusters;
    if !is_single || !rules.failover.returns || placement.by != wanted.by {
        return;
    }
    if moving::is_away(placement) {
        (wanted.phase, wanted.target) = (AWAY.to_string(), placement.target.clone());
        return;
    }
    let is_lost = |uid: &str| losses.replaced.iter().any(|lost| **lost == *uid);
    let lost = placement.clusters.iter().filter(|share| is_lost(&share.uid));
    let lost: Vec<_> = lost.filter(|share| !wanted.shares.iter().any(|next| next.uid == share.uid)).collect();
    if !lost.is_empty() {
        (wanted.phase, wanted.target) = (AWAY.to_string(), lost.into_iter().cloned().collect());
    }
}

/// Uids of clusters that were removed from the placement and still report the object, or pods of it. Such a
/// report is about the old share, so the object gets no new share there before the old one has ended.
fn unconfirmed(demand: &Demand, reports: &HashMap<String, ReportedPods>) -> Vec<Arc<str>> {
    let is_copy = demand.work == Work::Copy;
    let is_there = |pods: &ReportedPods| pods.ready > 0 || pods.running > 0 || (is_copy && pods.is_present);
    let has_pods = |uid: &str| reports.get(uid).is_some_and(is_there);
    let leaving = demand.leaving.iter().filter(|uid| demand.share(uid).is_none() && has_pods(uid));
    leaving.filter(|_| !demand.current.is_empty()).cloned().collect()
}

/// The reason why an object without replicas stays on its clusters: a new one does not take it.
fn refused(
    demand: &Demand,
    next: &NextShares,
    reports: &HashMap<String, ReportedPods>,
) -> Option<(&'static str, String)> {
    let is_refused = |share: &&DecidedShare| reports.get(&*share.uid).is_some_and(|pods| pods.is_refused);
    let share =
        next.target.iter().find(is_refused).filter(|_| demand.work == Work::Copy && next.is_waiting)?;
    let message = format!(
        "it stays where it is, because {} does not take it; see: kubectl get objectstatuses",
        share.name
    );
    Some((MOVE_BLOCKED, message))
}

/// Whether the pods of a workload have volume claims, so that their data is in their cluster.
fn has_claims(object: &Value) -> bool {
    let volumes = items(&object["spec"]["template"]["spec"]["volumes"]);
    !items(&object["spec"]["volumeClaimTemplates"]).is_empty()
        || volumes.iter().any(|volume| volume["persistentVolumeClaim"].is_object())
}

fn drain_toleration() -> Option<Toleration> {
    let toleration = serde_json::json!({ "key": DRAIN, "operator": "Exists" });
    Toleration::of(atoll_meta::views::TolerationView::of(&toleration))
}
