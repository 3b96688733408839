//! The record of a decision: its changes, and their cause.

use atoll_fleet::Placement;
use atoll_fleet::placement::{PlacementDecision, Share, have_same_clusters, names_of};
use atoll_meta::text::clean;

use crate::moving::AWAY;
use crate::writer::Wanted;

/// Longest reason of a decision, so that several fit into the record.
const LONGEST: usize = 160;

/// Returns the past decisions about an object with the one that leads to the wanted placement.
pub fn recorded(current: &Placement, wanted: &Wanted, time: String) -> Vec<PlacementDecision> {
    let mut next = current.clone();
    let reason = format!("{}: {}", cause(current, wanted), changes(&current.clusters, &wanted.shares));
    next.record(PlacementDecision { time, by: wanted.by.clone(), reason: clean(&reason, LONGEST) });
    next.decisions
}

/// A short reason for the change.
fn cause(current: &Placement, wanted: &Wanted) -> String {
    let total = |shares: &[Share]| shares.iter().filter_map(amount).sum::<i64>();
    let (before, after) = (total(&current.clusters), total(&wanted.shares));
    match (current.clusters.is_empty(), wanted.shares.is_empty()) {
        (true, false) if current.phase.is_empty() => "placed".to_string(),
        _ if wanted.phase == AWAY => "its cluster is lost".to_string(),
        // Clusters stay the same where a workload is only scaled.
        _ if !wanted.phase.is_empty() && have_same_clusters(&current.clusters, &wanted.target) => {
            format!("{}, on the way to {}", wanted.phase, names_of(&wanted.target))
        }
        _ if !wanted.phase.is_empty() => {
            format!("{}, moving to {}", wanted.phase, names_of(&wanted.target))
        }
        (false, true) => "removed from all clusters".to_string(),
        _ if !current.phase.is_empty() && have_same_clusters(&current.clusters, &wanted.shares) => {
            "settled".to_string()
        }
        _ if !current.phase.is_empty() => "the move ended".to_string(),
        _ if current.by != wanted.by => format!("decided by {} before", current.by),
        _ if before != after => format!("scaled from {before} to {after}"),
        _ => "rebalanced".to_string(),
    }
}

/// Lists the clusters that enter, leave or get another number.
fn changes(before: &[Share], after: &[Share]) -> String {
    let known = |share: &Share, among: &[Share]| {
        among.iter().find(|other| other.is_of(&share.name, &share.uid)).cloned()
    };
    let mut parts: Vec<String> = Vec::new();
    for share in after {
        let number = amount(share).map(|number| format!("={number}")).unwrap_or_default();
        match known(share, before) {
            None => parts.push(format!("+{}{number}", share.name)),
            Some(old) if amount(&old) != amount(share) => {
                let old = amount(&old).map_or_else(|| "all".to_string(), |number| number.to_string());
                let new = amount(share).map_or_else(|| "all".to_string(), |number| number.to_string());
                parts.push(format!("{} {old} to {new}", share.name));
            }
            Some(_) => {}
        }
    }
    parts.extend(
        before.iter().filter(|share| known(share, after).is_none()).map(|share| format!("-{}", share.name)),
    );
    if parts.is_empty() { "same clusters".to_string() } else { parts.join(", ") }
}

fn amount(share: &Share) -> Option<i64> {
    share.replicas.or(share.completions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(name: &str, replicas: Option<i64>) -> Share {
        Share { replicas, ..Share::on(name, name) }
    }

    #[test]
    fn decisions_say_what_changes() {
        let placement = |shares: Vec<Share>, by: &str| Placement {
            clusters: shares,
            by: by.into(),
            ..Placement::default()
        };
        let wanted = |shares: Vec<Share>, by: &str| Wanted { shares, by: by.into(), ..Wanted::default() };
        let (east, west) = (share("east", Some(2)), share("west", Some(1)));
        let (more, all) = (share("east", Some(3)), share("east", None));
        for (before, after, expected) in [
            (
                placement(vec![], ""),
                wanted(vec![east.clone(), all.clone()], "default"),
                "placed: +east=2, +east",
            ),
            (
                placement(vec![east.clone()], "p"),
                wanted(vec![more.clone()], "p"),
                "scaled from 2 to 3: east 2 to 3",
            ),
            (
                placement(vec![more.clone()], "p"),
                wanted(vec![east.clone(), west.clone()], "p"),
                "rebalanced: east 3 to 2, +west=1",
            ),
            (
                placement(vec![east.clone()], "default"),
                wanted(vec![east.clone()], "p"),
                "decided by default before: same clusters",
            ),
            (placement(vec![east.clone()], "p"), wanted(vec![], "p"), "removed from all clusters: -east"),
            (
                placement(vec![all.clone()], "p"),
                wanted(vec![east.clone()], "p"),
                "scaled from 0 to 2: east all to 2",
            ),
        ] {
            let recorded = recorded(&before, &after, "2026-01-01T00:00:00Z".into());
            assert_eq!(recorded.last().map(|one| one.reason.as_str()), Some(expected));
        }
    }

    #[test]
    fn scaling_is_not_called_a_move() {
        let shares = |words: &str| -> Vec<Share> {
            let share = |word: &str| {
                let (name, replicas) = word.split_once('=').unwrap();
                share(name, replicas.parse().ok())
            };
            words.split_whitespace().map(share).collect()
        };
        for (before, phase, after, next, target, expected) in [
            ("a=3 b=2", "", "a=3 b=1", "settling", "a=3 b=0", "settling, on the way to a=3,b=0: b 2 to 1"),
            ("a=3 b=1", "settling", "a=3 b=0", "", "", "settled: b 1 to 0"),
            ("a=3", "", "a=3 b=3", "adding", "b=3", "adding, moving to b=3: +b=3"),
            ("a=3 b=3", "adding", "b=3", "", "", "the move ended: -a"),
        ] {
            let current = Placement { clusters: shares(before), phase: phase.into(), ..Placement::default() };
            let wanted = Wanted {
                shares: shares(after),
                phase: next.into(),
                target: shares(target),
                ..Wanted::default()
            };
            let recorded = recorded(&current, &wanted, "2026-01-01T00:00:00Z".into());
            assert_eq!(recorded.last().map(|one| one.reason.as_str()), Some(expected), "{before} to {after}");
        }
    }

    #[test]
    fn long_records_are_bounded() {
        let many: Vec<Share> = (0..500).map(|number| share(&format!("cluster-{number}"), Some(1))).collect();
        let mut placement = Placement::default();
        for _ in 0..8 {
            let wanted = Wanted { shares: many.clone(), by: "p".into(), ..Wanted::default() };
            placement.decisions = recorded(&placement, &wanted, "2026-01-01T00:00:00Z".into());
            assert!(placement.decisions_size() <= atoll_fleet::placement::MAX_DECISIONS_BYTES);
        }
        assert!(placement.decisions.len() >= 3, "{}", placement.decisions.len());
    }
}
