//! Placements during a pause: shares follow the number of replicas, and no cluster enters or leaves, whatever the
//! rules are now.

use super::SharePlan;
use crate::apportion::{Part, apportion};
use crate::candidates::Candidate;
use crate::demand::Work;
use crate::filters::Question;
use crate::rules::Division;

/// Reason for objects that are not placed during a pause.
pub const PAUSED: &str = "placements are paused; resume them with: atoll resume";

/// Divides only the difference to the present number of replicas.
pub fn follow(question: Question<'_>) -> SharePlan {
    let demand = question.demand;
    let total = demand.replicas;
    let mut found = question.present(None, demand.pods());
    found.sort_by(|one, other| one.registration().cmp(&other.registration()));
    if found.is_empty() {
        return SharePlan::nowhere(demand, PAUSED);
    }
    let is_whole = !matches!(demand.work, Work::Replicas | Work::Ordinals);
    if is_whole || each_runs_all(question, &found) {
        return SharePlan::of(found.iter().map(|one| (one.index, total)).collect(), 0);
    }
    let part = |one: &Candidate<'_>| Part { weight: one.weight, min: 0, max: one.most, current: one.current };
    let parts: Vec<Part> = found.iter().map(part).collect();
    let shares = apportion(total, &parts, false);
    let unplaced = (total - shares.iter().sum::<i64>()).max(0);
    let shares = found.iter().zip(shares).map(|(one, share)| (one.index, share)).collect();
    SharePlan {
        // Ordinals have segments already, or none.
        is_divided: demand.work == Work::Replicas && found.len() > 1,
        reason: (unplaced > 0).then(|| PAUSED.to_string()),
        ..SharePlan::of(shares, unplaced)
    }
}

/// Whether each of several clusters runs all replicas, as far as their shares tell. Rules may have changed during the
/// pause, which moves nothing.
fn each_runs_all(question: Question<'_>, found: &[Candidate<'_>]) -> bool {
    let total = question.demand.replicas;
    let Some(first) = found.first().map(|one| one.current).filter(|_| found.len() > 1) else { return false };
    let sum: i64 = found.iter().map(|one| one.current).sum();
    found.iter().all(|one| one.current == first)
        && (first == total || (question.rules.division == Division::Duplicate && sum != total))
}
