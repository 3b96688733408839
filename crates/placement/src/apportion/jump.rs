//! Division of very many replicas: computes a state from which few single steps are left.
//!
//! A part with weight *w* deserves as many replicas as have *(2s + 1) / w* up to a level. The level at which all
//! parts together have the total is found by bisection, so that the time does not depend on the total.

use super::{Division, Part};

/// Brings a division to a state in which at most one step for each part is left, unless it needs no more than
/// `steps` steps anyway.
pub fn to_vicinity(division: &mut Division<'_>, (total, steps): (i64, i64), balance: bool) {
    let levels = Levels::of(division.parts, total);
    let shares: Vec<i64> = if balance {
        let level = levels.last(|level| levels.sum(|at| levels.share(at, level)) <= i128::from(total));
        let near = |(at, share): (usize, &i64)| {
            (*share).clamp(levels.share(at, level), levels.share(at, level.saturating_add(1)))
        };
        division.shares.iter().enumerate().map(near).collect()
    } else if division.sum < total {
        // No part loses replicas.
        let more = |at: usize, level: i128| levels.share(at, level).max(division.shares[at]);
        let level = levels.last(|level| levels.sum(|at| more(at, level)) <= i128::from(total));
        (0..division.shares.len()).map(|at| more(at, level)).collect()
    } else {
        let fewer = |at: usize, level: i128| levels.share(at, level).min(division.shares[at]);
        let level = levels.last(|level| levels.sum(|at| fewer(at, level)) < i128::from(total));
        (0..division.shares.len()).map(|at| fewer(at, level.saturating_add(1))).collect()
    };
    let distance = |(from, to): (&i64, &i64)| from.abs_diff(*to);
    let distance = division.shares.iter().zip(&shares).map(distance).fold(0u64, u64::saturating_add);
    if distance > steps.unsigned_abs() {
        division.sum = shares.iter().fold(0i64, |sum, share| sum.saturating_add(*share));
        division.shares = shares;
    }
}

struct Levels<'a> {
    parts: &'a [Part],
    /// Number of units of a level. One unit adds at most one replica to each part.
    unit: i128,
    /// A level at which each part deserves more than the total.
    highest: i128,
}

impl Levels<'_> {
    fn of(parts: &[Part], total: i64) -> Levels<'_> {
        let unit = parts.iter().map(|part| i128::from(part.weight)).max().unwrap_or(1).max(1);
        Levels { parts, unit, highest: (i128::from(total) + 1).saturating_mul(unit) }
    }

    /// The replicas that a part deserves at a level, within its bounds.
    fn share(&self, at: usize, level: i128) -> i64 {
        let part = &self.parts[at];
        let twice = level.saturating_mul(i128::from(part.weight).saturating_mul(2));
        let share = i64::try_from(twice.saturating_add(self.unit) / (2 * self.unit)).unwrap_or(i64::MAX);
        share.clamp(part.min, part.max.max(part.min))
    }

    fn sum(&self, share: impl Fn(usize) -> i64) -> i128 {
        (0..self.parts.len()).map(|at| i128::from(share(at))).sum()
    }

    /// The last level for which a condition holds, where it holds for all lower levels, too. The lowest level
    /// if it holds for none.
    fn last(&self, holds: impl Fn(i128) -> bool) -> i128 {
        let (mut low, mut high) = (0, self.highest);
        while low < high {
            let middle = low + (high - low + 1) / 2;
            if holds(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }
}
