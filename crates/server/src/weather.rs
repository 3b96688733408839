//! Simulated network faults for connections from outside: late or lost responses, hanging or refused
//! connections, and hidden parts of the API.
//!
//! A server without faults has no overhead. Requests within the process are not affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use bytes::Bytes;

use crate::body::Body;

/// An API group and version.
pub type GroupVersion = (String, String);

/// The current faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Delay of responses and watch events.
    pub latency: Duration,
    /// Maximum random additional delay.
    pub jitter: Duration,
    /// Fraction of connections, responses and events that are lost together with their connection: 0 to 1.
    pub loss: f64,
    /// A partition: no data passes in either direction, and no connection is reset.
    pub is_cut: bool,
    /// The server is down: connections are reset, new ones refused.
    pub is_down: bool,
    /// API versions that are hidden, in order.
    pub hidden: Arc<[GroupVersion]>,
    /// Whether workspaces are hidden.
    pub is_plain: bool,
}

impl Conditions {
    pub fn hides(&self, group: &str, version: &str) -> bool {
        self.hidden.iter().any(|(hidden, of)| hidden == group && of == version)
    }
}

/// The changing faults of a network.
#[derive(Clone)]
pub struct Weather {
    conditions: watch::Receiver<Arc<Conditions>>,
    dice: Arc<AtomicU64>,
}

impl Weather {
    /// `seed` determines which messages are lost.
    pub fn new(conditions: watch::Receiver<Arc<Conditions>>, seed: u64) -> Self {
        Weather { conditions, dice: Arc::new(AtomicU64::new(seed)) }
    }

    pub fn now(&self) -> Arc<Conditions> {
        self.conditions.borrow().clone()
    }

    /// Waits until `fits` is true.
    pub async fn until(&self, fits: impl FnMut(&Arc<Conditions>) -> bool) {
        if self.conditions.clone().wait_for(fits).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns a number from 0 to 1.
    fn chance(&self) -> f64 {
        // SplitMix64: each value of the counter is mixed independently, so threads need no coordination.
        let mut mixed = self.dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether a message is lost.
    pub fn loses(&self) -> bool {
        let loss = self.conditions.borrow().loss;
        loss > 0.0 && self.chance() < loss
    }

    /// Returns the delay of a message.
    pub fn delay(&self) -> Duration {
        let (latency, jitter) = {
            let conditions = self.conditions.borrow();
            (conditions.latency, conditions.jitter)
        };
        if jitter.is_zero() { latency } else { latency + jitter.mul_f64(self.chance()) }
    }
}

/// One connection with faults.
pub(crate) struct Exposure {
    pub weather: Weather,
    reset: AtomicBool,
    lost: Notify,
}

/// Maximum number of delayed events of a watch.
const UNDER_WAY: usize = 256;

impl Exposure {
    pub fn new(weather: Weather) -> Arc<Self> {
        Arc::new(Exposure { weather, reset: AtomicBool::new(false), lost: Notify::new() })
    }

    /// Whether the connection ends without a TLS close.
    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Acquire) || self.weather.conditions.borrow().is_down
    }

    /// Ends the connection.
    pub fn reset(&self) {
        self.reset.store(true, Ordering::Release);
        self.lost.notify_one();
    }

    /// Resolves when the connection is lost.
    pub async fn lost(&self) {
        tokio::select! {
            () = self.lost.notified() => {}
            () = self.weather.until(|conditions| conditions.is_down) => {}
        }
    }

    /// Delays or drops a response. The request has been carried out in either case, as with real networks.
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

    /// Delays events, each by itself, in order.
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
    fn the_configured_fraction_is_lost() {
        for (loss, expected) in [(0.0, 0..=0), (0.2, 150..=250), (0.5, 430..=570), (1.0, 1000..=1000)] {
            let (_sender, weather) = weather(Conditions { loss, ..Conditions::default() });
            let lost = (0..1000).filter(|_| weather.loses()).count();
            assert!(expected.contains(&lost), "{lost} of 1000 at {loss}");
        }
    }

    #[test]
    fn delays_are_within_bounds() {
        let (latency, jitter) = (Duration::from_millis(200), Duration::from_millis(100));
        let (_sender, weather) = weather(Conditions { latency, jitter, ..Conditions::default() });
        let delays: Vec<Duration> = (0..100).map(|_| weather.delay()).collect();
        assert!(delays.iter().all(|delay| (latency..latency + jitter).contains(delay)), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay > latency + jitter / 2));
        assert!(delays.iter().any(|delay| *delay < latency + jitter / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_delayed_individually_and_stay_in_order() {
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
        assert_eq!(began.elapsed(), latency, "delays do not add up");
        sender.send_replace(Arc::new(Conditions::default()));
        events.send(Bytes::from_static(b"x")).await.unwrap();
        carried.recv().await.unwrap();
        assert_eq!(began.elapsed(), latency, "no delay without faults");
        drop(events);
        assert_eq!(carried.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_response_ends_its_connection() {
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
