//! A cluster that fails again and again is not believed at once when it is well again.

use std::collections::VecDeque;
use std::time::Duration;

use atoll_meta::time::{self, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use crate::conditions;

/// Failures that long ago do not count any more.
const WINDOW: Duration = Duration::from_secs(600);
/// So many within that time are nothing unusual.
const USUAL: usize = 3;
/// So many are remembered; waiting does not get longer from there.
const MOST: usize = 16;

/// In the status of a Cluster: when it failed, of late.
const FAILURES: &str = "failures";

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
    /// As the status of a Cluster tells it: whoever looked before has written it there, and a restart is no reason to believe
    /// somebody who was not believed. Only how long ago something was is by the clock, and never more or less than matters.
    pub fn recall(cluster: &Value, clock: Timestamp) -> Damping {
        let now = Instant::now();
        let times = cluster["status"][FAILURES].as_array().into_iter().flatten();
        let times = times.filter_map(|text| time::parse(text.as_str()?).ok());
        let mut falls: VecDeque<(Instant, Timestamp)> = times
            .filter_map(|at| {
                let ago = clock.seconds.saturating_sub(at.seconds).max(0).unsigned_abs();
                let ago = Some(Duration::from_secs(ago)).filter(|ago| *ago < WINDOW)?;
                Some((now.checked_sub(ago).unwrap_or(now), at))
            })
            .collect();
        falls.make_contiguous().sort_unstable();
        falls.drain(..falls.len().saturating_sub(MOST));
        let is_well = conditions::find(cluster, "Ready").map(|ready| ready["status"] == "True");
        Damping { is_well, falls, steady: None }
    }

    /// Leaves that in the status of a Cluster.
    pub fn leave(&self, cluster: &mut Value) {
        let times: Vec<Value> = self.falls.iter().map(|(_, at)| at.to_time().into()).collect();
        match (times.is_empty(), cluster["status"].as_object_mut()) {
            (true, Some(status)) => drop(status.remove(FAILURES)),
            (true, None) => {}
            (false, _) => cluster["status"][FAILURES] = times.into(),
        }
    }

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
    #[tokio::test(start_paused = true)]
    async fn a_restart_is_no_reason_to_believe_anybody() {
        let clock = |seconds: i64| Timestamp::new(1_000_000 + seconds, 0);
        let mut cluster =
            serde_json::json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        let mut damping = Damping::recall(&cluster, clock(0));
        damping.leave(&mut cluster);
        assert_eq!(cluster["status"].get(FAILURES), None);
        for fall in 0..4 {
            assert_eq!(damping.judge(false, FIRST, clock(fall)), None);
            damping.judge(true, FIRST, clock(fall));
        }
        damping.leave(&mut cluster);
        assert_eq!(cluster["status"][FAILURES].as_array().unwrap().len(), 4);
        let judged = |status: &str, at: Timestamp| {
            let mut cluster = cluster.clone();
            cluster["status"]["conditions"][0]["status"] = status.into();
            let mut damping = Damping::recall(&cluster, at);
            let first = damping.judge(true, FIRST, at).map(|held| (held.left.as_secs(), held.falls));
            damping.judge(false, FIRST, at);
            (first, damping.judge(true, FIRST, at).map(|held| held.left.as_secs()))
        };
        // One that was not believed is not believed, and its next failure is one more.
        assert_eq!(judged("False", clock(10)), (Some((40, 4)), Some(80)));
        assert_eq!(judged("True", clock(10)), (None, Some(80)));
        // After a while all is forgotten; a clock that was set back makes it no longer than that.
        assert_eq!(judged("False", clock(603)), (None, None));
        assert_eq!(judged("False", clock(-1_000_000)), (Some((40, 4)), Some(80)));
        // Nobody can make it long, or anything but times.
        let many: Vec<Value> = (0..50).map(|second| clock(second).to_time().into()).collect();
        let mut stuffed = serde_json::json!({ "status": { "failures": many } });
        Damping::recall(&stuffed, clock(60)).leave(&mut stuffed);
        assert_eq!(stuffed["status"][FAILURES].as_array().unwrap().len(), MOST);
        assert_eq!(stuffed["status"][FAILURES][15], clock(49).to_time());
        for nonsense in [serde_json::json!("x"), serde_json::json!([1, "soon", {}]), Value::Null] {
            let mut cluster = serde_json::json!({ "status": { "failures": nonsense } });
            let damping = Damping::recall(&cluster, clock(0));
            assert!(damping.falls.is_empty());
            damping.leave(&mut cluster);
            assert_eq!(cluster["status"].get(FAILURES), None);
        }
    }
}
