//! Which reports of a cluster count: one that was long under way must not undo what a later one has told.

use std::collections::VecDeque;

/// Runs that are remembered after others have taken their place.
const PAST: usize = 16;

/// What was heard of those who sync a cluster. Each time that one starts is a run, and its reports are numbered.
#[derive(Debug, Default)]
pub struct Order {
    run: u64,
    number: u64,
    past: VecDeque<u64>,
}

impl Order {
    /// Whether a report counts. One without a run always does: whoever sent it does not count.
    ///
    /// A run that another has followed is over. Who goes on nevertheless, having slept perhaps, begins a new one.
    pub fn admits(&mut self, run: u64, number: u64) -> bool {
        if run == 0 {
            return true;
        }
        if run == self.run {
            let is_newer = number > self.number;
            self.number = self.number.max(number);
            return is_newer;
        }
        if self.past.contains(&run) {
            return false;
        }
        if self.run != 0 {
            self.past.push_back(self.run);
            if self.past.len() > PAST {
                self.past.pop_front();
            }
        }
        (self.run, self.number) = (run, number);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_does_not_count() {
        let mut order = Order::default();
        for (run, number, expected, why) in [
            (7, 1, true, "the first"),
            (7, 2, true, "the next"),
            (7, 2, false, "twice the same"),
            (7, 5, true, "those between were lost"),
            (7, 4, false, "one of those, late"),
            (8, 1, true, "another has started"),
            (7, 6, false, "of the one before, late"),
            (8, 2, true, "it goes on"),
            (9, 3, true, "the one before has woken up and begun anew"),
            (8, 3, false, "and is followed"),
            (0, 0, true, "who does not count"),
            (9, 4, true, "which changes nothing"),
        ] {
            assert_eq!(order.admits(run, number), expected, "{why}");
        }
    }

    #[test]
    fn not_all_that_is_past_is_remembered() {
        let mut order = Order::default();
        for run in 1..=100 {
            assert!(order.admits(run, 1));
        }
        assert_eq!(order.past.len(), PAST);
        assert!(!order.admits(99, 2));
    }
}
