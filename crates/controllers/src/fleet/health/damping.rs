//! Flap damping: a cluster that fails repeatedly becomes ready again only after a delay.

use std::collections::VecDeque;
use std::time::Duration;

use atoll_fleet::ClusterView;
use atoll_meta::time::{self, Timestamp};
use atoll_meta::views::ConditionView;
use serde_json::Value;
use tokio::time::Instant;

/// Failures older than this are forgotten.
const WINDOW: Duration = Duration::from_secs(600);
/// Number of failures within the window that cause no delay.
const TOLERATED_FAILURES: usize = 3;
/// Maximum number of remembered failures; the delay does not grow beyond it.
const MAX_FAILURES: usize = 16;

/// Field in the status of a Cluster: times of recent failures.
const FAILURES: &str = "failures";

#[derive(Default)]
pub struct Damping {
    is_healthy: Option<bool>,
    /// Times of recent failures, by the monotonic and the wall clock.
    failures: VecDeque<(Instant, Timestamp)>,
    /// The last failure, whenever it was.
    last: Option<Timestamp>,
    /// The current delay, if the cluster recovered from too many failures.
    delay: Option<Delay>,
}

struct Delay {
    until: Instant,
    info: DelayInfo,
}

/// A delay before a recovered cluster is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayInfo {
    pub left: Duration,
    /// Number of failures, and the time of the first one.
    pub failures: usize,
    pub since: Timestamp,
    pub until: Timestamp,
}

impl Damping {
    /// Restores the damping state from the status of a Cluster, so that a restart does not end a delay. Ages
    /// are computed by the wall clock and limited to the window.
    pub fn restore(cluster: &Value, clock: Timestamp) -> Damping {
        let now = Instant::now();
        let times = cluster["status"][FAILURES].as_array().into_iter().flatten();
        let times: Vec<Timestamp> = times.filter_map(|text| time::parse(text.as_str()?).ok()).collect();
        let last = times.iter().max().copied();
        let mut failures: VecDeque<(Instant, Timestamp)> = times
            .into_iter()
            .filter_map(|at| {
                let ago = clock.seconds.saturating_sub(at.seconds).max(0).unsigned_abs();
                let ago = Some(Duration::from_secs(ago)).filter(|ago| *ago < WINDOW)?;
                Some((now.checked_sub(ago).unwrap_or(now), at))
            })
            .collect();
        failures.make_contiguous().sort_unstable();
        failures.drain(..failures.len().saturating_sub(MAX_FAILURES));
        let is_healthy = ClusterView::of(cluster).condition("Ready").map(ConditionView::is_true);
        Damping { is_healthy, failures, last, delay: None }
    }

    /// Stores the failures in the status of a Cluster. The last one stays: a cluster that has failed does not join when
    /// it becomes ready again.
    pub fn store(&self, cluster: &mut Value) {
        let recent = self.failures.iter().map(|(_, at)| *at);
        let last = self.last.filter(|_| self.failures.is_empty());
        let times: Vec<Value> = recent.chain(last).map(|at| at.to_time().into()).collect();
        match (times.is_empty(), cluster["status"].as_object_mut()) {
            (true, Some(status)) => drop(status.remove(FAILURES)),
            (true, None) => {}
            (false, _) => cluster["status"][FAILURES] = times.into(),
        }
    }

    /// Records whether a cluster is healthy. Returns the delay, which starts with `first` and doubles with
    /// each failure. Durations use the monotonic clock; the wall clock is for messages only.
    pub fn observe(&mut self, is_healthy: bool, first: Duration, clock: Timestamp) -> Option<DelayInfo> {
        let now = Instant::now();
        while self.failures.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.failures.pop_front();
        }
        let was_healthy = self.is_healthy.replace(is_healthy);
        if !is_healthy {
            self.delay = None;
            if was_healthy == Some(true) {
                self.failures.push_back((now, clock));
                self.last = Some(clock);
                if self.failures.len() > MAX_FAILURES {
                    self.failures.pop_front();
                }
            }
            return None;
        }
        if was_healthy == Some(false) {
            self.delay = self.new_delay(first, now, clock);
        }
        let delay = self.delay.as_ref()?;
        let left = delay.until.saturating_duration_since(now);
        if left.is_zero() {
            self.delay = None;
            return None;
        }
        Some(DelayInfo { left, ..delay.info.clone() })
    }

    fn new_delay(&self, first: Duration, now: Instant, clock: Timestamp) -> Option<Delay> {
        let beyond = self.failures.len().checked_sub(TOLERATED_FAILURES + 1)?;
        let (_, since) = self.failures.front()?;
        let left = first.saturating_mul(1 << beyond.min(MAX_FAILURES)).min(WINDOW);
        let until = Timestamp::new(clock.seconds.saturating_add(left.as_secs().cast_signed()), clock.nanos);
        let info = DelayInfo { left, failures: self.failures.len(), since: *since, until };
        Some(Delay { until: now + left, info })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(40);

    #[tokio::test(start_paused = true)]
    async fn repeated_failures_double_the_delay() {
        let mut damping = Damping::default();
        let start = Instant::now();
        // The wall clock goes back by days, which has no effect.
        let observe = |damping: &mut Damping, is_healthy: bool| {
            let clock = Timestamp::new(1_000_000 - start.elapsed().as_secs().cast_signed() * 1000, 0);
            damping.observe(is_healthy, FIRST, clock).map(|info| info.left.as_secs())
        };
        let pass = async |seconds: u64| tokio::time::advance(Duration::from_secs(seconds)).await;
        // A cluster that was never healthy has not failed.
        assert_eq!(observe(&mut damping, false), None);
        assert_eq!(observe(&mut damping, true), None);
        for expected in [None, None, None, Some(40), Some(80), Some(160)] {
            pass(5).await;
            assert_eq!(observe(&mut damping, false), None);
            pass(5).await;
            assert_eq!(observe(&mut damping, true), expected);
        }
        pass(159).await;
        assert_eq!(observe(&mut damping, true), Some(1));
        pass(1).await;
        assert_eq!(observe(&mut damping, true), None, "the delay is over");
        // A failure during the delay starts a longer delay.
        for expected in [Some(320), Some(600)] {
            assert_eq!(observe(&mut damping, false), None);
            assert_eq!(observe(&mut damping, true), expected);
            pass(100).await;
        }
        // After the window all failures are forgotten.
        pass(600).await;
        assert_eq!(observe(&mut damping, true), None);
        assert_eq!(observe(&mut damping, false), None);
        assert_eq!(observe(&mut damping, true), None);
    }
    #[tokio::test(start_paused = true)]
    async fn damping_survives_a_restart() {
        let clock = |seconds: i64| Timestamp::new(1_000_000 + seconds, 0);
        let mut cluster =
            serde_json::json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        let mut damping = Damping::restore(&cluster, clock(0));
        damping.store(&mut cluster);
        assert_eq!(cluster["status"].get(FAILURES), None);
        for fall in 0..4 {
            assert_eq!(damping.observe(false, FIRST, clock(fall)), None);
            damping.observe(true, FIRST, clock(fall));
        }
        damping.store(&mut cluster);
        assert_eq!(cluster["status"][FAILURES].as_array().unwrap().len(), 4);
        let observed = |status: &str, at: Timestamp| {
            let mut cluster = cluster.clone();
            cluster["status"]["conditions"][0]["status"] = status.into();
            let mut damping = Damping::restore(&cluster, at);
            let first = damping.observe(true, FIRST, at).map(|info| (info.left.as_secs(), info.failures));
            damping.observe(false, FIRST, at);
            (first, damping.observe(true, FIRST, at).map(|info| info.left.as_secs()))
        };
        // The delay continues after a restart, and the next failure doubles it.
        assert_eq!(observed("False", clock(10)), (Some((40, 4)), Some(80)));
        assert_eq!(observed("True", clock(10)), (None, Some(80)));
        // After the window all failures are forgotten; a clock that was set back does not extend it.
        assert_eq!(observed("False", clock(603)), (None, None));
        assert_eq!(observed("False", clock(-1_000_000)), (Some((40, 4)), Some(80)));
        // But it stays known that there was one, also after the next restart.
        let mut old = cluster.clone();
        for _ in 0..2 {
            Damping::restore(&old, clock(9000)).store(&mut old);
            assert_eq!(old["status"][FAILURES], serde_json::json!([clock(3).to_time()]));
        }
        // Invalid or too long lists of times are ignored or truncated.
        let many: Vec<Value> = (0..50).map(|second| clock(second).to_time().into()).collect();
        let mut oversized = serde_json::json!({ "status": { "failures": many } });
        Damping::restore(&oversized, clock(60)).store(&mut oversized);
        assert_eq!(oversized["status"][FAILURES].as_array().unwrap().len(), MAX_FAILURES);
        assert_eq!(oversized["status"][FAILURES][15], clock(49).to_time());
        for nonsense in [serde_json::json!("x"), serde_json::json!([1, "soon", {}]), Value::Null] {
            let mut cluster = serde_json::json!({ "status": { "failures": nonsense } });
            let damping = Damping::restore(&cluster, clock(0));
            assert!(damping.failures.is_empty());
            damping.store(&mut cluster);
            assert_eq!(cluster["status"].get(FAILURES), None);
        }
    }
}
