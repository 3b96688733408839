//! Data of a watch that its client has not read yet. It is limited for each watch, and counts for the sender
//! like a large response.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use atoll_meta::Status;
use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, sleep};

use super::large_responses::SerializationPermits;
use super::memory::{Memory, Reservation};
use super::{RequestKind, Sender, Senders};

/// Bytes that may be unread. A larger event is sent when the client has read everything else.
const MAX_UNREAD: usize = 256 << 10;
/// Bytes of each watch that do not count for the sender, because most watches send little.
const UNCOUNTED: usize = 16 << 10;
/// Interval in which a watch tries again to reserve memory, at first and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// The right to watch, until it is dropped.
pub struct WatchPermit {
    pub(super) senders: Arc<Senders>,
    pub(super) sender: Sender,
    pub(super) _of_all: OwnedSemaphorePermit,
}

/// The unread data of a watch.
pub struct WatchBuffer {
    unread: Mutex<UnreadData>,
    /// Notified when the client has read something. Only the watch itself waits for it.
    read: Notify,
    memory: Arc<Memory>,
    permits: Arc<SerializationPermits>,
    /// Kept while anything is unread, even if the watch has ended. `None` if the sender is not counted.
    permit: Option<Arc<WatchPermit>>,
}

/// How much is unread, and for how long nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadData {
    pub bytes: usize,
    pub since: Instant,
}

/// Bytes that count as unread until this is dropped.
pub struct UnreadBytes {
    buffer: Arc<WatchBuffer>,
    bytes: usize,
    _reserved: Reservation,
}

/// Tells the connection about the unread data of a watch.
#[derive(Clone)]
pub struct WatchProgress(pub Weak<WatchBuffer>);

/// A chunk with the bytes that count for it.
struct CountedChunk {
    chunk: Bytes,
    _unread: Arc<UnreadBytes>,
}

impl AsRef<[u8]> for CountedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.chunk
    }
}

impl Drop for WatchPermit {
    fn drop(&mut self) {
        self.senders.release(&self.sender, RequestKind::Watching);
    }
}

impl WatchBuffer {
    pub fn new(
        memory: Arc<Memory>,
        permits: Arc<SerializationPermits>,
        permit: Option<Arc<WatchPermit>>,
    ) -> Arc<Self> {
        let unread = Mutex::new(UnreadData { bytes: 0, since: Instant::now() });
        Arc::new(WatchBuffer { unread, read: Notify::new(), memory, permits, permit })
    }

    pub fn is_counted(&self) -> bool {
        self.permit.is_some()
    }

    /// Reserves memory that the watch needs until it ends, such as that of its selector. Little is not counted.
    pub fn reserve_for_watch(&self, bytes: usize) -> Result<Reservation, Status> {
        let sender = self.permit.as_ref().map(|permit| permit.sender.clone());
        let mut reserved = self.memory.empty_reservation(sender.filter(|_| bytes > UNCOUNTED));
        reserved.resize(bytes)?;
        Ok(reserved)
    }

    /// Returns what is unread, if anything is.
    pub fn unread(&self) -> Option<UnreadData> {
        let unread = *self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        (unread.bytes > 0).then_some(unread)
    }

    /// Waits until about `bytes` more may be encoded and sent. There must be only one caller at a time.
    pub async fn reserve(self: &Arc<Self>, bytes: usize) -> UnreadBytes {
        let before = loop {
            let unread = self.unread().map_or(0, |unread| unread.bytes);
            if unread == 0 || unread + bytes <= MAX_UNREAD {
                break unread;
            }
            self.read.notified().await;
        };
        let sender = self.permit.as_ref().map(|permit| permit.sender.clone());
        let is_counted = before + bytes > UNCOUNTED;
        let mut reserved = self.memory.empty_reservation(sender.filter(|_| is_counted));
        let [mut pause, longest] = RETRY;
        // The memory is free again when another watch or response of the sender has been read.
        while reserved.resize(bytes).is_err() {
            sleep(pause).await;
            pause = (2 * pause).min(longest);
        }
        self.change(0, bytes);
        UnreadBytes { buffer: self.clone(), bytes, _reserved: reserved }
    }

    /// Encodes a large event on a blocking thread, like a large response. `None` if that failed.
    pub async fn encode<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let sender = self.permit.as_ref().map(|permit| &permit.sender);
        let permit = self.permits.acquire(sender).await.ok()?;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.ok()
    }

    /// Changes the number of unread bytes. `since` is the time of the first unread byte or the last read one.
    fn change(&self, less: usize, more: usize) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        if less > 0 || unread.bytes == 0 {
            unread.since = Instant::now();
        }
        unread.bytes = unread.bytes.saturating_sub(less).saturating_add(more);
    }
}

impl UnreadBytes {
    /// Attaches the unread bytes to the chunks that were encoded: they count until the last one is dropped.
    pub fn attach(mut self, chunks: Vec<Bytes>) -> impl ExactSizeIterator<Item = Bytes> {
        let bytes = chunks.iter().map(Bytes::len).sum();
        if bytes > self.bytes {
            self.buffer.change(0, bytes - self.bytes);
            self._reserved.force(bytes);
            self.bytes = bytes;
        }
        let unread = Arc::new(self);
        chunks
            .into_iter()
            .map(move |chunk| Bytes::from_owner(CountedChunk { chunk, _unread: unread.clone() }))
    }
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        self.buffer.change(self.bytes, 0);
        self.buffer.read.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::Semaphore;

    use super::*;

    fn buffer(memory: &Arc<Memory>, name: &str) -> Arc<WatchBuffer> {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = WatchPermit {
            senders: Arc::default(),
            sender: Sender([name].map(Box::from).into()),
            _of_all: semaphore.try_acquire_owned().unwrap(),
        };
        WatchBuffer::new(memory.clone(), Arc::new(SerializationPermits::new()), Some(Arc::new(permit)))
    }

    async fn waits(buffer: &Arc<WatchBuffer>, bytes: usize) -> bool {
        tokio::time::timeout(Duration::from_secs(5), buffer.reserve(bytes)).await.is_err()
    }

    fn chunk(bytes: usize) -> Bytes {
        Bytes::from(vec![b'x'; bytes])
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_waits_until_its_client_has_read() {
        let memory = Memory::new(64 * MAX_UNREAD, 32 * MAX_UNREAD);
        let buffer = buffer(&memory, "ann");
        // One large event may be sent, and nothing more until it has been read.
        let sent: Vec<Bytes> =
            buffer.reserve(4 * MAX_UNREAD).await.attach(vec![chunk(4 * MAX_UNREAD)]).collect();
        assert!(waits(&buffer, 1).await);
        assert_eq!(memory.reserved(), (4 * MAX_UNREAD, 1));
        drop(sent);
        assert_eq!((memory.reserved(), buffer.unread()), ((0, 0), None));
        // Bytes that are being sent count until the last of them has been sent.
        let half = MAX_UNREAD / 2;
        let reserved = buffer.reserve(2 * half).await;
        let mut sent: Vec<Bytes> = reserved.attach(vec![chunk(half), chunk(half)]).collect();
        let mut last = sent.pop().unwrap();
        drop(sent);
        drop(last.split_to(half - 1));
        assert!(waits(&buffer, 1).await);
        drop(last);
        let reserved = buffer.reserve(1).await;
        assert_eq!(memory.reserved(), (0, 0), "little is not counted");
        // An estimate that was too low is corrected.
        let sent: Vec<Bytes> = reserved.attach(vec![chunk(MAX_UNREAD)]).collect();
        assert_eq!(buffer.unread().map(|unread| unread.bytes), Some(MAX_UNREAD));
        assert!(waits(&buffer, 1).await);
        drop(sent);
    }

    #[tokio::test(start_paused = true)]
    async fn watches_of_a_sender_share_its_memory() {
        let memory = Memory::new(16 * MAX_UNREAD, MAX_UNREAD);
        let buffers: Vec<_> = (0..5).map(|_| buffer(&memory, "ann")).collect();
        let mut held = Vec::new();
        for buffer in &buffers[..4] {
            held.push(buffer.reserve(MAX_UNREAD).await);
        }
        assert!(waits(&buffers[4], MAX_UNREAD).await);
        assert_eq!(buffers[4].unread(), None, "the client has nothing to read");
        assert!(!waits(&buffers[4], 100).await, "bookmarks pass");
        assert!(!waits(&buffer(&memory, "bob"), MAX_UNREAD).await);
        held.pop();
        assert!(!waits(&buffers[4], MAX_UNREAD).await);
    }

    #[tokio::test(start_paused = true)]
    async fn selectors_of_watches_count_for_their_sender() {
        let memory = Memory::new(16 * MAX_UNREAD, MAX_UNREAD);
        let (ann, bob) = (buffer(&memory, "ann"), buffer(&memory, "bob"));
        let held: Vec<_> = (0..4).map(|_| ann.reserve_for_watch(MAX_UNREAD).unwrap()).collect();
        let refused = ann.reserve_for_watch(MAX_UNREAD).map(drop).unwrap_err();
        assert_eq!(refused.reason(), "TooManyRequests");
        assert!(ann.reserve_for_watch(UNCOUNTED).is_ok(), "ordinary selectors are short");
        assert!(bob.reserve_for_watch(MAX_UNREAD).is_ok());
        drop(held);
        assert_eq!(memory.reserved(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn reading_restarts_the_time_of_unread_data() {
        let memory = Memory::new(64 * MAX_UNREAD, 32 * MAX_UNREAD);
        let buffer = buffer(&memory, "ann");
        let wait = Duration::from_secs(10);
        tokio::time::advance(wait).await;
        let first = buffer.reserve(10).await;
        let second = buffer.reserve(10).await;
        let sent = buffer.unread().unwrap();
        assert_eq!(sent, UnreadData { bytes: 20, since: Instant::now() });
        tokio::time::advance(wait).await;
        assert_eq!(buffer.unread(), Some(sent));
        drop(first);
        assert_eq!(buffer.unread(), Some(UnreadData { bytes: 10, since: Instant::now() }));
        drop(second);
        assert_eq!(buffer.unread(), None);
    }
}
