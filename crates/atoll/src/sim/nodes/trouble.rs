//! What nodes suffer on their way to a server that knows nothing of it, and what their clocks say.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use atoll_client::https::Https;
use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use atoll_informer::{Clock, SystemClock};
use atoll_meta::time::Timestamp;
use atoll_sim::Faults;
use bytes::Bytes;
use http::{Request, Response};

/// A way that is late and loses things, when it is said to.
pub struct Troubled {
    way: Https,
    faults: Arc<Faults>,
}

impl Troubled {
    pub fn new(way: Https, faults: Arc<Faults>) -> Self {
        Troubled { way, faults }
    }
}

impl Transport for Troubled {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            let faults = self.faults.now();
            let delay = faults.latency() + faults.jitter().mul_f64(chance());
            if delay > Duration::ZERO {
                tokio::time::sleep(delay).await;
            }
            if chance() < faults.loss() {
                return Err("the connection was lost, as it was told to be".into());
            }
            self.way.send(request).await
        })
    }
}

/// From 0 to 1, without 1: no two hashers begin alike.
fn chance() -> f64 {
    let bits = RandomState::new().build_hasher().finish() as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// The machine's clock, or one that is wrong.
pub struct TroubledClock {
    pub faults: Arc<Faults>,
}

impl Clock for TroubledClock {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now();
        Timestamp::new(now.seconds.saturating_add(self.faults.now().skew()), now.nanos)
    }
}
