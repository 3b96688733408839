//! Limits on requests in flight: in total and per user.
//!
//! A request counts for its sender from its first byte on. It takes one of the permits that all senders share
//! when its body has arrived. A sender that is slow or sends much thus uses up its own share and does not
//! block others.
//!
//! ```text
//!   head ─► CountedRequest of the sender ─► body, within its time and memory ─► Permit ─► verb ─► response, within memory
//! ```
//!
//! The memory for bodies, and for large responses and events of watches until they are sent, is divided among
//! senders in the same way. So is the number of watches, which need no other permit.

// upstream: staging/src/k8s.io/apiserver/pkg/server/filters/maxinflight.go

mod large_responses;
mod memory;
mod output;
mod watch_buffer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_authn::User;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_meta::Status;
use atoll_registry::bootstrap::ROOT;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use self::large_responses::SerializationPermits;
pub use self::large_responses::{LARGE, ResponseLimits, ResponseReservation, SMALL_OUTPUT};
use self::memory::Memory;
pub use self::memory::Reservation;
pub use self::output::{NoRoom, OutputMemory, TextBuffer, make_text};
use self::watch_buffer::WatchPermit;
pub use self::watch_buffer::{UnreadBytes, WatchBuffer, WatchProgress};
use crate::request::RequestInfo;
use crate::workspace::Workspace;
use crate::{MAX_BODY, health, impersonation};

/// Divisor of all permits for the share of one sender: a quarter.
const SENDER_DIVISOR: usize = 4;
/// Divisor of a group's share for a group within it, a child workspace or a user: a half.
const GROUP_DIVISOR: usize = 2;
/// Minimum bytes per second of a body, after the time that any body may take.
const MIN_BODY_RATE: u32 = 32 << 10;
/// Memory for large responses that are being sent, of all senders.
const RESPONSE_MEMORY: usize = 1 << 30;

pub struct InFlight {
    reading: Arc<Semaphore>,
    mutating: Arc<Semaphore>,
    watching: Arc<Semaphore>,
    limits: [usize; 3],
    bodies: Arc<Memory>,
    responses: Arc<Memory>,
    permits: Arc<SerializationPermits>,
    /// Time that any body may take.
    body_timeout: Duration,
    senders: Arc<Senders>,
}

/// Requests in flight of each sender: reading, mutating and watching. Senders without requests have no entry.
#[derive(Default)]
struct Senders(Mutex<HashMap<Box<str>, [usize; 3]>>);

/// The groups that a request counts for, widest first: the workspaces of its path, then the user; in root the
/// namespace of a ServiceAccount, then the account. A tenant that makes up names of users, accounts or
/// workspaces stays within a group that existed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender(Arc<[Box<str>]>);

impl Sender {
    /// `workspace` is the workspace of the request.
    pub fn of(user: &User, workspace: Option<&Workspace>) -> Sender {
        let Some(home) = &user.home else {
            return Sender([format!("user {}", user.name).into()].into());
        };
        let mut groups: Vec<Box<str>> = Vec::new();
        if let Some(Workspace::One { id, steps, .. }) = workspace.filter(|workspace| !workspace.is_root()) {
            let ancestors = steps.iter().skip(1).map(|step| step.parent.as_str());
            groups.extend(ancestors.chain([id.as_str()]).map(|id| format!("workspace {id}").into()));
        }
        let account = impersonation::account(&user.name).filter(|_| groups.is_empty());
        // A user who may create one ServiceAccount in a namespace may create more. Only the accounts of
        // agents in root's own namespace are created one by one by administrators, and one agent must not
        // starve another.
        if let Some((namespace, _)) = account.filter(|own| (own.0, home.as_str()) != (SYSTEM_NAMESPACE, ROOT))
        {
            groups.push(format!("accounts of {namespace} of {home}").into());
        }
        groups.push(format!("user {} of {home}", user.name).into());
        Sender(groups.into())
    }
}

/// A request that counts for its sender until it is dropped.
pub struct CountedRequest<'a> {
    inflight: &'a InFlight,
    kind: RequestKind,
    /// `None` for an exempt request.
    sender: Option<Sender>,
    /// Memory of the body, until the request ends.
    memory: Reservation,
    /// Permit of a watch. `None` for an exempt watch.
    watch: Option<Arc<WatchPermit>>,
    /// Maximum number of bytes of the body.
    max_body: usize,
}

/// Maximum number of bytes of an object that a controller writes: those of a stored object with its managed fields.
const MAX_STORED_OBJECT: usize = 16 << 20;

/// The right to run a request, until it is dropped.
pub struct Permit<'a> {
    _permit: Option<OwnedSemaphorePermit>,
    _request: CountedRequest<'a>,
}

#[derive(Clone, Copy)]
enum RequestKind {
    Reading = 0,
    Mutating = 1,
    Watching = 2,
}

fn too_many_requests() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

impl InFlight {
    /// Limits of reading and mutating requests and of watches, and the time that bodies may take.
    pub fn new(reading: usize, mutating: usize, watching: usize, body_timeout: Duration) -> Self {
        InFlight {
            reading: Arc::new(Semaphore::new(reading)),
            mutating: Arc::new(Semaphore::new(mutating)),
            watching: Arc::new(Semaphore::new(watching)),
            limits: [reading, mutating, watching],
            bodies: Memory::new(mutating.max(SENDER_DIVISOR).saturating_mul(MAX_BODY), MAX_BODY),
            responses: Memory::new(RESPONSE_MEMORY, RESPONSE_MEMORY / 2),
            permits: Arc::new(SerializationPermits::new()),
            body_timeout,
            senders: Arc::default(),
        }
    }

    /// Counts a request for its sender, or returns an error with Retry-After. Watches are counted by
    /// themselves. Other long-running requests are not counted, nor are probes, so that a busy server does
    /// not look dead.
    pub fn start(&self, request: &RequestInfo, sender: Option<Sender>) -> Result<CountedRequest<'_>, Status> {
        let is_probe = !request.is_resource && health::is_check(&request.path);
        let is_exempt = request.is_long_running() || is_probe;
        let reads = matches!(request.verb, "get" | "list" | "head");
        let kind = if reads { RequestKind::Reading } else { RequestKind::Mutating };
        let watch = match &sender {
            Some(sender) if request.verb == "watch" => Some(self.watch_permit(sender)?),
            _ => None,
        };
        let sender = sender.filter(|_| !is_exempt);
        if let Some(sender) = &sender {
            self.senders.acquire(sender, kind, self.limits[kind as usize])?;
        }
        let memory = self.bodies.empty_reservation(sender.clone());
        Ok(CountedRequest { inflight: self, kind, sender, memory, watch, max_body: MAX_BODY })
    }

    fn watch_permit(&self, sender: &Sender) -> Result<Arc<WatchPermit>, Status> {
        let of_all = self.watching.clone().try_acquire_owned().map_err(|_| too_many_requests())?;
        let kind = RequestKind::Watching;
        self.senders.acquire(sender, kind, self.limits[kind as usize])?;
        let (senders, sender) = (self.senders.clone(), sender.clone());
        Ok(Arc::new(WatchPermit { senders, sender, _of_all: of_all }))
    }
}

impl Senders {
    fn acquire(&self, sender: &Sender, kind: RequestKind, limit: usize) -> Result<(), Status> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut share = limit / SENDER_DIVISOR;
        for group in sender.0.iter() {
            let count = counts.get(group).map_or(0, |counts| counts[kind as usize]);
            if count >= share.max(1) {
                return Err(too_many_requests());
            }
            share /= GROUP_DIVISOR;
        }
        for group in sender.0.iter() {
            counts.entry(group.clone()).or_default()[kind as usize] += 1;
        }
        Ok(())
    }

    fn release(&self, sender: &Sender, kind: RequestKind) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for group in sender.0.iter() {
            if let Some(count) = counts.get_mut(group) {
                count[kind as usize] = count[kind as usize].saturating_sub(1);
                if *count == [0; 3] {
                    counts.remove(group);
                }
            }
        }
    }
}

impl<'a> CountedRequest<'a> {
    /// Allows a body with any object that can be stored.
    pub fn allow_stored_objects(&mut self) {
        self.max_body = MAX_STORED_OBJECT;
    }

    /// Reads the body, up to the size limit, if it arrives fast enough. Bodies of reading requests are
    /// ignored.
    pub async fn read<B>(&mut self, body: B) -> Result<Bytes, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if body.is_end_stream() || matches!(self.kind, RequestKind::Reading) {
            return Ok(Bytes::new());
        }
        let started = Instant::now();
        let mut body = std::pin::pin!(Limited::new(body, self.max_body));
        let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
        loop {
            let received = first.len() + rest.len();
            let extra = Duration::from_secs(1) * u32::try_from(received).unwrap_or(u32::MAX) / MIN_BODY_RATE;
            let frame = match timeout_at(started + self.inflight.body_timeout + extra, body.frame()).await {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => {
                    return Err(Status::timeout("the request body did not arrive fast enough", 0));
                }
            };
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => Status::request_entity_too_large(format!("limit is {}", self.max_body)),
                false => Status::bad_request(error.to_string()),
            })?;
            let Ok(data) = frame.into_data() else { continue };
            self.memory.resize(received + data.len())?;
            // Most bodies arrive in one frame, which need not be copied.
            if received == 0 {
                first = data;
            } else {
                rest.reserve(first.len() + data.len());
                rest.extend_from_slice(&std::mem::take(&mut first));
                rest.extend_from_slice(&data);
            }
        }
        Ok(if rest.is_empty() { first } else { rest.freeze() })
    }

    /// Returns the limits for the response.
    pub fn response_limits(&self) -> ResponseLimits {
        ResponseLimits {
            permits: self.inflight.permits.clone(),
            memory: self.inflight.responses.clone(),
            sender: self.sender.clone(),
            watch: self.watch.clone(),
            may_refuse: matches!(self.kind, RequestKind::Reading),
        }
    }

    /// Takes a permit, or returns an error with Retry-After.
    pub fn acquire(self) -> Result<Permit<'a>, Status> {
        let permits = match self.kind {
            RequestKind::Reading => &self.inflight.reading,
            // A watch takes its permit when it starts.
            RequestKind::Mutating | RequestKind::Watching => &self.inflight.mutating,
        };
        let permit = match self.sender {
            Some(_) => Some(permits.clone().try_acquire_owned().map_err(|_| too_many_requests())?),
            None => None,
        };
        Ok(Permit { _permit: permit, _request: self })
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            self.inflight.senders.release(sender, self.kind);
        }
    }
}

#[cfg(test)]
mod tests;
