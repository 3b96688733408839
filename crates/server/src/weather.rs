//! What a simulated network does to those who come from outside: answers are late or get lost, connections hang or are
//! refused, and parts of the API seem not to be there.
//!
//! A server without weather pays nothing for it. Whoever is in the same process does not come by the network and
//! notices none of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use bytes::Bytes;

use crate::body::Body;

/// A group and one of its versions.
pub type GroupVersion = (String, String);

/// How it is just now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// How late answers and events of watches are.
    pub latency: Duration,
    /// How much later than that they may be, by chance.
    pub jitter: Duration,
    /// Which part of connections, answers and events gets lost, and the connection with them: 0 to 1.
    pub loss: f64,
    /// Nothing gets through, in either direction, and nobody is told.
    pub is_cut: bool,
    /// Nobody is there: connections are reset, new ones refused.
    pub is_down: bool,
    /// What seems not to be served, in order.
    pub hidden: Arc<[GroupVersion]>,
    /// Whether there seem to be no workspaces.
    pub is_plain: bool,
}

impl Conditions {
    pub fn hides(&self, group: &str, version: &str) -> bool {
        self.hidden.iter().any(|(hidden, of)| hidden == group && of == version)
    }
}

/// The weather as those see it who are in it.
#[derive(Clone)]
pub struct Weather {
    conditions: watch::Receiver<Arc<Conditions>>,
    dice: Arc<AtomicU64>,
}

impl Weather {
    /// `seed` decides what gets lost.
    pub fn new(conditions: watch::Receiver<Arc<Conditions>>, seed: u64) -> Self {
        Weather { conditions, dice: Arc::new(AtomicU64::new(seed)) }
    }

    pub fn now(&self) -> Arc<Conditions> {
        self.conditions.borrow().clone()
    }

    /// Returns when `fits` is true of the weather. One that no longer changes stays as it is.
    pub async fn until(&self, fits: impl FnMut(&Arc<Conditions>) -> bool) {
        if self.conditions.clone().wait_for(fits).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// A number from 0 to 1.
    fn chance(&self) -> f64 {
        // SplitMix64: each step of the counter is scrambled by itself, so that threads need not agree.
        let mut mixed = self.dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether what is being sent gets lost.
    pub fn loses(&self) -> bool {
        let loss = self.conditions.borrow().loss;
        loss > 0.0 && self.chance() < loss
    }

    /// How long what is being sent takes.
    pub fn delay(&self) -> Duration {
        let (latency, jitter) = {
            let conditions = self.conditions.borrow();
            (conditions.latency, conditions.jitter)
        };
        if jitter.is_zero() { latency } else { latency + jitter.mul_f64(self.chance()) }
    }
}

/// One connection in the weather.
pub(crate) struct Exposure {
    pub weather: Weather,
    reset: AtomicBool,
    lost: Notify,
}

/// How many events of a watch may be under way at once.
const UNDER_WAY: usize = 256;

impl Exposure {
    pub fn new(weather: Weather) -> Arc<Self> {
        Arc::new(Exposure { weather, reset: AtomicBool::new(false), lost: Notify::new() })
    }

    /// Whether the connection ends without a farewell.
    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Acquire) || self.weather.conditions.borrow().is_down
    }

    /// Ends the connection.
    pub fn reset(&self) {
        self.reset.store(true, Ordering::Release);
        self.lost.notify_one();
    }

    /// Returns when the connection is to end without a farewell.
    pub async fn lost(&self) {
        tokio::select! {
            () = self.lost.notified() => {}
            () = self.weather.until(|conditions| conditions.is_down) => {}
        }
    }

    /// An answer on its way: late, or never. The request was carried out all the same, as happens when answers get lost.
    pub async fn carry(self: Arc<Self>, response: http::Response<Body>) -> http::Response<Body> {
        let delay = self.weather.delay();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if self.weather.loses() {
            self.reset();
            std::future::pending::<()>().await;
        }
        response.map(|body| match body {
            Body::Stream(events) => {
                let (sender, receiver) = mpsc::channel(1);
                tokio::spawn(self.carry_events(events, sender));
                Body::Stream(receiver)
            }
            whole => whole,
        })
    }

    /// Events take their time each, and not after each other.
    async fn carry_events(self: Arc<Self>, mut events: mpsc::Receiver<Bytes>, to: mpsc::Sender<Bytes>) {
        let mut queue: std::collections::VecDeque<(Instant, Bytes)> = std::collections::VecDeque::new();
        let mut is_open = true;
        while is_open || !queue.is_empty() {
            let due = queue.front().map_or_else(Instant::now, |(due, _)| *due);
            tokio::select! {
                event = events.recv(), if is_open && queue.len() < UNDER_WAY => match event {
                    Some(event) => queue.push_back((Instant::now() + self.weather.delay(), event)),
                    None => is_open = false,
                },
                () = sleep_until(due), if !queue.is_empty() => {
                    if self.weather.loses() {
                        return self.reset();
                    }
                    let Some((_, event)) = queue.pop_front() else { continue };
                    if to.send(event).await.is_err() {
                        return;
                    }
                }
                () = to.closed() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weather(conditions: Conditions) -> (watch::Sender<Arc<Conditions>>, Weather) {
        let (sender, receiver) = watch::channel(Arc::new(conditions));
        (sender, Weather::new(receiver, 7))
    }

    #[test]
    fn as_much_gets_lost_as_is_said() {
        for (loss, expected) in [(0.0, 0..=0), (0.2, 150..=250), (0.5, 430..=570), (1.0, 1000..=1000)] {
            let (_sender, weather) = weather(Conditions { loss, ..Conditions::default() });
            let lost = (0..1000).filter(|_| weather.loses()).count();
            assert!(expected.contains(&lost), "{lost} of 1000 at {loss}");
        }
    }

    #[test]
    fn delays_stay_within_their_bounds() {
        let (latency, jitter) = (Duration::from_millis(200), Duration::from_millis(100));
        let (_sender, weather) = weather(Conditions { latency, jitter, ..Conditions::default() });
        let delays: Vec<Duration> = (0..100).map(|_| weather.delay()).collect();
        assert!(delays.iter().all(|delay| (latency..latency + jitter).contains(delay)), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay > latency + jitter / 2));
        assert!(delays.iter().any(|delay| *delay < latency + jitter / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_late_one_by_one_and_stay_in_order() {
        let latency = Duration::from_millis(200);
        let (sender, weather) = weather(Conditions { latency, ..Conditions::default() });
        let (events, receiver) = mpsc::channel(8);
        let (to, mut carried) = mpsc::channel(1);
        tokio::spawn(Exposure::new(weather).carry_events(receiver, to));
        let began = Instant::now();
        for number in 0..5_u8 {
            events.send(Bytes::from(vec![number])).await.unwrap();
        }
        for number in 0..5_u8 {
            assert_eq!(carried.recv().await.unwrap(), vec![number]);
        }
        assert_eq!(began.elapsed(), latency, "together, not after each other");
        sender.send_replace(Arc::new(Conditions::default()));
        events.send(Bytes::from_static(b"x")).await.unwrap();
        carried.recv().await.unwrap();
        assert_eq!(began.elapsed(), latency, "fair weather delays nothing");
        drop(events);
        assert_eq!(carried.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_takes_its_connection_along() {
        let (_sender, weather) = weather(Conditions { loss: 1.0, ..Conditions::default() });
        let exposure = Exposure::new(weather);
        let answer = exposure.clone().carry(http::Response::new(Body::empty()));
        tokio::select! {
            _ = answer => panic!("it arrived"),
            () = exposure.lost() => {}
        }
        assert!(exposure.is_reset());
    }
}
