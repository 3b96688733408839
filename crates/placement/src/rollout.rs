//! Rollouts: which clusters of a divided workload get a new Pod template now, so that the budget of its update
//! strategy holds for the whole.
//!
//! ```text
//!   template changes ─► all shares held ─► turns by budget ─► … ─► all finished: nothing held, no budgets
//! ```

use serde_json::Value;

use crate::budgets::{self, RolloutBudget, RolloutShare};
use crate::demand::Work;
use crate::policy::Strategy;

/// Default of `maxUnavailable` and `maxSurge` of a Deployment.
// upstream: pkg/apis/apps/v1/defaults.go
const DEPLOYMENT: &str = "25%";

/// The turn of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The rollout of the share has finished: all replicas have the template.
    Finished,
    /// The share rolls out now, within this budget, or else within that of its strategy.
    Now(Option<RolloutBudget>),
    /// The share keeps its template.
    Held,
}

/// Returns the turn of each share of an object. Replicas of shares are `None` if each cluster runs all of it.
pub fn turns(
    object: &Value,
    work: Work,
    is_divided: bool,
    policy: Strategy,
    shares: &[RolloutShare],
) -> Vec<Turn> {
    let spec = &object["spec"];
    if work == Work::Ordinals && is_divided {
        return match spec["updateStrategy"]["type"] == "OnDelete" {
            true => at_once(shares),
            // Upstream updates the Pod with the largest ordinal first, and waits for each.
            false => one_by_one(shares, shares.len(), |place| shares.len() - 1 - place),
        };
    }
    if policy == Strategy::OneByOne {
        return one_by_one(shares, shares.len(), |place| place);
    }
    match budget(spec, work, shares).filter(|_| is_divided || work == Work::EveryNode) {
        None => at_once(shares),
        Some(budget) => budgets::stage(shares, budget)
            .into_iter()
            .map(|turn| match turn {
                budgets::Turn::Finished => Turn::Finished,
                budgets::Turn::Now(own) if own == RolloutBudget::default() => Turn::Now(None),
                budgets::Turn::Now(own) => Turn::Now(Some(own)),
                budgets::Turn::Held => Turn::Held,
            })
            .collect(),
    }
}

/// The budget of the whole workload; `None` if its strategy has none.
// upstream: pkg/controller/deployment/util/deployment_util.go
fn budget(spec: &Value, work: Work, shares: &[RolloutShare]) -> Option<RolloutBudget> {
    let (strategy, unavailable, surge) = match work {
        Work::Replicas => (&spec["strategy"], Value::from(DEPLOYMENT), Value::from(DEPLOYMENT)),
        Work::EveryNode => (&spec["updateStrategy"], Value::from(1), Value::from(0)),
        _ => return None,
    };
    if !matches!(strategy["type"].as_str(), None | Some("RollingUpdate")) {
        return None;
    }
    let total = shares.iter().map(|share| share.replicas).sum();
    let number = |field: &str, default: Value, round_up: bool| {
        let given = strategy["rollingUpdate"].get(field).filter(|given| !given.is_null());
        budgets::resolve(given.unwrap_or(&default), total, round_up).unwrap_or(0)
    };
    // A DaemonSet rounds up, a Deployment rounds the unavailable ones down.
    let mut max_unavailable = number("maxUnavailable", unavailable, work == Work::EveryNode);
    let max_surge = number("maxSurge", surge, true);
    if max_unavailable == 0 && max_surge == 0 {
        max_unavailable = 1;
    }
    Some(RolloutBudget { max_unavailable, max_surge })
}

fn is_finished(share: &RolloutShare) -> bool {
    share.has_started && share.updated >= share.replicas
}

fn at_once(shares: &[RolloutShare]) -> Vec<Turn> {
    shares.iter().map(|share| if is_finished(share) { Turn::Finished } else { Turn::Now(None) }).collect()
}

/// One share after the other, in an order by place. The next one begins when all before are finished and
/// available, so that a template that does not work stops at the first cluster.
fn one_by_one(shares: &[RolloutShare], count: usize, at: impl Fn(usize) -> usize) -> Vec<Turn> {
    let mut turns = vec![Turn::Held; count];
    let mut may_begin = true;
    // A share that has begun ends, even if another one would come before it.
    for index in (0..count).map(&at) {
        let share = &shares[index];
        if is_finished(share) {
            turns[index] = Turn::Finished;
            may_begin &= share.available >= share.replicas;
        } else if share.has_started {
            turns[index] = Turn::Now(None);
            may_begin = false;
        }
    }
    let next = (0..count).map(&at).find(|index| turns[*index] == Turn::Held && !shares[*index].is_lost);
    if let Some(index) = next.filter(|_| may_begin) {
        turns[index] = Turn::Now(None);
    }
    turns
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn share(replicas: i64, updated: i64, available: i64, has_started: bool) -> RolloutShare {
        RolloutShare { replicas, updated, available, has_started, ..RolloutShare::default() }
    }

    fn now(max_unavailable: i64, max_surge: i64) -> Turn {
        Turn::Now(Some(RolloutBudget { max_unavailable, max_surge }))
    }

    fn deployment(unavailable: Value, surge: Value) -> Value {
        let budget = json!({ "maxUnavailable": unavailable, "maxSurge": surge });
        json!({ "spec": { "strategy": { "type": "RollingUpdate", "rollingUpdate": budget } } })
    }

    #[test]
    fn the_budget_of_a_deployment_holds_for_all_clusters() {
        let old = share(2, 0, 2, false);
        let five = || vec![old.clone(); 5];
        let held = Turn::Held;
        for (object, shares, expected) in [
            (deployment(json!(1), json!(0)), five(), vec![now(1, 0), held, held, held, held]),
            (json!({ "spec": {} }), five(), vec![now(2, 2), now(0, 1), held, held, held]),
            (deployment(json!("0%"), json!(0)), five(), vec![now(1, 0), held, held, held, held]),
            (json!({ "spec": { "strategy": { "type": "Recreate" } } }), five(), vec![Turn::Now(None); 5]),
            (
                deployment(json!(1), json!(0)),
                vec![share(2, 2, 2, true), old.clone()],
                vec![Turn::Finished, now(1, 0)],
            ),
            // A cluster that is lost has no turn, and nothing else may be taken away.
            (
                deployment(json!(1), json!(0)),
                vec![RolloutShare { is_lost: true, ..share(2, 0, 0, false) }, old.clone()],
                vec![held, held],
            ),
            (
                deployment(json!(1), json!(1)),
                vec![RolloutShare { is_lost: true, ..share(2, 0, 0, false) }, old.clone()],
                vec![held, now(0, 1)],
            ),
        ] {
            assert_eq!(
                turns(&object, Work::Replicas, true, Strategy::AllAtOnce, &shares),
                expected,
                "{object}"
            );
        }
    }

    #[test]
    fn copies_follow_at_once_or_one_by_one() {
        let object = json!({ "spec": {} });
        let shares = [share(2, 0, 2, false), share(2, 0, 2, false)];
        let at = |policy, shares: &[RolloutShare]| turns(&object, Work::Replicas, false, policy, shares);
        assert_eq!(at(Strategy::AllAtOnce, &shares), [Turn::Now(None), Turn::Now(None)]);
        assert_eq!(at(Strategy::OneByOne, &shares), [Turn::Now(None), Turn::Held]);
        // A cluster on which the template does not work stops the rollout.
        assert_eq!(
            at(Strategy::OneByOne, &[share(2, 2, 1, true), shares[1].clone()]),
            [Turn::Finished, Turn::Held]
        );
        assert_eq!(
            at(Strategy::OneByOne, &[share(2, 2, 2, true), shares[1].clone()]),
            [Turn::Finished, Turn::Now(None)]
        );
        assert_eq!(
            at(Strategy::OneByOne, &[shares[0].clone(), share(2, 1, 1, true)]),
            [Turn::Held, Turn::Now(None)]
        );
    }

    #[test]
    fn segments_of_a_stateful_set_follow_from_the_last_to_the_first() {
        let object = json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } });
        let old = share(2, 0, 2, false);
        let at = |shares: &[RolloutShare]| turns(&object, Work::Ordinals, true, Strategy::AllAtOnce, shares);
        assert_eq!(at(&[old.clone(), old.clone()]), [Turn::Held, Turn::Now(None)]);
        assert_eq!(at(&[old.clone(), share(2, 2, 2, true)]), [Turn::Now(None), Turn::Finished]);
        assert_eq!(at(&[old.clone(), share(2, 2, 1, true)]), [Turn::Held, Turn::Finished]);
        let on_delete = json!({ "spec": { "updateStrategy": { "type": "OnDelete" } } });
        let found = turns(&on_delete, Work::Ordinals, true, Strategy::AllAtOnce, &[old.clone(), old]);
        assert_eq!(found, [Turn::Now(None), Turn::Now(None)]);
    }

    #[test]
    fn daemon_sets_have_one_budget() {
        let nodes = [share(3, 0, 3, false), share(3, 0, 3, false)];
        let turns = turns(&json!({ "spec": {} }), Work::EveryNode, false, Strategy::AllAtOnce, &nodes);
        assert_eq!(turns, [now(1, 0), Turn::Held]);
    }
}
