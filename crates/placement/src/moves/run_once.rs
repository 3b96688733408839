//! Moves of work that must not run twice, or whose data stays behind.

use super::{Phase, Step, find, is_same, segments};
use crate::decide::{DecidedShare, PlacementDecision};
use crate::demand::{Demand, Work};
use crate::fleet::Fleet;

/// Breaks before it makes: a share ends, its cluster confirms that, and only then its work begins on another
/// cluster.
pub fn step(fleet: &Fleet, demand: &Demand, now: &[DecidedShare], decision: &PlacementDecision) -> Step {
    let target = &decision.shares;
    let ends: Vec<&DecidedShare> = now.iter().filter(|share| find(target, &share.uid).is_none()).collect();
    let begins = target.iter().any(|share| find(now, &share.uid).is_none());
    if let Some(step) = ends.iter().find_map(|share| refuses(fleet, demand, share)) {
        return step;
    }
    // Shares that stay may change at once; new shares wait until the end of all others is confirmed.
    let stays: Vec<DecidedShare> =
        target.iter().filter(|share| find(now, &share.uid).is_some()).cloned().collect();
    if !ends.is_empty() && begins {
        return Step::Write { shares: stays, phase: Phase::Stopping };
    }
    let waits = demand.leaving.iter().filter(|uid| !has_stopped(fleet, uid)).map(|uid| name(fleet, uid));
    let waits: Vec<&str> = waits.collect();
    if begins && !waits.is_empty() {
        if is_same(now, &stays) {
            let reason = format!("waits until {} has confirmed that it is gone there", waits.join(", "));
            return Step::Wait { phase: Phase::Stopping, reason };
        }
        return Step::Write { shares: stays, phase: Phase::Settling };
    }
    if demand.work == Work::Ordinals && target.iter().any(|share| share.first_ordinal.is_some()) {
        return segments::step(demand, now, target);
    }
    let phase = match (begins, ends.is_empty()) {
        (true, _) if now.is_empty() && demand.leaving.is_empty() => Phase::Settling,
        (true, _) => Phase::Starting,
        (false, false) => Phase::Stopping,
        (false, true) => Phase::Settling,
    };
    Step::Write { shares: target.clone(), phase }
}

/// Returns that an object stays, if a share would end and leave its volumes behind.
pub fn kept_by_volumes(
    fleet: &Fleet,
    demand: &Demand,
    now: &[DecidedShare],
    decision: &PlacementDecision,
) -> Option<Step> {
    let ends = now.iter().filter(|share| find(&decision.shares, &share.uid).is_none());
    ends.filter_map(|share| fleet.cluster(&share.uid)).find_map(|state| has_volumes(demand, &state.name))
}

/// The reason why a share on the cluster of this name may not end: its volumes would stay behind.
fn has_volumes(demand: &Demand, name: &str) -> Option<Step> {
    (demand.has_bound_claims && !demand.may_leave_volumes).then(|| {
        let reason = format!(
            "its volumes are on {name} and would be empty elsewhere; declare a replica of the data, or accept that with \
             --accept-empty-volumes"
        );
        Step::Blocked { code: "VolumesStay", reason }
    })
}

/// The reason why a share may not end, if its work has to begin on another cluster.
fn refuses(fleet: &Fleet, demand: &Demand, share: &DecidedShare) -> Option<Step> {
    let state = fleet.cluster(&share.uid)?;
    let name = &state.name;
    if let Some(blocked) = has_volumes(demand, name) {
        return Some(blocked);
    }
    if demand.runs_once && !has_stopped(fleet, &share.uid) && state.readiness.is_not_ready() {
        let reason = format!(
            "it must not run twice, and may still run on {name}, which cannot be reached; if nothing runs there any more: \
             atoll cluster fence {name}"
        );
        return Some(Step::Blocked { code: "NotFenced", reason });
    }
    None
}

/// Whether nothing runs on a cluster any more, although it has not confirmed that.
fn has_stopped(fleet: &Fleet, uid: &str) -> bool {
    fleet
        .cluster(uid)
        .is_none_or(|state| state.is_fenced || (state.stops_itself && state.readiness.is_not_ready()))
}

fn name<'a>(fleet: &'a Fleet, uid: &'a str) -> &'a str {
    fleet.cluster(uid).map_or(uid, |state| &state.name)
}
