//! When statuses were last written. Clusters report a workload several times while its pods start, one after the other:
//! the first report is shown at once, and those that follow it quickly are written together.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two writes of a status.
const INTERVAL: Duration = Duration::from_millis(200);

#[derive(Default)]
pub struct RecentWrites(Mutex<State>);

#[derive(Default)]
struct State {
    /// By uid of the object.
    times: HashMap<String, Instant>,
    /// The same in the order of time.
    order: VecDeque<(Instant, String)>,
}

impl RecentWrites {
    /// Records that the status of an object was written.
    pub fn record(&self, uid: &str, now: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((time, old)) = state.order.pop_front_if(|(time, _)| *time + INTERVAL <= now) {
            if state.times.get(&old) == Some(&time) {
                state.times.remove(&old);
            }
        }
        state.times.insert(uid.to_string(), now);
        state.order.push_back((now, uid.to_string()));
    }

    /// The time until the status of an object may be written again, if it was written recently.
    pub fn time_left(&self, uid: &str, now: Instant) -> Option<Duration> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = (*state.times.get(uid)? + INTERVAL).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_that_were_just_written_wait() {
        let (writes, begun) = (RecentWrites::default(), Instant::now());
        let at = |milliseconds: u64| begun + Duration::from_millis(milliseconds);
        assert_eq!(writes.time_left("a", at(0)), None);
        writes.record("a", at(0));
        writes.record("b", at(100));
        assert_eq!(writes.time_left("a", at(50)), Some(Duration::from_millis(150)));
        assert_eq!((writes.time_left("a", at(200)), writes.time_left("c", at(200))), (None, None));
        writes.record("a", at(250));
        assert_eq!(writes.time_left("b", at(250)), Some(Duration::from_millis(50)));
        writes.record("c", at(350));
        let state = writes.0.lock().unwrap();
        assert_eq!((state.times.len(), state.order.len()), (2, 2), "old ones are forgotten");
    }
}
