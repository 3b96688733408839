//! The network between a syncer and a server: requests and responses are lost, delayed, repeated, rejected
//! and cut off, as a seed determines.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::log::Log;
use crate::random::Random;
use crate::test_server::TestServer;
use crate::time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkState {
    /// No faults.
    Healthy,
    /// Random faults.
    Faulty,
    /// No connection.
    Down,
}

/// A handle. Clones share the same wire.
#[derive(Clone)]
pub struct Wire {
    shared: Arc<Shared>,
    /// Whether the owner of this handle is alive.
    is_alive: Arc<AtomicBool>,
}

struct Shared {
    seed: u64,
    /// The name of the server's side, and of the cluster.
    side: String,
    state: Mutex<WireState>,
    /// How often all connections have been cut.
    cuts: AtomicU64,
    cut: Notify,
    /// Records writes.
    log: Option<Arc<Log>>,
}

struct WireState {
    plane: Arc<TestServer>,
    network_state: NetworkState,
    /// The number of requests by method and path.
    counts: HashMap<String, u64>,
    /// Paths to reject, once each, and the status codes.
    rejections: Vec<(String, u16)>,
}

/// The faults of one request.
#[derive(Default)]
struct RequestFaults {
    before: Duration,
    after: Duration,
    refused: bool,
    /// The status code of a response without forwarding the request.
    answered_with: Option<u16>,
    /// The request arrives again after this time.
    repeated_after: Option<Duration>,
    /// The response is lost.
    is_response_lost: bool,
    /// The duration of a stream.
    duration: Option<Duration>,
    /// How a stream ends.
    end: End,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum End {
    #[default]
    Reset,
    /// With a part of a line.
    PartialLine,
    /// As a server ends it.
    Clean,
    /// With an error that the revision has expired.
    Expired,
}

impl Wire {
    pub fn new(seed: u64, side: impl Into<String>, plane: &Arc<TestServer>, log: Option<Arc<Log>>) -> Wire {
        let state = WireState {
            plane: plane.clone(),
            network_state: NetworkState::Healthy,
            counts: HashMap::new(),
            rejections: Vec::new(),
        };
        let shared = Shared {
            seed,
            side: side.into(),
            state: Mutex::new(state),
            cuts: AtomicU64::new(0),
            cut: Notify::new(),
            log,
        };
        Wire { shared: Arc::new(shared), is_alive: Arc::new(AtomicBool::new(true)) }
    }

    /// Returns a client that works while `is_alive` is true.
    pub fn client(&self, is_alive: &Arc<AtomicBool>) -> Client {
        Client::new(Arc::new(Wire { shared: self.shared.clone(), is_alive: is_alive.clone() }))
    }

    pub fn set(&self, network_state: NetworkState) {
        self.state().network_state = network_state;
        if network_state == NetworkState::Down {
            self.cut();
        }
    }

    pub fn cut(&self) {
        self.shared.cuts.fetch_add(1, Ordering::AcqRel);
        self.shared.cut.notify_waiters();
    }

    /// Connects the wire to another server.
    pub fn connect_to(&self, plane: &Arc<TestServer>) {
        self.state().plane = plane.clone();
        self.cut();
    }

    /// Rejects the next requests for this path with this status code.
    pub fn reject_next(&self, path: &str, code: u16, times: usize) {
        self.state().rejections.extend(std::iter::repeat_n((path.to_string(), code), times));
    }

    fn state(&self) -> MutexGuard<'_, WireState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the faults of a request, which depend on the seed, its method and path, and the number of
    /// equal requests before.
    fn faults(&self, request: &Request<Bytes>) -> RequestFaults {
        let mut state = self.state();
        let name = format!("{} {} {}", self.shared.side, request.method(), request.uri().path());
        let count = state.counts.entry(name.clone()).or_default();
        *count += 1;
        let mut random = Random::of(self.shared.seed, &name, *count);
        let is_stream = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let is_out = state.network_state == NetworkState::Down;
        let rejection = state.rejections.iter().position(|(path, _)| !is_out && path == request.uri().path());
        if let Some((_, code)) = rejection.map(|index| state.rejections.remove(index)) {
            return RequestFaults { answered_with: Some(code), ..RequestFaults::default() };
        }
        match state.network_state {
            NetworkState::Healthy => RequestFaults::default(),
            NetworkState::Down => RequestFaults { refused: true, ..RequestFaults::default() },
            NetworkState::Faulty => RequestFaults::random_faults(&mut random, is_stream),
        }
    }

    /// Forwards a request to the server and its response back. It continues even if the client has given up.
    async fn forward(
        self,
        plane: Arc<TestServer>,
        request: Request<Bytes>,
        faults: RequestFaults,
        answer: oneshot::Sender<Result<Response<ResponseBody>, BoxError>>,
    ) {
        time::pass(faults.before).await;
        if faults.refused || self.state().network_state == NetworkState::Down {
            let _ = answer.send(Err("connection refused".into()));
            return;
        }
        if let Some(code) = faults.answered_with {
            let _ = answer.send(Ok(status_response(code)));
            return;
        }
        let is_read = request.method() == Method::GET;
        if is_read && answer.is_closed() {
            return;
        }
        let mut outcome = self.deliver(&plane, &request, answer.is_closed()).await;
        if let Some(later) = faults.repeated_after.filter(|_| !is_read) {
            time::pass(later).await;
            outcome = self.deliver(&plane, &request, answer.is_closed()).await;
        }
        time::pass(faults.after).await;
        let is_stream = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let outcome = match outcome {
            _ if faults.is_response_lost => Err("connection reset by peer".into()),
            Ok(response) if is_stream && response.status().is_success() => Ok(self.stream(response, &faults)),
            outcome => outcome,
        };
        let _ = answer.send(outcome);
    }

    async fn deliver(
        &self,
        plane: &Arc<TestServer>,
        request: &Request<Bytes>,
        is_late: bool,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let transport = plane.transport("atoll-syncer");
        match &self.shared.log {
            // Reviews store nothing.
            Some(log) if request.method() != Method::GET && !request.uri().path().ends_with("reviews") => {
                let before = log.before(plane, request).await;
                let response = transport.send(request.clone()).await?;
                log.record_write(plane, request, response.status(), before, is_late);
                Ok(response)
            }
            log => {
                // Placed objects are selected by their mark; other lists are for the inventory.
                let is_of_placed = request.uri().query().is_some_and(|query| query.contains("labelSelector"));
                if let Some(log) = log.as_ref().filter(|_| is_of_placed) {
                    log.record_list(plane, request.uri().path());
                }
                transport.send(request.clone()).await
            }
        }
    }

    /// Returns a response whose stream ends as the faults say.
    fn stream(&self, response: Response<ResponseBody>, faults: &RequestFaults) -> Response<ResponseBody> {
        let (parts, mut body) = response.into_parts();
        let (sender, receiver) = mpsc::unbounded_channel::<Result<Bytes, BoxError>>();
        let (shared, cuts) = (self.shared.clone(), self.shared.cuts());
        let is_alive = self.is_alive.clone();
        let (duration, end) = (faults.duration.unwrap_or(Duration::from_secs(86_400 * 30)), faults.end);
        tokio::spawn(async move {
            let mut ends = std::pin::pin!(time::pass(duration));
            let mut last = None;
            loop {
                let piece = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    () = shared.is_cut(cuts) => Err("connection reset by peer".into()),
                    () = &mut ends => match (end, last.take()) {
                        (End::Clean, _) => return,
                        (End::Expired, _) => {
                            let _ = sender.send(Ok(expired_event()));
                            return;
                        }
                        (End::PartialLine, Some(piece)) => {
                            let piece: Bytes = piece;
                            let _ = sender.send(Ok(piece.slice(..piece.len() / 2)));
                            Err("connection reset by peer".into())
                        }
                        _ => Err("connection reset by peer".into()),
                    },
                    frame = body.frame() => match frame {
                        None => return,
                        Some(Err(error)) => Err(error),
                        Some(Ok(frame)) => match frame.into_data() {
                            Ok(data) => Ok(data),
                            Err(_) => continue,
                        },
                    },
                };
                if let Ok(data) = &piece {
                    last = Some(data.clone());
                }
                let is_over = piece.is_err() || !is_alive.load(Ordering::Acquire);
                if sender.send(piece).is_err() || is_over {
                    return;
                }
            }
        });
        Response::from_parts(parts, ChunkBody(receiver).boxed_unsync())
    }
}

impl Shared {
    fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Acquire)
    }

    /// Returns when connections are cut again.
    async fn is_cut(&self, before: u64) {
        let mut cut = std::pin::pin!(self.cut.notified());
        cut.as_mut().enable();
        if self.cuts() == before {
            cut.await;
        }
    }
}

impl Transport for Wire {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let wire = self.clone();
        Box::pin(async move {
            if !wire.is_alive.load(Ordering::Acquire) {
                // A killed process does nothing more.
                return std::future::pending().await;
            }
            let faults = wire.faults(&request);
            let plane = wire.state().plane.clone();
            let (shared, cuts) = (wire.shared.clone(), wire.shared.cuts());
            let (sender, answer) = oneshot::channel();
            tokio::spawn(wire.forward(plane, request, faults, sender));
            tokio::select! {
                biased;
                () = shared.is_cut(cuts) => Err("connection reset by peer".into()),
                answer = answer => answer.unwrap_or_else(|_| Err("no response".into())),
            }
        })
    }
}

impl RequestFaults {
    fn random_faults(random: &mut Random, is_stream: bool) -> RequestFaults {
        let mut faults = RequestFaults::default();
        if is_stream {
            faults.refused = random.chance(15);
            if random.chance(10) {
                faults.answered_with = Some(*random.pick(&[401, 403, 410, 429, 500, 503]));
            }
            faults.duration = Some(Duration::from_millis(random.below(40_000)));
            faults.end = *random.pick(&[End::Reset, End::PartialLine, End::Clean, End::Expired]);
            faults.after = Duration::from_millis(random.below(500));
            return faults;
        }
        match random.below(100) {
            0..8 => faults.refused = true,
            8..18 => faults.answered_with = Some(*random.pick(&[401, 403, 429, 500, 503])),
            18..28 => faults.is_response_lost = true,
            28..38 => faults.repeated_after = Some(Duration::from_millis(random.below(4000))),
            _ => {}
        }
        if random.chance(25) {
            faults.before = Duration::from_millis(random.below(3000));
        }
        if random.chance(4) {
            // Longer than any client waits.
            faults.before = Duration::from_secs(20 + random.below(30));
        }
        if random.chance(15) {
            faults.after = Duration::from_millis(random.below(3000));
        }
        faults
    }
}

struct ChunkBody(mpsc::UnboundedReceiver<Result<Bytes, BoxError>>);

impl http_body::Body for ChunkBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

fn status_object(code: u16) -> Value {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        _ => "ServiceUnavailable",
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("injected: {reason}"),
        "details": { "retryAfterSeconds": if code == 429 { 2 } else { 0 } },
    })
}

fn status_response(code: u16) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(status_object(code).to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).expect("a code");
    response
}

fn expired_event() -> Bytes {
    format!("{}\n", json!({ "type": "ERROR", "object": status_object(410) })).into()
}
