//! Jobs divided between clusters: completions, and the parallelism that goes with them.

use crate::apportion::{Part, apportion};

/// Divides the parallelism of a Job by completions. A cluster with completions runs at least one pod at a
/// time, no more than it has completions, and no more than it has room for, unless that is none. `shares` are
/// completions and room.
pub fn divide_parallelism(parallelism: i64, shares: &[(i64, i64)]) -> Vec<i64> {
    if parallelism <= 0 {
        return vec![0; shares.len()];
    }
    let part = |(completions, room): &(i64, i64)| Part {
        weight: (*completions).max(1),
        min: (*completions).min(1),
        max: (*completions).min((*room).max(1)),
        current: 0,
    };
    let parts: Vec<Part> = shares.iter().map(part).collect();
    apportion(parallelism, &parts, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallelism_follows_completions() {
        for (parallelism, shares, expected) in [
            (3, &[(4, 9), (3, 9), (3, 9)][..], &[1, 1, 1][..]),
            (10, &[(4, 9), (3, 9), (3, 9)], &[4, 3, 3]),
            (50, &[(4, 9), (3, 9), (3, 9)], &[4, 3, 3]),
            (5, &[(4, 1), (6, 9)], &[1, 4]),
            (5, &[(4, 0), (6, 0)], &[1, 1]),
            (1, &[(4, 9), (6, 9)], &[1, 1]),
            (0, &[(4, 9), (6, 9)], &[0, 0]),
        ] {
            assert_eq!(divide_parallelism(parallelism, shares), expected, "{parallelism} {shares:?}");
        }
    }
}
