//! Steps of divided StatefulSets: an ordinal never runs twice, and Pods that are ordered start and stop in their
//! order across clusters.

use super::{Phase, Step, find};
use crate::decide::DecidedShare;
use crate::demand::Demand;

/// Shrinks segments first, the last ordinals first, then lets others grow, the first ordinals first.
pub fn step(demand: &Demand, now: &[DecidedShare], target: &[DecidedShare]) -> Step {
    let replicas = |shares: &[DecidedShare], share: &DecidedShare| {
        find(shares, &share.uid).map_or(0, |found| found.replicas.unwrap_or(demand.replicas))
    };
    let ready = |share: &DecidedShare| demand.share(&share.uid).map_or(0, |found| found.ready);
    let mut order: Vec<&DecidedShare> =
        target.iter().chain(now.iter().filter(|share| find(target, &share.uid).is_none())).collect();
    order.sort_by_key(|share| share.first_ordinal);
    let mut next: Vec<DecidedShare> = now.to_vec();
    let mut waits: Vec<&str> = Vec::new();
    for share in order.iter().rev() {
        let (has, goal) = (replicas(now, share), replicas(target, share));
        if has > goal {
            set(&mut next, share, goal);
        }
        if has > goal || (ready(share) > goal && find(now, &share.uid).is_some()) {
            waits.push(&share.name);
            if demand.is_ordered {
                break;
            }
        }
    }
    if waits.is_empty() {
        // All Pods that had to stop have stopped: shares get their first ordinals, and segments grow.
        next = target
            .iter()
            .map(|share| DecidedShare { replicas: Some(replicas(now, share)), ..share.clone() })
            .collect();
        for share in &order {
            let goal = replicas(target, share);
            set(&mut next, share, goal);
            if ready(share) < goal {
                waits.push(&share.name);
                if demand.is_ordered {
                    break;
                }
            }
        }
        // A segment is added only when it is its turn to grow.
        next.retain(|share| {
            share.replicas != Some(0) || find(now, &share.uid).is_some() || replicas(target, share) == 0
        });
    }
    if super::is_same(now, &next) {
        let reason =
            format!("waits for the Pods on {}, because ordinals follow one another", waits.join(", "));
        return Step::Wait { phase: Phase::Settling, reason };
    }
    Step::Write { shares: next, phase: Phase::Settling }
}

fn set(shares: &mut [DecidedShare], of: &DecidedShare, replicas: i64) {
    if let Some(share) = shares.iter_mut().find(|share| share.uid == of.uid) {
        share.replicas = Some(replicas);
    }
}
