//! The cap on automatic moves: how many objects may move within an hour for the sake of balance only. An object counts
//! once, however many writes and replicas its moves take.

use std::collections::HashMap;

use atoll_informer::Key;

const HOUR: i64 = 3600;
/// The least cap, in objects.
const LEAST: usize = 60;
/// The fraction of all objects that may move, if that is more than the least cap.
const PART: usize = 10;

/// Queue keys of the objects that began to move within the last hour, with the time, in seconds, at which each last did.
#[derive(Debug, Default)]
pub struct HourlyCap(HashMap<Key, i64>);

impl HourlyCap {
    /// Whether no object has begun to move within the last hour.
    pub fn is_unused(&self, now: i64) -> bool {
        self.0.values().all(|started_at| has_passed(*started_at, now))
    }

    /// Counts an object that moves, or returns when the next one is allowed. `objects` is the number of all objects.
    pub fn begin(&mut self, key: &Key, now: i64, objects: usize) -> Result<(), i64> {
        self.0.retain(|_, started_at| !has_passed(*started_at, now));
        if self.0.contains_key(key) || self.0.len() < (objects / PART).max(LEAST) {
            self.0.insert(key.clone(), now);
            return Ok(());
        }
        Err(self.0.values().min().map_or(now, |started_at| started_at.saturating_add(HOUR)))
    }
}

fn has_passed(started_at: i64, now: i64) -> bool {
    started_at.saturating_add(HOUR) <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: i64) -> Key {
        Key::new("w", "2/n", &number.to_string())
    }

    #[test]
    fn sixty_objects_or_a_tenth_move_within_an_hour() {
        let mut cap = HourlyCap::default();
        for number in 0..60 {
            assert_eq!(cap.begin(&object(number), number, 100), Ok(()));
        }
        assert_eq!(cap.begin(&object(60), 60, 100), Err(3600));
        assert_eq!(cap.begin(&object(60), 60, 700), Ok(()), "more objects, more moves");
        assert_eq!(cap.begin(&object(61), 3600, 100), Err(3601), "60 have begun within the last hour");
        assert_eq!(cap.begin(&object(61), 3601, 100), Ok(()));
        assert!(!cap.is_unused(3700) && cap.is_unused(7300));
    }

    #[test]
    fn an_object_counts_once() {
        let mut cap = HourlyCap::default();
        assert!((0..500).all(|now| cap.begin(&object(0), now, 0).is_ok()));
        assert!((1..60).all(|number| cap.begin(&object(number), 500, 0).is_ok()));
        assert_eq!(cap.begin(&object(60), 500, 0), Err(499 + HOUR));
        assert_eq!(cap.begin(&object(1), 600, 0), Ok(()), "it moves on");
    }
}
