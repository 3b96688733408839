//! The source of time of servers, controllers and syncers, so that simulations and tests can set it.
//!
//! ```text
//! Clock ─┬─ SystemClock           default
//!        └─ simulations, tests    skewed or set clocks
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use atoll_meta::time::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// Seconds since 1970.
    fn seconds(&self) -> i64 {
        self.now().seconds
    }

    /// Number of seconds by which it is ahead of the system clock.
    fn skew(&self) -> i64 {
        0
    }
}

/// The system clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::new(since.as_secs().cast_signed(), since.subsec_nanos())
    }
}
