use proptest::prelude::*;

use super::*;

fn differ_by(shares: &[i64]) -> i64 {
    shares.iter().max().unwrap_or(&0) - shares.iter().min().unwrap_or(&0)
}

fn parts(rows: &[(i64, i64)]) -> Vec<Part> {
    rows.iter()
        .map(|(weight, current)| Part { weight: *weight, min: 0, max: 100_000, current: *current })
        .collect()
}

#[test]
fn replicas_are_divided_by_weight() {
    for (total, rows, expected) in [
        (10, &[(1, 0), (1, 0), (1, 0)][..], &[4, 3, 3][..]),
        (3, &[(2, 0), (1, 0)], &[2, 1]),
        (4, &[(2, 0), (1, 0)], &[3, 1]),
        (2, &[(1, 0), (1, 0), (1, 0)], &[1, 1, 0]),
        // The remainder stays where it is.
        (10, &[(1, 3), (1, 3), (1, 4)], &[3, 3, 4]),
        (11, &[(1, 3), (1, 3), (1, 4)], &[4, 3, 4]),
        (9, &[(1, 3), (1, 3), (1, 4)], &[3, 3, 3]),
        // A new cluster takes from those that have most.
        (10, &[(1, 5), (1, 5), (1, 0)], &[4, 3, 3]),
        (0, &[(1, 5), (1, 5)], &[0, 0]),
        (5, &[], &[]),
        (20_000, &[(3, 0), (1, 0)], &[15_000, 5_000]),
    ] {
        assert_eq!(apportion(total, &parts(rows), true), expected, "{total} {rows:?}");
    }
}

#[test]
fn without_balance_only_the_difference_is_divided() {
    for (total, rows, expected) in [
        (10, &[(1, 9), (1, 1)][..], &[9, 1][..]),
        (12, &[(1, 9), (1, 1)], &[9, 3]),
        (8, &[(1, 9), (1, 1)], &[7, 1]),
    ] {
        assert_eq!(apportion(total, &parts(rows), false), expected, "{total} {rows:?}");
    }
}

#[test]
fn bounds_hold_before_fairness() {
    let bounded = |rows: &[(i64, i64, i64)]| -> Vec<Part> {
        rows.iter()
            .map(|(min, max, current)| Part { weight: 1, min: *min, max: *max, current: *current })
            .collect()
    };
    for (total, rows, expected) in [
        (10, &[(0, 2, 0), (0, 100, 0)][..], &[2, 8][..]),
        (10, &[(0, 2, 0), (0, 3, 0)], &[2, 3]),
        (2, &[(2, 9, 0), (0, 9, 0)], &[2, 0]),
        (1, &[(2, 9, 0), (0, 9, 0)], &[2, 0]),
    ] {
        assert_eq!(apportion(total, &bounded(rows), true), expected, "{total} {rows:?}");
    }
}

#[test]
fn levels_differ_by_at_most_the_skew() {
    let part = |max: i64, current: i64| Part { weight: 1, min: 0, max, current };
    for (total, rows, skew, expected) in [
        (10, vec![part(99, 0), part(99, 0)], 1, vec![5, 5]),
        (10, vec![part(99, 0), part(2, 0)], 1, vec![3, 2]),
        (10, vec![part(99, 7), part(99, 3)], 4, vec![7, 3]),
        (10, vec![part(99, 8), part(99, 2)], 4, vec![7, 3]),
        (10, vec![part(99, 8), part(0, 0)], 2, vec![2, 0]),
    ] {
        let found = level(total, &rows, skew);
        assert!(differ_by(&found) <= skew, "{rows:?} {found:?}");
        assert_eq!(found.iter().sum::<i64>(), expected.iter().sum::<i64>(), "{rows:?} {found:?}");
        assert_eq!(found, expected, "{rows:?} {skew}");
    }
}

#[test]
fn very_many_replicas_are_divided_at_once() {
    let most = i64::from(i32::MAX);
    let part = |weight: i64, max: i64, current: i64| Part { weight, min: 0, max, current };
    let unlimited = i64::MAX / 4096;
    for (total, rows, balance, expected) in [
        (most, vec![part(1, unlimited, 1), part(1, unlimited, 0)], false, vec![most / 2 + 1, most / 2]),
        (most, vec![part(1_000_000, 5, 0), part(1, unlimited, 0)], true, vec![5, most - 5]),
        (most, vec![part(1, unlimited, most), part(1, unlimited, 0)], true, vec![most / 2 + 1, most / 2]),
        (most, vec![part(1, unlimited, most), part(1, unlimited, 0)], false, vec![most, 0]),
        (2, vec![part(1, unlimited, most), part(1, unlimited, most)], false, vec![1, 1]),
        (most, vec![part(unlimited, unlimited, 0), part(1, unlimited, 3)], true, vec![most, 0]),
        (most, vec![part(1, 7, 0), part(1, 8, 3)], true, vec![7, 8]),
    ] {
        assert_eq!(apportion(total, &rows, balance), expected, "{total} {rows:?} {balance}");
    }
    let rows = [part(1, unlimited, 0), part(1, unlimited, most), part(1, 1 << 20, 0)];
    assert_eq!(level(most, &rows, 1), [(1 << 20) + 1, (1 << 20) + 1, 1 << 20], "{rows:?}");
}

/// All divisions of a total within the bounds.
fn all_divisions(total: i64, parts: &[Part]) -> Vec<Vec<i64>> {
    let Some((first, rest)) = parts.split_first() else {
        return if total == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let shares = first.min..=first.max.min(total);
    shares
        .flat_map(|share| {
            all_divisions(total - share, rest).into_iter().map(move |mut more| {
                more.insert(0, share);
                more
            })
        })
        .collect()
}

/// Whether no replica should move: judged by fractions, not by the code under test.
fn is_fair(shares: &[i64], parts: &[Part]) -> bool {
    let pairs = (0..shares.len()).flat_map(|from| (0..shares.len()).map(move |to| (from, to)));
    pairs.into_iter().all(|(from, to)| {
        let can_move = from != to && shares[from] > parts[from].min && shares[to] < parts[to].max;
        let (gives, takes) = (2 * shares[from] - 1, 2 * shares[to] + 1);
        !can_move || gives * parts[to].weight <= takes * parts[from].weight
    })
}

fn moves(shares: &[i64], parts: &[Part]) -> i64 {
    shares.iter().zip(parts).map(|(share, part)| (part.current - share).max(0)).sum()
}

fn any_parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (1..5i64, 0..3i64, 0..13i64, 0..13i64).prop_map(|(weight, min, more, current)| Part {
        weight,
        min,
        max: min + more,
        current,
    });
    proptest::collection::vec(part, 1..=5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn moves_are_minimal(total in 0..=12i64, parts in any_parts()) {
        let found = apportion(total, &parts, true);
        prop_assert_eq!(&found, &apportion(total, &parts, true));
        let all = all_divisions(total, &parts);
        if all.is_empty() {
            let (min, max): (i64, i64) = parts.iter().fold((0, 0), |(a, b), p| (a + p.min, b + p.max));
            prop_assert_eq!(found.iter().sum::<i64>(), if total < min { min } else { max });
            return Ok(());
        }
        prop_assert_eq!(found.iter().sum::<i64>(), total);
        prop_assert!(found.iter().zip(&parts).all(|(share, part)| (part.min..=part.max).contains(share)));
        prop_assert!(is_fair(&found, &parts), "{:?}", found);
        let fewest = all.iter().filter(|shares| is_fair(shares, &parts)).map(|shares| moves(shares, &parts)).min();
        prop_assert_eq!(Some(moves(&found, &parts)), fewest, "{:?}", found);
    }

    #[test]
    fn divisions_at_once_are_as_good_as_those_in_steps(total in 0..=12i64, parts in any_parts()) {
        prop_assert_eq!(apportion_in(0, total, &parts, false), apportion(total, &parts, false));
        let (found, steps) = (apportion_in(0, total, &parts, true), apportion(total, &parts, true));
        prop_assert_eq!(found.iter().sum::<i64>(), steps.iter().sum::<i64>());
        prop_assert_eq!(moves(&found, &parts), moves(&steps, &parts), "{:?} {:?}", found, steps);
        prop_assert!(found.iter().zip(&parts).all(|(share, part)| (part.min..=part.max).contains(share)));
        prop_assert!(is_fair(&found, &parts), "{:?}", found);
    }

    #[test]
    fn one_more_replica_takes_none_away(total in 0..40i64, parts in any_parts(), balance: bool) {
        let before = apportion(total, &parts, true);
        let parts: Vec<Part> =
            parts.iter().zip(&before).map(|(part, share)| Part { current: *share, ..*part }).collect();
        let after = apportion(total + 1, &parts, balance);
        prop_assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{:?} {:?}", before, after);
        let new: Vec<Part> = parts.iter().map(|part| Part { current: 0, ..*part }).collect();
        let (before, after) = (apportion(total, &new, true), apportion(total + 1, &new, true));
        prop_assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{:?} {:?}", before, after);
    }

    #[test]
    fn levels_are_as_full_as_the_skew_allows(total in 0..=12i64, parts in any_parts(), skew in 1..4i64) {
        let parts: Vec<Part> = parts.iter().map(|part| Part { min: 0, ..*part }).collect();
        let found = level(total, &parts, skew);
        prop_assert!(differ_by(&found) <= skew, "{:?}", found);
        prop_assert!(found.iter().zip(&parts).all(|(share, part)| (0..=part.max).contains(share)));
        let fits = |total: i64| all_divisions(total, &parts).into_iter().filter(|shares| differ_by(shares) <= skew);
        let most = (0..=total).rev().find(|total| fits(*total).next().is_some());
        prop_assert_eq!(Some(found.iter().sum::<i64>()), most, "{:?}", found);
        let fewest = fits(found.iter().sum()).map(|shares| moves(&shares, &parts)).min();
        prop_assert_eq!(Some(moves(&found, &parts)), fewest, "{:?}", found);
    }
}
