//! Token bucket rate limits. Times are durations since an arbitrary start, measured by a monotonic clock.

use std::collections::HashMap;
use std::time::Duration;

/// Maximum number of buckets; the rest is forgotten.
const MOST: usize = 4096;

/// A burst, and the interval after which one more event is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub burst: u32,
    pub every: Duration,
}

impl Rate {
    /// Returns how long to wait for one more event; `full` is the time at which the bucket is full again.
    fn wait(self, full: Duration, now: Duration) -> Duration {
        let most = self.every * (self.burst.max(1) - 1);
        full.saturating_sub(now).saturating_sub(most)
    }
}

/// Rate limits for each name and for all names together.
pub struct RateLimiter {
    each: Rate,
    all: Rate,
    /// Times at which the buckets are full again, by name.
    full: HashMap<String, Duration>,
    total: Duration,
}

impl RateLimiter {
    pub fn new(each: Rate, all: Rate) -> RateLimiter {
        RateLimiter { each, all, full: HashMap::new(), total: Duration::ZERO }
    }

    /// Takes a token for `name`, or returns how long to wait for it.
    pub fn take(&mut self, name: &str, now: Duration) -> Result<(), Duration> {
        if self.full.len() >= MOST && !self.full.contains_key(name) {
            self.full.retain(|_, full| *full > now);
            if self.full.len() >= MOST {
                self.full.clear();
            }
        }
        let own = self.full.get(name).copied().unwrap_or_default();
        let wait = self.each.wait(own, now).max(self.all.wait(self.total, now));
        if !wait.is_zero() {
            return Err(wait);
        }
        self.full.insert(name.to_string(), own.max(now) + self.each.every);
        self.total = self.total.max(now) + self.all.every;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_limited_per_name_and_in_total() {
        let seconds = Duration::from_secs;
        let each = Rate { burst: 3, every: seconds(10) };
        let mut limiter = RateLimiter::new(each, Rate { burst: 5, every: seconds(1) });
        for _ in 0..3 {
            assert_eq!(limiter.take("a", seconds(100)), Ok(()));
        }
        assert_eq!(limiter.take("a", seconds(100)), Err(seconds(10)));
        assert_eq!(limiter.take("b", seconds(100)), Ok(()));
        assert_eq!(limiter.take("c", seconds(100)), Ok(()));
        assert_eq!(limiter.take("d", seconds(100)), Err(seconds(1)), "the total limit is reached");
        assert_eq!(limiter.take("d", seconds(101)), Ok(()));
        assert_eq!(limiter.take("a", seconds(110)), Ok(()));
        assert!(limiter.take("a", seconds(110)).is_err());
        for number in 0..MOST * 2 {
            let _ = limiter.take(&number.to_string(), seconds(200 + number as u64));
        }
        assert!(limiter.full.len() <= MOST);
    }
}
