//! Clock abstraction, so that tests can control the time.

use std::time::{SystemTime, UNIX_EPOCH};

use atoll_meta::time::Timestamp;

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The system clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::new(since.as_secs().cast_signed(), since.subsec_nanos())
    }
}
