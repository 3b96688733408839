//! The cap on automatic moves: how many objects may move within an hour for the sake of balance only.

use std::collections::VecDeque;

const HOUR: i64 = 3600;
/// The least cap, in objects.
const LEAST: usize = 60;
/// The fraction of all objects that may move, if that is more than the least cap.
const PART: usize = 10;

/// Times, in seconds, at which objects began to move within the last hour.
#[derive(Debug, Default)]
pub struct HourlyCap(VecDeque<i64>);

impl HourlyCap {
    /// Whether no object has begun to move within the last hour.
    pub fn is_unused(&self, now: i64) -> bool {
        self.0.back().is_none_or(|begun| begun.saturating_add(HOUR) <= now)
    }

    /// Counts a move of one of so many objects, or returns when the next one is allowed.
    pub fn begin(&mut self, now: i64, objects: usize) -> Result<(), i64> {
        while self.0.front().is_some_and(|begun| begun.saturating_add(HOUR) <= now) {
            self.0.pop_front();
        }
        if self.0.len() < (objects / PART).max(LEAST) {
            self.0.push_back(now);
            return Ok(());
        }
        Err(self.0.front().map_or(now, |begun| begun.saturating_add(HOUR)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_objects_or_a_tenth_move_within_an_hour() {
        let mut cap = HourlyCap::default();
        for move_number in 0..60 {
            assert_eq!(cap.begin(move_number, 100), Ok(()));
        }
        assert_eq!(cap.begin(60, 100), Err(3600));
        assert_eq!(cap.begin(60, 700), Ok(()), "more objects, more moves");
        assert_eq!(cap.begin(3600, 100), Err(3601), "61 have begun, and one of them an hour ago");
        assert_eq!(cap.begin(3601, 100), Ok(()));
    }
}
