//! Injects faults into the transport of simulated nodes and into their clock.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use atoll_client::https::Https;
use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use atoll_informer::{Clock, SystemClock};
use atoll_meta::time::Timestamp;
use atoll_sim::Faults;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A transport that delays and loses requests as the faults say.
pub struct FaultyTransport {
    inner: Https,
    faults: Arc<Faults>,
}

impl FaultyTransport {
    pub fn new(inner: Https, faults: Arc<Faults>) -> Self {
        FaultyTransport { inner, faults }
    }
}

impl Transport for FaultyTransport {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let delay = delay(&self.faults);
            if delay > Duration::ZERO {
                tokio::time::sleep(delay).await;
            }
            if is_lost(&self.faults) {
                return Err(LOST_MESSAGE.into());
            }
            let response = self.inner.send(request).await?;
            // The server has processed the request, although its response is lost.
            if is_lost(&self.faults) {
                return Err(LOST_MESSAGE.into());
            }
            Ok(response.map(|body| if is_watch { delay_body(body, self.faults.clone()) } else { body }))
        })
    }
}

const LOST_MESSAGE: &str = "connection lost by fault injection";
/// Maximum number of delayed frames of a response.
const MAX_QUEUED_FRAMES: usize = 256;

fn delay(faults: &Faults) -> Duration {
    let faults = faults.now();
    faults.latency() + faults.jitter().mul_f64(random_fraction())
}

fn is_lost(faults: &Faults) -> bool {
    random_fraction() < faults.now().loss()
}

/// Delays the frames of a watch.
fn delay_body(body: ResponseBody, faults: Arc<Faults>) -> ResponseBody {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(forward_frames(body, faults, sender));
    DelayedBody(receiver).boxed_unsync()
}

/// Delays each frame independently, without adding up the delays. A lost frame ends the body.
async fn forward_frames(
    mut body: ResponseBody,
    faults: Arc<Faults>,
    to: mpsc::Sender<Result<Bytes, BoxError>>,
) {
    let mut queue = VecDeque::new();
    let mut is_open = true;
    while is_open || !queue.is_empty() {
        let due = queue.front().map_or_else(Instant::now, |(due, _)| *due);
        tokio::select! {
            frame = body.frame(), if is_open && queue.len() < MAX_QUEUED_FRAMES => match frame {
                Some(frame) => queue.push_back((Instant::now() + delay(&faults), frame)),
                None => is_open = false,
            },
            () = tokio::time::sleep_until(due), if !queue.is_empty() => {
                let Some((_, frame)) = queue.pop_front() else { continue };
                let frame = if is_lost(&faults) { Err(LOST_MESSAGE.into()) } else { frame };
                let (is_last, frame) = (frame.is_err(), frame.map(|frame| frame.into_data().unwrap_or_default()));
                if to.send(frame).await.is_err() || is_last {
                    return;
                }
            }
            () = to.closed() => return,
        }
    }
}

/// The body of delayed frames.
struct DelayedBody(mpsc::Receiver<Result<Bytes, BoxError>>);

impl Body for DelayedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(context).map(|frame| frame.map(|frame| frame.map(Frame::data)))
    }
}

/// A random number in [0, 1): every `RandomState` has new random keys.
fn random_fraction() -> f64 {
    let bits = RandomState::new().build_hasher().finish() as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// The system clock, offset by the fault clock-skew.
pub struct FaultyClock {
    pub faults: Arc<Faults>,
}

impl Clock for FaultyClock {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now();
        Timestamp::new(now.seconds.saturating_add(self.faults.now().skew()), now.nanos)
    }
}
