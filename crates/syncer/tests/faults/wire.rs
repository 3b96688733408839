//! What lies between a syncer and a server: requests and answers are lost, late, doubled, refused and cut off, as a seed says.

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
use crate::plane::Plane;
use crate::random::Random;
use crate::time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Nothing goes wrong.
    Calm,
    /// Anything may.
    Storm,
    /// Nobody gets through.
    Out,
}

/// Handles are the same wire.
#[derive(Clone)]
pub struct Wire {
    shared: Arc<Shared>,
    /// Whether whoever holds this end is alive.
    life: Arc<AtomicBool>,
}

struct Shared {
    seed: u64,
    /// To which side it leads.
    side: &'static str,
    state: Mutex<State>,
    /// How often everything that was connected has been cut off.
    cuts: AtomicU64,
    cut: Notify,
    /// Notes what is written.
    log: Option<Arc<Log>>,
}

struct State {
    plane: Arc<Plane>,
    weather: Weather,
    /// How often the same was asked for.
    counts: HashMap<String, u64>,
    /// Paths that are refused, each once, and how.
    refusals: Vec<(String, u16)>,
}

/// What befalls one request.
#[derive(Default)]
struct Fate {
    before: Duration,
    after: Duration,
    refused: bool,
    /// What is answered without asking the server.
    instead: Option<u16>,
    /// It arrives twice, the second time so much later.
    twice: Option<Duration>,
    /// The answer does not come back.
    lost: bool,
    /// How long a stream lasts.
    lasts: Option<Duration>,
    /// How a stream ends.
    end: End,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum End {
    #[default]
    Reset,
    /// With half a line.
    Torn,
    /// As a server ends it.
    Clean,
    /// Told that the past is no longer known.
    Expired,
}

impl Wire {
    pub fn new(seed: u64, side: &'static str, plane: &Arc<Plane>, log: Option<Arc<Log>>) -> Wire {
        let state = State {
            plane: plane.clone(),
            weather: Weather::Calm,
            counts: HashMap::new(),
            refusals: Vec::new(),
        };
        let shared =
            Shared { seed, side, state: Mutex::new(state), cuts: AtomicU64::new(0), cut: Notify::new(), log };
        Wire { shared: Arc::new(shared), life: Arc::new(AtomicBool::new(true)) }
    }

    /// For somebody who lives as long as `life` says.
    pub fn client(&self, life: &Arc<AtomicBool>) -> Client {
        Client::new(Arc::new(Wire { shared: self.shared.clone(), life: life.clone() }))
    }

    pub fn set(&self, weather: Weather) {
        self.state().weather = weather;
        if weather == Weather::Out {
            self.cut();
        }
    }

    pub fn cut(&self) {
        self.shared.cuts.fetch_add(1, Ordering::AcqRel);
        self.shared.cut.notify_waiters();
    }

    /// From now on it leads elsewhere.
    pub fn lead(&self, plane: &Arc<Plane>) {
        self.state().plane = plane.clone();
        self.cut();
    }

    /// Whoever gets through with a request for this is refused so many times.
    pub fn refuse(&self, path: &str, code: u16, times: usize) {
        self.state().refusals.extend(std::iter::repeat_n((path.to_string(), code), times));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What befalls a request follows from the seed, from what it asks for, and from how often that was asked for.
    fn fate(&self, request: &Request<Bytes>) -> Fate {
        let mut state = self.state();
        let name = format!("{} {} {}", self.shared.side, request.method(), request.uri().path());
        let count = state.counts.entry(name.clone()).or_default();
        *count += 1;
        let mut random = Random::of(self.shared.seed, &name, *count);
        let is_stream = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let is_out = state.weather == Weather::Out;
        let refusal = state.refusals.iter().position(|(path, _)| !is_out && path == request.uri().path());
        if let Some((_, code)) = refusal.map(|index| state.refusals.remove(index)) {
            return Fate { instead: Some(code), ..Fate::default() };
        }
        match state.weather {
            Weather::Calm => Fate::default(),
            Weather::Out => Fate { refused: true, ..Fate::default() },
            Weather::Storm => Fate::drawn(&mut random, is_stream),
        }
    }

    /// Carries a request to the server and the answer back; goes on even if nobody waits for it any longer.
    async fn carry(
        self,
        plane: Arc<Plane>,
        request: Request<Bytes>,
        fate: Fate,
        answer: oneshot::Sender<Result<Response<ResponseBody>, BoxError>>,
    ) {
        time::pass(fate.before).await;
        if fate.refused || self.state().weather == Weather::Out {
            let _ = answer.send(Err("connection refused".into()));
            return;
        }
        if let Some(code) = fate.instead {
            let _ = answer.send(Ok(status(code)));
            return;
        }
        let is_read = request.method() == Method::GET;
        if is_read && answer.is_closed() {
            return;
        }
        let mut outcome = self.arrives(&plane, &request, answer.is_closed()).await;
        if let Some(later) = fate.twice.filter(|_| !is_read) {
            time::pass(later).await;
            outcome = self.arrives(&plane, &request, answer.is_closed()).await;
        }
        time::pass(fate.after).await;
        let is_stream = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let outcome = match outcome {
            _ if fate.lost => Err("connection reset by peer".into()),
            Ok(response) if is_stream && response.status().is_success() => Ok(self.stream(response, &fate)),
            outcome => outcome,
        };
        let _ = answer.send(outcome);
    }

    async fn arrives(
        &self,
        plane: &Arc<Plane>,
        request: &Request<Bytes>,
        is_late: bool,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let transport = plane.transport("atoll-syncer");
        match &self.shared.log {
            Some(log) if request.method() != Method::GET => {
                let before = log.before(plane, request).await;
                let response = transport.send(request.clone()).await?;
                log.note(plane, request, response.status(), before, is_late);
                Ok(response)
            }
            log => {
                if let Some(log) = log {
                    log.looked(plane, request.uri().path());
                }
                transport.send(request.clone()).await
            }
        }
    }

    /// An answer that lasts as long as the wire lets it.
    fn stream(&self, response: Response<ResponseBody>, fate: &Fate) -> Response<ResponseBody> {
        let (parts, mut body) = response.into_parts();
        let (sender, receiver) = mpsc::unbounded_channel::<Result<Bytes, BoxError>>();
        let (shared, cuts) = (self.shared.clone(), self.shared.cuts());
        let life = self.life.clone();
        let (lasts, end) = (fate.lasts.unwrap_or(Duration::from_secs(86_400 * 30)), fate.end);
        tokio::spawn(async move {
            let mut ends = std::pin::pin!(time::pass(lasts));
            let mut last = None;
            loop {
                let piece = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    () = shared.is_cut(cuts) => Err("connection reset by peer".into()),
                    () = &mut ends => match (end, last.take()) {
                        (End::Clean, _) => return,
                        (End::Expired, _) => {
                            let _ = sender.send(Ok(expired()));
                            return;
                        }
                        (End::Torn, Some(piece)) => {
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
                let is_over = piece.is_err() || !life.load(Ordering::Acquire);
                if sender.send(piece).is_err() || is_over {
                    return;
                }
            }
        });
        Response::from_parts(parts, Pieces(receiver).boxed_unsync())
    }
}

impl Shared {
    fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Acquire)
    }

    /// Returns when there have been more.
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
            if !wire.life.load(Ordering::Acquire) {
                // A process that was killed does nothing more.
                return std::future::pending().await;
            }
            let fate = wire.fate(&request);
            let plane = wire.state().plane.clone();
            let (shared, cuts) = (wire.shared.clone(), wire.shared.cuts());
            let (sender, answer) = oneshot::channel();
            tokio::spawn(wire.carry(plane, request, fate, sender));
            tokio::select! {
                biased;
                () = shared.is_cut(cuts) => Err("connection reset by peer".into()),
                answer = answer => answer.unwrap_or_else(|_| Err("nobody answers".into())),
            }
        })
    }
}

impl Fate {
    fn drawn(random: &mut Random, is_stream: bool) -> Fate {
        let mut fate = Fate::default();
        if is_stream {
            fate.refused = random.chance(15);
            if random.chance(10) {
                fate.instead = Some(*random.pick(&[401, 403, 410, 429, 500, 503]));
            }
            fate.lasts = Some(Duration::from_millis(random.below(40_000)));
            fate.end = *random.pick(&[End::Reset, End::Torn, End::Clean, End::Expired]);
            fate.after = Duration::from_millis(random.below(500));
            return fate;
        }
        match random.below(100) {
            0..8 => fate.refused = true,
            8..18 => fate.instead = Some(*random.pick(&[401, 403, 429, 500, 503])),
            18..28 => fate.lost = true,
            28..38 => fate.twice = Some(Duration::from_millis(random.below(4000))),
            _ => {}
        }
        if random.chance(25) {
            fate.before = Duration::from_millis(random.below(3000));
        }
        if random.chance(4) {
            // Longer than anybody waits.
            fate.before = Duration::from_secs(20 + random.below(30));
        }
        if random.chance(15) {
            fate.after = Duration::from_millis(random.below(3000));
        }
        fate
    }
}

struct Pieces(mpsc::UnboundedReceiver<Result<Bytes, BoxError>>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

fn refusal(code: u16) -> Value {
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

fn status(code: u16) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(refusal(code).to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).expect("a code");
    response
}

fn expired() -> Bytes {
    format!("{}\n", json!({ "type": "ERROR", "object": refusal(410) })).into()
}
