//! Apportionment: divides a number between parts by weight, moving as little as possible.
//!
//! A division is fair when no single replica could move to a part that deserves it more (the method of Webster
//! and Sainte-Laguë): part *i* with *s* replicas deserves the next one by *w / (2s + 1)*. Unlike the method of
//! the largest remainder, one more replica never takes one away from any part. Of several fair divisions, which
//! there are where parts deserve a replica equally, the one that moves the fewest is taken; then parts that
//! come first win.

mod jump;

use std::cmp::Ordering;

/// Most replicas that are divided one by one.
const MAX_STEPS: i64 = 1024;

/// One part of a division. Parts are in the order in which ties are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Greater than zero.
    pub weight: i64,
    pub min: i64,
    pub max: i64,
    /// Its present share.
    pub current: i64,
}

/// Divides a total between parts, within their bounds. The sum is smaller if all parts are at their maximum,
/// and larger if all are at their minimum. Without `balance`, parts keep what they have and only the difference
/// is divided.
pub fn apportion(total: i64, parts: &[Part], balance: bool) -> Vec<i64> {
    apportion_in(MAX_STEPS, total, parts, balance)
}

/// Like [`apportion`]: a total beyond `steps` is first divided by [`jump`], so that at most about `steps`
/// replicas are divided one by one.
fn apportion_in(steps: i64, total: i64, parts: &[Part], balance: bool) -> Vec<i64> {
    let mut division = Division::start(total, parts, balance);
    if total.max(division.sum) > steps {
        jump::to_vicinity(&mut division, (total, steps), balance);
    }
    while division.sum < total {
        let Some(to) = division.deserves_most() else { break };
        division.add(to, 1);
    }
    while division.sum > total {
        let Some(from) = division.deserves_least() else { break };
        division.add(from, -1);
    }
    if balance {
        while let (Some(from), Some(to)) = (division.deserves_least(), division.deserves_most())
            && division.is_unfair(from, to)
        {
            division.add(from, -1);
            division.add(to, 1);
        }
    }
    division.shares
}

struct Division<'a> {
    parts: &'a [Part],
    shares: Vec<i64>,
    sum: i64,
}

impl Division<'_> {
    fn start(total: i64, parts: &[Part], balance: bool) -> Division<'_> {
        let is_new = parts.iter().all(|part| part.current == 0);
        let weights: i128 = parts.iter().map(|part| i128::from(part.weight)).sum();
        let start = |part: &Part| {
            // A new division begins near its end, because it may be one of thousands of replicas.
            let quota = || i128::from(total) * i128::from(part.weight) / weights.max(1);
            let start = if is_new && balance { i64::try_from(quota()).unwrap_or(0) } else { part.current };
            start.max(part.min).min(part.max.max(part.min))
        };
        let shares: Vec<i64> = parts.iter().map(start).collect();
        Division { parts, sum: shares.iter().sum(), shares }
    }

    fn add(&mut self, at: usize, count: i64) {
        self.shares[at] += count;
        self.sum += count;
    }

    /// Compares `(2s + 1) / w` of two parts, with the shares given: the smaller one deserves a replica more.
    fn compare(&self, (one, share): (usize, i64), (other, other_share): (usize, i64)) -> Ordering {
        let side = |share: i64, weight: i64| (2 * i128::from(share) + 1) * i128::from(weight);
        side(share, self.parts[other].weight).cmp(&side(other_share, self.parts[one].weight))
    }

    /// The part that gets the next replica. Ties go to a part that has lost replicas, then to the first one.
    fn deserves_most(&self) -> Option<usize> {
        let shares = &self.shares;
        let returns = |at: usize| shares[at] < self.parts[at].current;
        let open = (0..shares.len()).filter(|at| shares[*at] < self.parts[*at].max);
        open.min_by(|one, other| {
            let order = self.compare((*one, shares[*one]), (*other, shares[*other]));
            order.then(returns(*other).cmp(&returns(*one))).then(one.cmp(other))
        })
    }

    /// The part that loses the next replica. Ties go to a part that has gained replicas, then to the last one.
    fn deserves_least(&self) -> Option<usize> {
        let shares = &self.shares;
        let gained = |at: usize| shares[at] > self.parts[at].current;
        let full = (0..shares.len()).filter(|at| shares[*at] > self.parts[*at].min);
        full.max_by(|one, other| {
            let order = self.compare((*one, shares[*one] - 1), (*other, shares[*other] - 1));
            order.then(gained(*one).cmp(&gained(*other))).then(one.cmp(other))
        })
    }

    /// Whether one replica should move.
    fn is_unfair(&self, from: usize, to: usize) -> bool {
        self.compare((from, self.shares[from] - 1), (to, self.shares[to])) == Ordering::Greater
    }
}

/// Divides a total between parts such that no two differ by more than `skew`. As many as possible are divided,
/// then as few as possible move. Minimums and weights do not count.
pub fn level(total: i64, parts: &[Part], skew: i64) -> Vec<i64> {
    let even: Vec<Part> = parts.iter().map(|part| Part { weight: 1, min: 0, ..*part }).collect();
    let highest = apportion(total, &even, true).into_iter().min().unwrap_or(0);
    // All parts are between a lowest one and that one plus the skew.
    let from = |lowest: i64| -> Vec<Part> {
        let most = lowest.saturating_add(skew);
        even.iter().map(|part| Part { min: lowest, max: part.max.min(most), ..*part }).collect()
    };
    let most = |lowest: i64| -> i64 { from(lowest).iter().map(|part| part.max).sum() };
    let needed = total.min(most(highest));
    let least = first(0, highest, |lowest| most(lowest) >= needed);
    let moves = |lowest: i64| -> i64 {
        let shares = apportion(total, &from(lowest), false);
        shares.iter().zip(&even).map(|(share, part)| (part.current - share).max(0)).sum()
    };
    // The number of moved replicas is a convex function of the smallest part, so it only rises after its last
    // minimum.
    let rises = first(least, highest, |lowest| moves(lowest + 1) > moves(lowest));
    apportion(total, &from(rises), false)
}

/// Returns the first number for which a condition holds, in a range where it holds for all later numbers, too.
/// Returns the last number if it holds for none.
fn first(mut from: i64, mut to: i64, holds: impl Fn(i64) -> bool) -> i64 {
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) { to = middle } else { from = middle + 1 }
    }
    from
}

#[cfg(test)]
mod tests;
