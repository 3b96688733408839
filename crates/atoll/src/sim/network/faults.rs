//! The current faults of a network, and the chance by which they meet a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atoll_server::hidden_api::HiddenApi;
use tokio::sync::watch;

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
    /// Parts of the API that are hidden.
    pub hidden_api: Arc<HiddenApi>,
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

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn injector(faults: NetworkFaults) -> (watch::Sender<Arc<NetworkFaults>>, FaultInjector) {
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
}
