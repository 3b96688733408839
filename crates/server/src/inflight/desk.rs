//! Serialization of large responses: on blocking threads, a few at once, with memory counted until they are
//! sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use atoll_meta::Status;
use bytes::Bytes;
use http::Response;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::memory::{Memory, Reserved};
use super::{PART, Sender};
use crate::body::Body;

/// Responses of at least this many bytes, or made of this much JSON, are large.
pub const LARGE: usize = 256 << 10;

/// Permits for serializing large responses. The widest group of a sender gets at most half of them.
pub struct Desk {
    turns: Arc<Semaphore>,
    part: usize,
    circles: Mutex<HashMap<Box<str>, Weak<Semaphore>>>,
}

/// The limits for the response to a request.
pub struct Room {
    pub(super) desk: Arc<Desk>,
    pub(super) memory: Arc<Memory>,
    pub(super) sender: Option<Sender>,
    /// Whether a response may be refused for lack of memory. Mutating requests have already been carried out:
    /// their responses are only counted.
    pub(super) may_refuse: bool,
}

/// A permit to serialize, until it is dropped.
struct Turn {
    _of_all: OwnedSemaphorePermit,
    _of_circle: Option<OwnedSemaphorePermit>,
}

/// Bytes with the memory reserved for them.
struct Kept {
    bytes: Bytes,
    _reserved: Reserved,
    _there: Arc<()>,
}

/// Tells the connection that memory is reserved for a response.
#[derive(Clone)]
pub struct Held {
    pub bytes: usize,
    /// Dropped when all of the response has been sent.
    pub there: Weak<()>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Desk {
    /// Uses half of the cores.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Desk::with((cores / 2).max(PART))
    }

    fn with(turns: usize) -> Self {
        Desk {
            turns: Arc::new(Semaphore::new(turns)),
            part: (turns / PART).max(1),
            circles: Mutex::default(),
        }
    }

    /// Waits for a permit of the group first, so that a group has few entries in the common queue.
    async fn turn(&self, sender: Option<&Sender>) -> Result<Turn, AcquireError> {
        let of_circle = match sender.and_then(|sender| sender.0.first()) {
            Some(circle) => Some(self.circle(circle).acquire_owned().await?),
            None => None,
        };
        Ok(Turn { _of_all: self.turns.clone().acquire_owned().await?, _of_circle: of_circle })
    }

    fn circle(&self, name: &str) -> Arc<Semaphore> {
        let mut circles = self.circles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = circles.get(name).and_then(Weak::upgrade) {
            return turns;
        }
        circles.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(self.part));
        circles.insert(name.into(), Arc::downgrade(&turns));
        turns
    }
}

impl Room {
    /// Serializes a response made of `size` bytes of JSON, when a permit is available.
    pub async fn write<F>(&self, size: usize, work: F) -> Result<Response<Body>, Status>
    where
        F: FnOnce() -> Response<Body> + Send + 'static,
    {
        let failed = |error: &dyn std::fmt::Display| {
            Status::internal_error(format!("the response could not be serialized: {error}"))
        };
        let turn = self.desk.turn(self.sender.as_ref()).await.map_err(|error| failed(&error))?;
        let mut reserved = self.nothing();
        self.take(&mut reserved, size)?;
        let done = tokio::task::spawn_blocking(move || {
            // The work goes on even if the request is cancelled, so the permit and the memory are kept until
            // it is done.
            let _turn = turn;
            (work(), reserved)
        });
        let (response, mut reserved) = done.await.map_err(|error| failed(&error))?;
        if let Body::Full(Some(bytes)) = response.body() {
            self.take(&mut reserved, bytes.len())?;
        }
        Ok(kept(response, reserved))
    }

    /// Counts the memory of a complete response until it has been sent.
    pub fn keep(&self, response: Response<Body>) -> Result<Response<Body>, Status> {
        let size = match response.body() {
            Body::Full(Some(bytes)) if bytes.len() >= LARGE => bytes.len(),
            _ => return Ok(response),
        };
        let mut reserved = self.nothing();
        self.take(&mut reserved, size)?;
        Ok(kept(response, reserved))
    }

    fn nothing(&self) -> Reserved {
        self.memory.nothing(self.sender.clone())
    }

    fn take(&self, reserved: &mut Reserved, bytes: usize) -> Result<(), Status> {
        match self.may_refuse {
            true => reserved.resize(bytes),
            false => {
                reserved.force(bytes);
                Ok(())
            }
        }
    }
}

/// Attaches the reservation to the bytes: it is released when the last of them is dropped.
fn kept(mut response: Response<Body>, reserved: Reserved) -> Response<Body> {
    if let Body::Full(Some(bytes)) = response.body_mut()
        && bytes.len() >= LARGE
    {
        let there = Arc::new(());
        let held = Held { bytes: bytes.len(), there: Arc::downgrade(&there) };
        let is_counted = reserved.is_counted();
        let kept = Kept { bytes: std::mem::take(bytes), _reserved: reserved, _there: there };
        *bytes = Bytes::from_owner(kept);
        if is_counted {
            response.extensions_mut().insert(held);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::respond;

    fn sender(name: &str) -> Sender {
        Sender([name].map(Box::from).into())
    }

    fn room(memory: &Arc<Memory>, sender: Option<Sender>) -> Room {
        let desk = Arc::new(Desk::with(2));
        Room { desk, memory: memory.clone(), sender, may_refuse: true }
    }

    async fn write(room: &Room, size: usize) -> Result<Response<Body>, Status> {
        let work = move || respond::with_type(StatusCode::OK, "text/plain", Body::from(vec![b'x'; size]));
        room.write(size, work).await
    }

    #[tokio::test]
    async fn responses_count_until_they_are_sent() {
        let memory = Memory::new(16 * LARGE, 8 * LARGE);
        let (ann, bob) = (room(&memory, Some(sender("ann"))), room(&memory, Some(sender("bob"))));
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(write(&ann, LARGE).await.unwrap());
        }
        let refused = write(&ann, LARGE).await.err().unwrap();
        assert_eq!((refused.code(), refused.retry_after()), (429, Some(1)));
        assert!(write(&bob, 8 * LARGE).await.is_ok(), "a single response may be larger than a share");
        assert!(write(&bob, 9 * LARGE).await.is_err());
        assert!(write(&room(&memory, None), 20 * LARGE).await.is_ok());
        let after_mutation = Room { may_refuse: false, ..room(&memory, Some(sender("ann"))) };
        assert!(write(&after_mutation, LARGE).await.is_ok());
        // Bytes that are being sent keep their reservation.
        let Some(Body::Full(Some(mut bytes))) = held.pop().map(Response::into_body) else { panic!() };
        let rest = bytes.split_off(10);
        drop(bytes);
        assert!(write(&ann, LARGE).await.is_err());
        drop(rest);
        assert!(write(&ann, LARGE).await.is_ok());
        drop(held);
        assert_eq!(memory.taken(), (0, 0), "memory of dropped responses is released");
    }

    #[tokio::test]
    async fn a_group_gets_half_of_the_permits() {
        let desk = Desk::with(4);
        let (ann, bob) = (sender("ann"), sender("bob"));
        let _held = [desk.turn(Some(&ann)).await.unwrap(), desk.turn(Some(&ann)).await.unwrap()];
        let mut third = std::pin::pin!(desk.turn(Some(&ann)));
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), third.as_mut()).await;
        assert!(waited.is_err());
        let _other = desk.turn(Some(&bob)).await.unwrap();
        drop(_held);
        assert!(third.await.is_ok());
    }
}
