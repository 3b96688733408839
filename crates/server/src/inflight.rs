//! How many requests may be under way at once: in all, and of one user.
//!
//! A request counts for its sender from its first byte on, and takes one of the places that all senders share once its body
//! has arrived. A sender that is slow, or sends much, thus uses up its own share and keeps no other sender waiting.
//!
//! ```text
//!   head ─► Share of the sender ─► body, within its time and memory ─► Place ─► verb ─► answer, within memory
//! ```
//!
//! Of the memory for bodies, and of that for large answers until they have been sent, senders have the same parts.

mod desk;
mod memory;

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

use self::desk::Desk;
pub use self::desk::{Held, LARGE, Room};
use self::memory::{Memory, Reserved};
use crate::request::RequestInfo;
use crate::workspace::Workspace;
use crate::{MAX_BODY, health, impersonation};

/// The part of all places that one sender may have: a quarter.
const SHARE: usize = 4;
/// The part of a circle's share that a circle in it may have, a child workspace or a user: a half.
const PART: usize = 2;
/// Bytes a second that a body has to arrive with, after the time that any body may take.
const SLOWEST: u32 = 32 << 10;
/// Memory for large answers on their way, for all senders.
const ANSWERS: usize = 1 << 30;

pub struct InFlight {
    reading: Arc<Semaphore>,
    mutating: Arc<Semaphore>,
    limits: [usize; 2],
    bodies: Arc<Memory>,
    answers: Arc<Memory>,
    desk: Arc<Desk>,
    /// How long any body may take.
    patience: Duration,
    senders: Arc<Senders>,
}

/// Requests under way of each sender, those that read and those that write. Who has none has no entry.
#[derive(Default)]
struct Senders(Mutex<HashMap<Box<str>, [usize; 2]>>);

/// What a request counts for, the widest circle first: the workspaces on the way, the workspace itself, then the user; in the
/// root the namespace of a ServiceAccount, then the account. A tenant that makes up names of users, accounts or workspaces
/// stays within a circle that existed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender(Arc<[Box<str>]>);

impl Sender {
    /// `workspace` is the one that the request is in.
    pub fn of(user: &User, workspace: Option<&Workspace>) -> Sender {
        let Some(home) = &user.home else {
            return Sender([format!("user {}", user.name).into()].into());
        };
        let mut circles: Vec<Box<str>> = Vec::new();
        if let Some(Workspace::One { id, steps, .. }) = workspace.filter(|workspace| !workspace.is_root()) {
            let on_the_way = steps.iter().skip(1).map(|step| step.parent.as_str());
            circles.extend(on_the_way.chain([id.as_str()]).map(|id| format!("workspace {id}").into()));
        }
        let account = impersonation::account(&user.name).filter(|_| circles.is_empty());
        // A user who may create one ServiceAccount in a namespace may create more. Only the accounts of agents in the
        // root's own namespace are made one by one by administrators, and one agent must not silence another.
        if let Some((namespace, _)) = account.filter(|own| (own.0, home.as_str()) != (SYSTEM_NAMESPACE, ROOT))
        {
            circles.push(format!("accounts of {namespace} of {home}").into());
        }
        circles.push(format!("user {} of {home}", user.name).into());
        Sender(circles.into())
    }
}

/// A request that counts for its sender, until it is dropped.
pub struct Share<'a> {
    inflight: &'a InFlight,
    kind: Kind,
    /// A request that is exempt has none.
    sender: Option<Sender>,
    /// For the body, until the request is over.
    memory: Reserved,
}

/// Keeps a place taken for as long as a request lasts.
pub struct Place<'a> {
    _permit: Option<OwnedSemaphorePermit>,
    _share: Share<'a>,
}

#[derive(Clone, Copy)]
enum Kind {
    Reading = 0,
    Mutating = 1,
}

fn busy() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

impl InFlight {
    /// So many that read and so many that write, with bodies that arrive in `patience` or fast enough.
    pub fn new(reading: usize, mutating: usize, patience: Duration) -> Self {
        InFlight {
            reading: Arc::new(Semaphore::new(reading)),
            mutating: Arc::new(Semaphore::new(mutating)),
            limits: [reading, mutating],
            bodies: Memory::new(mutating.max(SHARE).saturating_mul(MAX_BODY), MAX_BODY),
            answers: Memory::new(ANSWERS, ANSWERS / 2),
            desk: Arc::new(Desk::new()),
            patience,
            senders: Arc::default(),
        }
    }

    /// Counts a request for its sender, if it has one, or advises to come back later. Requests that last for as long as their
    /// client wants are not counted; nor are probes, or a busy server would be taken for a dead one.
    pub fn begin(&self, request: &RequestInfo, sender: Option<Sender>) -> Result<Share<'_>, Status> {
        let is_probe = !request.is_resource && health::is_check(&request.path);
        let is_exempt = request.is_long_running() || is_probe;
        let reads = matches!(request.verb, "get" | "list" | "head");
        let kind = if reads { Kind::Reading } else { Kind::Mutating };
        let sender = sender.filter(|_| !is_exempt);
        if let Some(sender) = &sender {
            self.senders.count(sender, kind, self.limits[kind as usize])?;
        }
        let memory = self.bodies.nothing(sender.clone());
        Ok(Share { inflight: self, kind, sender, memory })
    }
}

impl Senders {
    fn count(&self, sender: &Sender, kind: Kind, limit: usize) -> Result<(), Status> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut share = limit / SHARE;
        for circle in sender.0.iter() {
            let count = counts.get(circle).map_or(0, |counts| counts[kind as usize]);
            if count >= share.max(1) {
                return Err(busy());
            }
            share /= PART;
        }
        for circle in sender.0.iter() {
            counts.entry(circle.clone()).or_default()[kind as usize] += 1;
        }
        Ok(())
    }

    fn discount(&self, sender: &Sender, kind: Kind) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for circle in sender.0.iter() {
            if let Some(count) = counts.get_mut(circle) {
                count[kind as usize] = count[kind as usize].saturating_sub(1);
                if *count == [0, 0] {
                    counts.remove(circle);
                }
            }
        }
    }
}

impl<'a> Share<'a> {
    /// The whole body, up to the limit, if it arrives fast enough. Requests that read have no use for one: it is not looked at.
    pub async fn read<B>(&mut self, body: B) -> Result<Bytes, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if body.is_end_stream() || matches!(self.kind, Kind::Reading) {
            return Ok(Bytes::new());
        }
        let began = Instant::now();
        let mut body = std::pin::pin!(Limited::new(body, MAX_BODY));
        let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
        loop {
            let received = first.len() + rest.len();
            let extra = Duration::from_secs(1) * u32::try_from(received).unwrap_or(u32::MAX) / SLOWEST;
            let frame = match timeout_at(began + self.inflight.patience + extra, body.frame()).await {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => {
                    return Err(Status::timeout("the body of the request did not arrive fast enough", 0));
                }
            };
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => Status::request_entity_too_large(format!("limit is {MAX_BODY}")),
                false => Status::bad_request(error.to_string()),
            })?;
            let Ok(data) = frame.into_data() else { continue };
            self.memory.resize(received + data.len())?;
            // Most bodies come in one piece, which need not be copied.
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

    /// What there is for the answer.
    pub fn room(&self) -> Room {
        Room {
            desk: self.inflight.desk.clone(),
            memory: self.inflight.answers.clone(),
            sender: self.sender.clone(),
            may_refuse: matches!(self.kind, Kind::Reading),
        }
    }

    /// A place among all requests, or the advice to come back later.
    pub fn enter(self) -> Result<Place<'a>, Status> {
        let places = match self.kind {
            Kind::Reading => &self.inflight.reading,
            Kind::Mutating => &self.inflight.mutating,
        };
        let permit = match self.sender {
            Some(_) => Some(places.clone().try_acquire_owned().map_err(|_| busy())?),
            None => None,
        };
        Ok(Place { _permit: permit, _share: self })
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            self.inflight.senders.discount(sender, self.kind);
        }
    }
}

#[cfg(test)]
mod tests;
