//! Fewer replicas on the clusters that have them, for objects that cannot go where they are to go.

use super::{Step, now, segments};
use crate::decide::DecidedShare;
use crate::demand::{Demand, Work};
use crate::fleet::Fleet;
use crate::rules::Division;

/// Returns the present shares with no more replicas than are asked for, if they have more: that takes no other cluster
/// and leaves no volume behind. Replicas on clusters that are to be left go first, and ordinals from the last.
pub fn shrunk(fleet: &Fleet, demand: &Demand, division: &Division) -> Option<Vec<DecidedShare>> {
    // Pins do not follow the replicas of the object.
    if !matches!(demand.work, Work::Replicas | Work::Ordinals) || matches!(division, Division::Pinned(_)) {
        return None;
    }
    let now = now(fleet, demand);
    let mut next = now.clone();
    // Each of several clusters runs all of it.
    if *division == Division::Duplicate {
        next.iter_mut().for_each(|share| share.replicas = share.replicas.map(|own| own.min(demand.replicas)));
        return (next != now).then_some(next);
    }
    let all: i64 = now.iter().filter_map(|share| share.replicas).sum();
    let mut surplus = (all - demand.replicas).max(0);
    let mut order: Vec<&mut DecidedShare> = next.iter_mut().collect();
    order.reverse();
    order.sort_by_key(|share| (std::cmp::Reverse(share.first_ordinal), !demand.is_evicted(&share.uid)));
    for share in order {
        let Some(has) = share.replicas else { continue };
        let fewer = has.min(surplus);
        share.replicas = Some(has - fewer);
        surplus -= fewer;
    }
    if next == now {
        return None;
    }
    if now.iter().all(|share| share.first_ordinal.is_none()) {
        return Some(next);
    }
    match segments::step(demand, &now, &next) {
        Step::Write { shares, .. } => Some(shares),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterState;
    use crate::demand::{CurrentShare, Evicted};

    #[test]
    fn fewer_replicas_need_no_other_cluster() {
        let mut fleet = Fleet::new();
        for name in ["a", "b"] {
            fleet.set_cluster(ClusterState {
                name: name.into(),
                uid: name.into(),
                ..ClusterState::default()
            });
        }
        let even = Division::Even;
        let ordinals = |text: &str| text.contains('@');
        for (shares, replicas, evicted, division, expected) in [
            ("a=5", 1, "a", &Division::Single, Some("a=1")),
            ("a=5", 5, "a", &Division::Single, None),
            ("a=5", 9, "a", &Division::Single, None),
            ("a=3 b=2", 2, "a", &even, Some("a=0 b=2")),
            ("a=3 b=2", 4, "", &even, Some("a=3 b=1")),
            ("a=5 b=5", 3, "a", &Division::Duplicate, Some("a=3 b=3")),
            ("a=5 b=5", 5, "a", &Division::Duplicate, None),
            ("a=5", 1, "a", &Division::Pinned(vec![("a".into(), 5)]), None),
            // One segment after the other, the last one first.
            ("a=2@0 b=3@2", 1, "a", &even, Some("a=2@0 b=0@2")),
            ("a=2@0 b=0@2", 1, "a", &even, Some("a=1@0 b=0@2")),
            ("a=2@0 b=3@2", 4, "b", &even, Some("a=2@0 b=2@2")),
        ] {
            let share = |word: &str| {
                let (name, numbers) = word.split_once('=').expect("a share has a number");
                let (replicas, first) =
                    numbers.split_once('@').map_or((numbers, None), |(r, f)| (r, Some(f)));
                let replicas = replicas.parse().expect("a number");
                CurrentShare {
                    uid: name.into(),
                    replicas: Some(replicas),
                    first_ordinal: first.and_then(|first| first.parse().ok()),
                    ready: replicas,
                    ..CurrentShare::default()
                }
            };
            let demand = Demand {
                work: if ordinals(shares) { Work::Ordinals } else { Work::Replicas },
                is_ordered: true,
                replicas,
                current: shares.split_whitespace().map(share).collect(),
                evicted: evicted.split_whitespace().map(Evicted::lost).collect(),
                ..Demand::default()
            };
            let words = shrunk(&fleet, &demand, division).map(|shares| {
                let word = |share: &DecidedShare| {
                    let first = share.first_ordinal.map(|first| format!("@{first}")).unwrap_or_default();
                    format!("{}={}{first}", share.name, share.replicas.unwrap_or(-1))
                };
                shares.iter().map(word).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(words.as_deref(), expected, "{shares} to {replicas}");
        }
    }
}
