//! A cluster that fails again and again is not believed at once when it is well again.

use std::collections::VecDeque;
use std::time::Duration;

use atoll_meta::time::Timestamp;
use tokio::time::Instant;

/// Failures that long ago do not count any more.
const WINDOW: Duration = Duration::from_secs(600);
/// So many within that time are nothing unusual.
const USUAL: usize = 3;
/// So many are remembered; waiting does not get longer from there.
const MOST: usize = 16;

#[derive(Default)]
pub struct Damping {
    is_well: Option<bool>,
    /// When it failed, of late.
    falls: VecDeque<(Instant, Timestamp)>,
    /// Since when it is well, and until when that is not believed.
    steady: Option<Steady>,
}

struct Steady {
    until: Instant,
    held: Held,
}

/// That it is well is not believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub left: Duration,
    /// How often it failed, and since when.
    pub falls: usize,
    pub since: Timestamp,
    pub until: Timestamp,
}

impl Damping {
    /// Takes note of whether a cluster is well. Waiting begins with `first` and doubles with each failure. Times are by our own
    /// watch; the clock is only for what people read.
    pub fn judge(&mut self, is_well: bool, first: Duration, clock: Timestamp) -> Option<Held> {
        let now = Instant::now();
        while self.falls.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.falls.pop_front();
        }
        let was_well = self.is_well.replace(is_well);
        if !is_well {
            self.steady = None;
            if was_well == Some(true) {
                self.falls.push_back((now, clock));
                if self.falls.len() > MOST {
                    self.falls.pop_front();
                }
            }
            return None;
        }
        if was_well == Some(false) {
            self.steady = self.hold(first, now, clock);
        }
        let steady = self.steady.as_ref()?;
        let left = steady.until.saturating_duration_since(now);
        if left.is_zero() {
            self.steady = None;
            return None;
        }
        Some(Held { left, ..steady.held.clone() })
    }

    fn hold(&self, first: Duration, now: Instant, clock: Timestamp) -> Option<Steady> {
        let beyond = self.falls.len().checked_sub(USUAL + 1)?;
        let (_, since) = self.falls.front()?;
        let left = first.saturating_mul(1 << beyond.min(MOST)).min(WINDOW);
        let until = Timestamp::new(clock.seconds.saturating_add(left.as_secs().cast_signed()), clock.nanos);
        let held = Held { left, falls: self.falls.len(), since: *since, until };
        Some(Steady { until: now + left, held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(40);

    #[tokio::test(start_paused = true)]
    async fn who_fails_often_waits_longer_and_longer() {
        let mut damping = Damping::default();
        let began = Instant::now();
        // The clock goes back by days: nothing depends on it.
        let judge = |damping: &mut Damping, is_well: bool| {
            let clock = Timestamp::new(1_000_000 - began.elapsed().as_secs().cast_signed() * 1000, 0);
            damping.judge(is_well, FIRST, clock).map(|held| held.left.as_secs())
        };
        let pass = async |seconds: u64| tokio::time::advance(Duration::from_secs(seconds)).await;
        // One that has never been well has not failed.
        assert_eq!(judge(&mut damping, false), None);
        assert_eq!(judge(&mut damping, true), None);
        for expected in [None, None, None, Some(40), Some(80), Some(160)] {
            pass(5).await;
            assert_eq!(judge(&mut damping, false), None);
            pass(5).await;
            assert_eq!(judge(&mut damping, true), expected);
        }
        pass(159).await;
        assert_eq!(judge(&mut damping, true), Some(1));
        pass(1).await;
        assert_eq!(judge(&mut damping, true), None, "it was steady for long enough");
        // A failure meanwhile begins it anew, and longer.
        for expected in [Some(320), Some(600)] {
            assert_eq!(judge(&mut damping, false), None);
            assert_eq!(judge(&mut damping, true), expected);
            pass(100).await;
        }
        // After a quiet while all is forgotten.
        pass(600).await;
        assert_eq!(judge(&mut damping, true), None);
        assert_eq!(judge(&mut damping, false), None);
        assert_eq!(judge(&mut damping, true), None);
    }
}
