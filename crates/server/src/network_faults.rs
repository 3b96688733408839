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
pub struct NetworkFaults {
    /// Delay of responses and watch events.
    pub latency: Duration,
    /// Maximum random additional delay.
    pub jitter: Duration,
    /// Fraction of connections, responses and events that are lost together with their connection: 0 to 1.
    pub loss: f64,
    /// A partition: no data passes in either direction, and no connection is reset.
    pub is_partitioned: bool,
    /// The server is down: connections are reset, new ones refused.
    pub is_down: bool,
    /// API versions that are hidden, in order.
    pub hidden: Arc<[GroupVersion]>,
    /// Whether workspaces are hidden.
    pub hides_workspaces: bool,
}

impl NetworkFaults {
    pub fn hides(&self, group: &str, version: &str) -> bool {
        self.hidden.iter().any(|(hidden, of)| hidden == group && of == version)
    }
}

/// The changing faults of a network.
#[derive(Clone)]
pub struct FaultInjector {
    current: watch::Receiver<Arc<NetworkFaults>>,
    random: Arc<AtomicU64>,
}

impl FaultInjector {
    /// `seed` determines which messages are lost.
    pub fn new(faults: watch::Receiver<Arc<NetworkFaults>>, seed: u64) -> Self {
        FaultInjector { current: faults, random: Arc::new(AtomicU64::new(seed)) }
    }

    pub fn now(&self) -> Arc<NetworkFaults> {
        self.current.borrow().clone()
    }

    /// Waits until `fits` is true. Never resolves if the faults can no longer change and it is not.
    pub async fn until(&self, fits: impl FnMut(&Arc<NetworkFaults>) -> bool) {
        if self.current.clone().wait_for(fits).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns a number from 0 to 1.
    fn random_fraction(&self) -> f64 {
        // SplitMix64: each value of the counter is mixed independently, so threads need no coordination.
        let mut mixed = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether a message is lost.
    pub fn should_drop(&self) -> bool {
        let loss = self.current.borrow().loss;
        loss > 0.0 && self.random_fraction() < loss
    }

    /// Returns the delay of a message.
    pub fn delay(&self) -> Duration {
        let (latency, jitter) = {
            let faults = self.current.borrow();
            (faults.latency, faults.jitter)
        };
        if jitter.is_zero() { latency } else { latency + jitter.mul_f64(self.random_fraction()) }
    }
}

/// One connection with faults.
pub(crate) struct ConnectionFaults {
    pub fault_injector: FaultInjector,
    reset: AtomicBool,
    lost: Notify,
}

/// Maximum number of delayed events of a watch.
const MAX_DELAYED_EVENTS: usize = 256;

impl ConnectionFaults {
    pub fn new(fault_injector: FaultInjector) -> Arc<Self> {
        Arc::new(ConnectionFaults { fault_injector, reset: AtomicBool::new(false), lost: Notify::new() })
    }

    /// Whether the connection ends without a TLS close.
    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Acquire) || self.fault_injector.current.borrow().is_down
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
            () = self.fault_injector.until(|faults| faults.is_down) => {}
        }
    }

    /// Delays or drops a response. The request has been carried out in either case, as with real networks.
    pub async fn delay_response(self: Arc<Self>, response: http::Response<Body>) -> http::Response<Body> {
        let delay = self.fault_injector.delay();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if self.fault_injector.should_drop() {
            self.reset();
            std::future::pending::<()>().await;
        }
        response.map(|body| match body {
            Body::Stream(events) => {
                let (sender, receiver) = mpsc::channel(1);
                tokio::spawn(self.delay_events(events, sender));
                Body::Stream(receiver)
            }
            whole => whole,
        })
    }

    /// Delays events, each by itself, in order.
    async fn delay_events(self: Arc<Self>, mut events: mpsc::Receiver<Bytes>, to: mpsc::Sender<Bytes>) {
        let mut queue: std::collections::VecDeque<(Instant, Bytes)> = std::collections::VecDeque::new();
        let mut is_open = true;
        while is_open || !queue.is_empty() {
            let due = queue.front().map_or_else(Instant::now, |(due, _)| *due);
            tokio::select! {
                event = events.recv(), if is_open && queue.len() < MAX_DELAYED_EVENTS => match event {
                    Some(event) => queue.push_back((Instant::now() + self.fault_injector.delay(), event)),
                    None => is_open = false,
                },
                () = sleep_until(due), if !queue.is_empty() => {
                    if self.fault_injector.should_drop() {
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

    fn injector(faults: NetworkFaults) -> (watch::Sender<Arc<NetworkFaults>>, FaultInjector) {
        let (sender, receiver) = watch::channel(Arc::new(faults));
        (sender, FaultInjector::new(receiver, 7))
    }

    #[test]
    fn the_configured_fraction_is_lost() {
        for (loss, expected) in [(0.0, 0..=0), (0.2, 150..=250), (0.5, 430..=570), (1.0, 1000..=1000)] {
            let (_sender, fault_injector) = injector(NetworkFaults { loss, ..NetworkFaults::default() });
            let lost = (0..1000).filter(|_| fault_injector.should_drop()).count();
            assert!(expected.contains(&lost), "{lost} of 1000 at {loss}");
        }
    }

    #[test]
    fn delays_are_within_bounds() {
        let (latency, jitter) = (Duration::from_millis(200), Duration::from_millis(100));
        let (_sender, fault_injector) =
            injector(NetworkFaults { latency, jitter, ..NetworkFaults::default() });
        let delays: Vec<Duration> = (0..100).map(|_| fault_injector.delay()).collect();
        assert!(delays.iter().all(|delay| (latency..latency + jitter).contains(delay)), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay > latency + jitter / 2));
        assert!(delays.iter().any(|delay| *delay < latency + jitter / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_delayed_individually_and_stay_in_order() {
        let latency = Duration::from_millis(200);
        let (sender, fault_injector) = injector(NetworkFaults { latency, ..NetworkFaults::default() });
        let (events, receiver) = mpsc::channel(8);
        let (to, mut delayed) = mpsc::channel(1);
        tokio::spawn(ConnectionFaults::new(fault_injector).delay_events(receiver, to));
        let began = Instant::now();
        for number in 0..5_u8 {
            events.send(Bytes::from(vec![number])).await.unwrap();
        }
        for number in 0..5_u8 {
            assert_eq!(delayed.recv().await.unwrap(), vec![number]);
        }
        assert_eq!(began.elapsed(), latency, "delays do not add up");
        sender.send_replace(Arc::new(NetworkFaults::default()));
        events.send(Bytes::from_static(b"x")).await.unwrap();
        delayed.recv().await.unwrap();
        assert_eq!(began.elapsed(), latency, "no delay without faults");
        drop(events);
        assert_eq!(delayed.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_response_ends_its_connection() {
        let (_sender, fault_injector) = injector(NetworkFaults { loss: 1.0, ..NetworkFaults::default() });
        let connection = ConnectionFaults::new(fault_injector);
        let answer = connection.clone().delay_response(http::Response::new(Body::empty()));
        tokio::select! {
            _ = answer => panic!("it arrived"),
            () = connection.lost() => {}
        }
        assert!(connection.is_reset());
    }
}
