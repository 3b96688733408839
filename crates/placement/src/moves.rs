//! The steps of a move: from the present shares to those of a decision, make before break.
//!
//! ```text
//!   replicas   A 10 ──► A 10, B 10 ──► B 10 is ready: B 10
//!   run once   A 3  ──► nothing, A leaves ──► A has confirmed: B 3
//! ```
//!
//! Each step is one write. The next one follows from the placement and the reports alone, so that a
//! scheduler that was killed continues where it was.

mod run_once;
mod segments;
mod shrinking;

use std::sync::Arc;

use crate::decide::{DecidedShare, PlacementDecision};
use crate::demand::{CurrentShare, Demand, Work};
use crate::fleet::Fleet;
use crate::rules::Rules;

pub use self::shrinking::shrunk;

/// The next step of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The placement is as decided.
    Done,
    /// Write these shares, in place of all present ones.
    Write { shares: Vec<DecidedShare>, phase: Phase },
    /// Wait for reports; the sentence says for which.
    Wait { phase: Phase, reason: String },
    /// Nothing happens until a user acts.
    Blocked { code: &'static str, reason: String },
}

/// The phase of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Shares change on the clusters that have them, or it is placed for the first time.
    Settling,
    /// New replicas start beside the old ones.
    Adding,
    /// Old replicas are taken away as new ones are ready.
    Removing,
    /// Run-once work leaves its cluster before it starts elsewhere.
    Stopping,
    /// Run-once work starts on its new cluster.
    Starting,
}

impl Phase {
    /// The word in `phase` of a placement.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Settling => "settling",
            Phase::Adding => "adding",
            Phase::Removing => "removing",
            Phase::Stopping => "stopping",
            Phase::Starting => "starting",
        }
    }
}

/// Returns the next step from the present shares of a demand to those of a decision.
pub fn next_step(fleet: &Fleet, demand: &Demand, decision: &PlacementDecision, rules: &Rules) -> Step {
    let now = now(fleet, demand);
    if is_same(&now, &decision.shares) {
        return Step::Done;
    }
    if demand.is_paused {
        return while_paused(&now, &decision.shares);
    }
    if demand.runs_once {
        return run_once::step(fleet, demand, &now, decision);
    }
    // Replicas on other clusters get claims of their own, so that they can start beside the old ones.
    if let Some(blocked) = run_once::kept_by_volumes(fleet, demand, &now, decision) {
        return blocked;
    }
    match demand.work {
        Work::Replicas => Replicas { fleet, demand, rules, now: &now, target: &decision.shares }.step(),
        _ => copies(fleet, demand, &now, &decision.shares),
    }
}

/// The present shares in the form of a decision, without those on unknown clusters.
fn now(fleet: &Fleet, demand: &Demand) -> Vec<DecidedShare> {
    let share = |share: &CurrentShare| {
        let state = fleet.cluster(&share.uid)?;
        Some(DecidedShare {
            name: state.name.clone(),
            uid: share.uid.clone(),
            replicas: share.replicas,
            first_ordinal: share.first_ordinal,
            completions: share.completions,
            parallelism: share.parallelism,
        })
    };
    demand.current.iter().filter_map(share).collect()
}

fn is_same(now: &[DecidedShare], target: &[DecidedShare]) -> bool {
    now.len() == target.len() && target.iter().all(|share| now.contains(share))
}

fn find<'a>(shares: &'a [DecidedShare], uid: &Arc<str>) -> Option<&'a DecidedShare> {
    shares.iter().find(|share| share.uid == *uid)
}

/// While paused, no cluster enters or leaves. Numbers of those that stay may change, but no replica moves.
fn while_paused(now: &[DecidedShare], target: &[DecidedShare]) -> Step {
    let next: Vec<DecidedShare> =
        now.iter().map(|share| find(target, &share.uid).unwrap_or(share).clone()).collect();
    let replicas = |share: &DecidedShare| share.replicas.unwrap_or(0);
    let changes = || now.iter().zip(&next).map(|(old, new)| replicas(new) - replicas(old));
    let moves = changes().any(|change| change > 0) && changes().any(|change| change < 0);
    match next == now || moves {
        true => Step::Blocked {
            code: "Paused",
            reason: "placements are paused; resume them with: atoll resume".into(),
        },
        false => Step::Write { shares: next, phase: Phase::Settling },
    }
}

/// Whether the pods of a cluster no longer count, so that no step waits for them.
fn is_gone(fleet: &Fleet, uid: &str) -> bool {
    fleet.cluster(uid).is_none_or(|state| state.is_fenced || state.readiness.is_not_ready())
}

/// A move of interchangeable replicas.
struct Replicas<'a> {
    fleet: &'a Fleet,
    demand: &'a Demand,
    rules: &'a Rules,
    now: &'a [DecidedShare],
    target: &'a [DecidedShare],
}

impl Replicas<'_> {
    fn replicas(&self, share: &DecidedShare) -> i64 {
        share.replicas.unwrap_or(self.demand.replicas)
    }

    fn step(&self) -> Step {
        let total: i64 = self.target.iter().map(|share| self.replicas(share)).sum();
        let (mut next, mut phase) = (self.grown(total), None);
        if next != self.now {
            phase = Some(if self.now.is_empty() { Phase::Settling } else { Phase::Adding });
        }
        if self.shrink(&mut next, total) {
            let leaves = next.len() < self.now.len() || phase.is_none();
            phase = Some(match phase {
                Some(Phase::Settling) => Phase::Settling,
                _ if leaves => Phase::Removing,
                _ => Phase::Adding,
            });
        }
        match phase {
            Some(phase) => Step::Write { shares: next, phase },
            None => self.wait(total),
        }
    }

    /// The present shares, grown towards their targets within the budget for extra replicas.
    fn grown(&self, total: i64) -> Vec<DecidedShare> {
        let present: i64 = self
            .now
            .iter()
            .filter(|share| !is_gone(self.fleet, &share.uid))
            .map(|share| self.replicas(share))
            .sum();
        let surge = self.rules.moves.max_surge.unwrap_or(i64::MAX).max(0);
        // Without surge, room comes from the replicas that may be unavailable.
        let mut left = total.saturating_add(surge).saturating_sub(present).max(0);
        let mut next: Vec<DecidedShare> = Vec::new();
        for share in self.now {
            let mut share = share.clone();
            if let Some(wanted) = find(self.target, &share.uid) {
                let more = (self.replicas(wanted) - self.replicas(&share)).clamp(0, left);
                left -= more;
                if more > 0 || self.replicas(wanted) == self.replicas(&share) {
                    share.replicas = wanted.replicas.map(|_| self.replicas(&share) + more);
                }
            }
            next.push(share);
        }
        for wanted in self.target.iter().filter(|share| find(self.now, &share.uid).is_none()) {
            let replicas = self.replicas(wanted).min(left);
            left -= replicas;
            if replicas > 0 || self.replicas(wanted) == 0 {
                next.push(DecidedShare { replicas: wanted.replicas.map(|_| replicas), ..wanted.clone() });
            }
        }
        next
    }

    /// Takes away as many ready replicas as exceed the number that must stay available. Returns whether any
    /// were taken away.
    fn shrink(&self, next: &mut Vec<DecidedShare>, asked: i64) -> bool {
        let ready = |uid: &Arc<str>| {
            let share = self.demand.share(uid);
            share.filter(|_| !is_gone(self.fleet, uid)).map_or(0, |share| share.ready)
        };
        let must_stay = (asked - self.rules.moves.max_unavailable).max(0);
        let available: i64 = self.now.iter().map(|share| ready(&share.uid).min(self.replicas(share))).sum();
        let mut spare = (available - must_stay).max(0);
        let before = next.clone();
        next.retain_mut(|share| {
            let wanted = find(self.target, &share.uid);
            let goal = wanted.map_or(0, |wanted| self.replicas(wanted));
            let has = self.replicas(share);
            if has < goal || (has == goal && wanted.is_some()) {
                return true;
            }
            // Replicas that are not ready are taken away first: that makes no replica unavailable.
            let idle = (has - ready(&share.uid)).max(0);
            let taken = (has - goal).min(idle + spare);
            spare -= (taken - idle).max(0);
            if taken > 0 {
                share.replicas = Some(has - taken);
            }
            wanted.is_some() || has > taken
        });
        *next != before
    }

    fn wait(&self, asked: i64) -> Step {
        let new = self.target.iter().filter(|share| {
            let ready = self.demand.share(&share.uid).map_or(0, |now| now.ready);
            ready < self.replicas(share)
        });
        let names: Vec<&str> = new.map(|share| &*share.name).collect();
        let names = if names.is_empty() { "the present clusters".into() } else { names.join(", ") };
        let reason =
            format!("waits until enough of {asked} replicas are ready on {names} before any is taken away");
        Step::Wait { phase: Phase::Removing, reason }
    }
}

/// A move of objects without replicas: the old ones leave when the new ones are ready.
fn copies(fleet: &Fleet, demand: &Demand, now: &[DecidedShare], target: &[DecidedShare]) -> Step {
    let old = |share: &&DecidedShare| find(target, &share.uid).is_none();
    let mut next: Vec<DecidedShare> = target.to_vec();
    let is_ready = |share: &DecidedShare| match demand.work {
        Work::EveryNode => demand.share(&share.uid).is_some_and(|now| now.ready > 0),
        _ => demand.share(&share.uid).is_some_and(|now| now.is_applied),
    };
    let stays: Vec<&DecidedShare> = match target.iter().all(is_ready) || target.is_empty() {
        true => Vec::new(),
        false => now.iter().filter(old).filter(|share| !is_gone(fleet, &share.uid)).collect(),
    };
    let adds = target.iter().any(|share| find(now, &share.uid).is_none());
    next.extend(stays.iter().copied().cloned());
    if is_same(now, &next) {
        let missing = target.iter().filter(|share| !is_ready(share)).map(|share| &*share.name);
        let names: Vec<&str> = missing.collect();
        let reason = format!("waits until {} has it before it leaves the others", names.join(", "));
        return Step::Wait { phase: Phase::Removing, reason };
    }
    let phase = match (now.is_empty(), adds) {
        (true, _) => Phase::Settling,
        (false, true) => Phase::Adding,
        (false, false) => Phase::Removing,
    };
    Step::Write { shares: next, phase }
}

#[cfg(test)]
mod tests;
