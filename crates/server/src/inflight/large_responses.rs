//! Serialization of large responses: on blocking threads, a few at once. The memory of all but small responses is
//! counted until they are sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use atoll_meta::Status;
use bytes::Bytes;
use http::Response;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::memory::{Memory, Reservation};
use super::output::{NoRoom, OutputMemory};
use super::watch_buffer::{WatchBuffer, WatchPermit};
use super::{GROUP_DIVISOR, Sender, too_many_requests};
use crate::body::Body;

/// Responses of at least this many bytes, or made of this much JSON, are large.
pub const LARGE: usize = 256 << 10;

/// Responses of at least this many bytes are counted until they are sent. A client that reads none of them could
/// otherwise have hundreds on each connection for free.
const COUNTED_FROM: usize = 16 << 10;

/// Memory for making a response from less JSON than that without a permit.
pub const SMALL_OUTPUT: usize = 4 * LARGE;

/// The response to a request that was carried out is not refused if it is at most this many times as long as
/// its JSON.
const CERTAIN_GROWTH: usize = 4;

/// Permits for serializing large responses. The widest group of a sender gets at most half of them.
pub struct SerializationPermits {
    permits: Arc<Semaphore>,
    per_group: usize,
    groups: Mutex<HashMap<Box<str>, Weak<Semaphore>>>,
}

/// The limits for the response to a request.
pub struct ResponseLimits {
    pub(super) permits: Arc<SerializationPermits>,
    pub(super) memory: Arc<Memory>,
    pub(super) sender: Option<Sender>,
    /// Permit of a watch, if the sender is counted.
    pub(super) watch: Option<Arc<WatchPermit>>,
    /// Whether a response may be refused for lack of memory. Mutating requests have already been carried out:
    /// their responses are only counted.
    pub(super) may_refuse: bool,
}

/// A permit to serialize, until it is dropped.
pub(super) struct SerializationPermit {
    _of_all: OwnedSemaphorePermit,
    _of_group: Option<OwnedSemaphorePermit>,
}

/// Bytes with the memory reserved for them.
struct CountedBytes {
    bytes: Bytes,
    _reserved: Reservation,
    _alive: Arc<()>,
}

/// Tells the connection that memory is reserved for a response.
#[derive(Clone)]
pub struct ResponseReservation {
    pub bytes: usize,
    /// Dropped when all of the response has been sent.
    pub alive: Weak<()>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl SerializationPermits {
    /// Uses half of the cores.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        SerializationPermits::with_permits((cores / 2).max(GROUP_DIVISOR))
    }

    fn with_permits(permits: usize) -> Self {
        SerializationPermits {
            permits: Arc::new(Semaphore::new(permits)),
            per_group: (permits / GROUP_DIVISOR).max(1),
            groups: Mutex::default(),
        }
    }

    /// Waits for a permit of the group first, so that a group has few entries in the common queue.
    pub(super) async fn acquire(&self, sender: Option<&Sender>) -> Result<SerializationPermit, AcquireError> {
        let of_group = match sender.and_then(|sender| sender.0.first()) {
            Some(group) => Some(self.group(group).acquire_owned().await?),
            None => None,
        };
        Ok(SerializationPermit { _of_all: self.permits.clone().acquire_owned().await?, _of_group: of_group })
    }

    fn group(&self, name: &str) -> Arc<Semaphore> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permits) = groups.get(name).and_then(Weak::upgrade) {
            return permits;
        }
        groups.retain(|_, permits| permits.strong_count() > 0);
        let permits = Arc::new(Semaphore::new(self.per_group));
        groups.insert(name.into(), Arc::downgrade(&permits));
        permits
    }
}

impl ResponseLimits {
    /// Whether the sender is not counted: a controller or an administrator.
    pub fn is_trusted(&self) -> bool {
        self.sender.is_none()
    }

    /// Serializes a response made of `size` bytes of JSON, when a permit is available. `work` takes more
    /// memory as its output grows.
    pub async fn serialize<F>(&self, size: usize, work: F) -> Result<Response<Body>, Status>
    where
        F: FnOnce(&mut OutputMemory) -> Result<Response<Body>, NoRoom> + Send + 'static,
    {
        let failed = |error: &dyn std::fmt::Display| {
            Status::internal_error(format!("the response could not be serialized: {error}"))
        };
        let permit = self.permits.acquire(self.sender.as_ref()).await.map_err(|error| failed(&error))?;
        let mut reserved = self.empty_reservation();
        self.reserve_bytes(&mut reserved, size)?;
        let certain = if self.may_refuse { 0 } else { CERTAIN_GROWTH * size + LARGE };
        let done = tokio::task::spawn_blocking(move || {
            // The work goes on even if the request is cancelled, so the permit and the memory are kept until
            // it is done.
            let _permit = permit;
            let mut memory = OutputMemory::growing(reserved, size, certain);
            let response = work(&mut memory);
            let (reserved, refusal) = memory.finish();
            // Without a response, the memory is free again at once.
            response.map(|response| (response, reserved)).map_err(|NoRoom| refusal)
        });
        let (response, reserved) = done.await.map_err(|error| failed(&error))?.map_err(|refusal| {
            let refusal = refusal.unwrap_or_else(too_many_requests);
            match self.may_refuse {
                true => refusal,
                false => failed(&format!("the request was carried out, but {}", refusal.message())),
            }
        })?;
        let mut reserved = reserved.unwrap_or_else(|| self.empty_reservation());
        if let Body::Full(Some(bytes)) = response.body() {
            self.reserve_bytes(&mut reserved, bytes.len())?;
        }
        Ok(with_reservation(response, reserved))
    }

    /// Counts the memory of a complete response until it has been sent, unless it is small or counted already.
    pub fn reserve(&self, response: Response<Body>) -> Result<Response<Body>, Status> {
        let size = match response.body() {
            Body::Full(Some(bytes)) if bytes.len() >= COUNTED_FROM => bytes.len(),
            _ => return Ok(response),
        };
        let reservation = response.extensions().get::<ResponseReservation>();
        // A response that was compressed since has other bytes.
        if self.is_trusted() || reservation.is_some_and(|known| known.alive.strong_count() > 0) {
            return Ok(response);
        }
        let mut reserved = self.empty_reservation();
        self.reserve_bytes(&mut reserved, size)?;
        Ok(with_reservation(response, reserved))
    }

    /// Returns the buffer of a watch.
    pub fn watch_buffer(&self) -> Arc<WatchBuffer> {
        WatchBuffer::new(self.memory.clone(), self.permits.clone(), self.watch.clone())
    }

    fn empty_reservation(&self) -> Reservation {
        self.memory.empty_reservation(self.sender.clone())
    }

    fn reserve_bytes(&self, reserved: &mut Reservation, bytes: usize) -> Result<(), Status> {
        match self.may_refuse {
            true => reserved.resize(bytes),
            false => {
                reserved.force(bytes);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
impl ResponseLimits {
    /// Returns the limits of a sender that is not counted.
    pub fn without_limits() -> ResponseLimits {
        let (permits, memory) = (Arc::new(SerializationPermits::new()), Memory::new(0, 0));
        ResponseLimits { permits, memory, sender: None, watch: None, may_refuse: true }
    }
}

/// Attaches the reservation to the bytes: it is released when the last of them is dropped.
fn with_reservation(mut response: Response<Body>, reserved: Reservation) -> Response<Body> {
    if let Body::Full(Some(bytes)) = response.body_mut()
        && bytes.len() >= COUNTED_FROM
    {
        let alive = Arc::new(());
        let reservation = ResponseReservation { bytes: bytes.len(), alive: Arc::downgrade(&alive) };
        let is_counted = reserved.is_counted();
        let counted = CountedBytes { bytes: std::mem::take(bytes), _reserved: reserved, _alive: alive };
        *bytes = Bytes::from_owner(counted);
        if is_counted {
            response.extensions_mut().insert(reservation);
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

    fn limits(memory: &Arc<Memory>, sender: Option<Sender>) -> ResponseLimits {
        let permits = Arc::new(SerializationPermits::with_permits(2));
        ResponseLimits { permits, memory: memory.clone(), sender, watch: None, may_refuse: true }
    }

    async fn write(limits: &ResponseLimits, size: usize) -> Result<Response<Body>, Status> {
        let work = move |_: &mut OutputMemory| {
            Ok(respond::with_type(StatusCode::OK, "text/plain", Body::from(vec![b'x'; size])))
        };
        limits.serialize(size, work).await
    }

    #[tokio::test]
    async fn responses_count_until_they_are_sent() {
        let memory = Memory::new(16 * LARGE, 8 * LARGE);
        let (ann, bob) = (limits(&memory, Some(sender("ann"))), limits(&memory, Some(sender("bob"))));
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(write(&ann, LARGE).await.unwrap());
        }
        let refused = write(&ann, LARGE).await.err().unwrap();
        assert_eq!((refused.code(), refused.retry_after()), (429, Some(1)));
        assert!(write(&bob, 8 * LARGE).await.is_ok(), "a single response may be larger than a share");
        assert!(write(&bob, 9 * LARGE).await.is_err());
        assert!(write(&limits(&memory, None), 20 * LARGE).await.is_ok());
        let after_mutation = ResponseLimits { may_refuse: false, ..limits(&memory, Some(sender("ann"))) };
        assert!(write(&after_mutation, LARGE).await.is_ok());
        // Bytes that are being sent keep their reservation.
        let Some(Body::Full(Some(mut bytes))) = held.pop().map(Response::into_body) else { panic!() };
        let rest = bytes.split_off(10);
        drop(bytes);
        assert!(write(&ann, LARGE).await.is_err());
        drop(rest);
        assert!(write(&ann, LARGE).await.is_ok());
        drop(held);
        assert_eq!(memory.reserved(), (0, 0), "memory of dropped responses is released");
    }

    #[test]
    fn all_but_small_responses_count_once() {
        let memory = Memory::new(1 << 30, 1 << 30);
        let limits = limits(&memory, Some(sender("ann")));
        let response = |size: usize| {
            let text = respond::with_type(StatusCode::OK, "text/plain", Body::from(vec![b'x'; size]));
            limits.reserve(text).unwrap()
        };
        let small = response(COUNTED_FROM - 1);
        assert_eq!(memory.reserved().0, 0);
        let counted = limits.reserve(response(LARGE - 1)).unwrap();
        assert_eq!(memory.reserved().0, LARGE - 1);
        assert!(counted.extensions().get::<ResponseReservation>().is_some());
        // A body that replaces a counted one is counted instead.
        let replaced = limits.reserve(counted.map(|_| Body::from(vec![b'y'; COUNTED_FROM]))).unwrap();
        assert_eq!(memory.reserved().0, COUNTED_FROM);
        drop((small, replaced));
        assert_eq!(memory.reserved(), (0, 0));
    }

    #[tokio::test]
    async fn a_group_gets_half_of_the_permits() {
        let permits = SerializationPermits::with_permits(4);
        let (ann, bob) = (sender("ann"), sender("bob"));
        let _held = [permits.acquire(Some(&ann)).await.unwrap(), permits.acquire(Some(&ann)).await.unwrap()];
        let mut third = std::pin::pin!(permits.acquire(Some(&ann)));
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), third.as_mut()).await;
        assert!(waited.is_err());
        let _other = permits.acquire(Some(&bob)).await.unwrap();
        drop(_held);
        assert!(third.await.is_ok());
    }
}
