//! How much may be told: some at once, and then so much in a time. Times are since any beginning, by a watch that never goes
//! back.

use std::collections::HashMap;
use std::time::Duration;

/// So many are kept account of; then it begins anew.
const MOST: usize = 4096;

/// What may be told at once, and how soon one more may be.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub burst: u32,
    pub every: Duration,
}

impl Rate {
    /// How long it takes until one more is allowed, where all are allowed again at `full`.
    fn wait(self, full: Duration, now: Duration) -> Duration {
        let most = self.every * (self.burst.max(1) - 1);
        full.saturating_sub(now).saturating_sub(most)
    }
}

/// For each of many, and for all together.
pub struct Allowances {
    each: Rate,
    all: Rate,
    /// When each has all of it again.
    full: HashMap<String, Duration>,
    together: Duration,
}

impl Allowances {
    pub fn new(each: Rate, all: Rate) -> Allowances {
        Allowances { each, all, full: HashMap::new(), together: Duration::ZERO }
    }

    /// Takes one for `name`, or says how long to wait for that.
    pub fn take(&mut self, name: &str, now: Duration) -> Result<(), Duration> {
        if self.full.len() >= MOST && !self.full.contains_key(name) {
            self.full.retain(|_, full| *full > now);
            if self.full.len() >= MOST {
                self.full.clear();
            }
        }
        let own = self.full.get(name).copied().unwrap_or_default();
        let wait = self.each.wait(own, now).max(self.all.wait(self.together, now));
        if !wait.is_zero() {
            return Err(wait);
        }
        self.full.insert(name.to_string(), own.max(now) + self.each.every);
        self.together = self.together.max(now) + self.all.every;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_says_more_than_its_share() {
        let seconds = Duration::from_secs;
        let each = Rate { burst: 3, every: seconds(10) };
        let mut allowances = Allowances::new(each, Rate { burst: 5, every: seconds(1) });
        for _ in 0..3 {
            assert_eq!(allowances.take("a", seconds(100)), Ok(()));
        }
        assert_eq!(allowances.take("a", seconds(100)), Err(seconds(10)));
        assert_eq!(allowances.take("b", seconds(100)), Ok(()));
        assert_eq!(allowances.take("c", seconds(100)), Ok(()));
        assert_eq!(allowances.take("d", seconds(100)), Err(seconds(1)), "all together have said enough");
        assert_eq!(allowances.take("d", seconds(101)), Ok(()));
        assert_eq!(allowances.take("a", seconds(110)), Ok(()));
        assert!(allowances.take("a", seconds(110)).is_err());
        for number in 0..MOST * 2 {
            let _ = allowances.take(&number.to_string(), seconds(200 + number as u64));
        }
        assert!(allowances.full.len() <= MOST);
    }
}
