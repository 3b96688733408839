//! The embedded store: SQLite, with one writer thread that commits all queued writes together.
//!
//! ```text
//!  write ──► queue ──► writer thread ──► COMMIT (one fdatasync) ──► subscribers ► acknowledged
//!                        │    ▲                                        ▲
//!                        │    └─ compaction, a few milliseconds at a time
//!                        ▼                                             │
//!                     Published: key → revision, in memory             │
//!                        ▲                                             │
//!  range, subscribe ► reader thread ──► a snapshot of the table ── replay
//! ```
//!
//! The table is an append-only log with one row per change and no index besides the revision: the server
//! reads from memory, so the disk is only read at startup, for replay and in tests. The data that a write is
//! checked against (the revision of each key that has a value) is in memory too; a write never reads the
//! disk.
//!
//! There are two connections, each owned by a thread. The reader's snapshots and the writer never wait for
//! each other, and a disk that can no longer be written to can still be read.
//!
//! Pages that compaction frees are reused by later writes; the file does not shrink. Compaction runs all the
//! time, so the file stays at about the size of the data and the history. Returning pages to the file system
//! only to allocate them again would slow down every write.

mod fault;
mod open;
mod published;
mod reader;
mod scan;
mod sweep;
mod table;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc as blocking};
use std::thread::JoinHandle;

use atoll_store::{
    BoxFuture, MAX_REVISION, Page, Range, ReadError, Revision, Sink, Store, Unavailable, Visit, Write,
    WriteError,
};
pub use open::{OpenError, SqliteOptions, Synchronous};
use published::Published;
use reader::Request;
use tokio::sync::{Semaphore, mpsc, oneshot};
use writer::Job;

/// Maximum number of writes in the writer thread's queue; further callers wait.
const QUEUE: usize = 4096;

/// Maximum size in bytes of the values in the writer thread's queue; further callers wait.
const QUEUED_BYTES: u32 = 64 << 20;

/// The largest value. SQLite refuses values larger than 1 GB, which would fail the whole batch.
const MAX_VALUE: usize = 256 << 20;

/// A store in its own directory, opened by at most one process at a time.
pub struct SqliteStore {
    published: Arc<Published>,
    jobs: mpsc::Sender<Job>,
    requests: blocking::Sender<Request>,
    queued_bytes: Arc<Semaphore>,
    closed: AtomicBool,
    /// Stopped before the writer: the connection that is closed last moves the log into the database, and
    /// only the writer's can.
    reader: Option<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the store in `directory`, or creates one. Blocks until every key is in memory.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<SqliteStore, OpenError> {
        let open::Opened { database, lock, writer, contents } = open::open(directory, options)?;
        let swept = contents.mark.swept;
        let published = Arc::new(Published::new(contents));

        let (jobs, queue) = mpsc::channel(QUEUE);
        let (requests, request_queue) = blocking::channel();
        let reader = reader::Reader::new(database.clone(), published.clone(), jobs.downgrade());
        let writer = writer::Writer::new(database.clone(), published.clone(), writer, queue, swept, lock);
        let start = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.into())
                .spawn(body)
                .map_err(|error| OpenError::Failed { path: directory.into(), cause: error.to_string() })
        };
        let reader = start("store-reader", Box::new(move || reader.run(request_queue)))?;
        let writer = start("store-writer", Box::new(move || writer.run()))?;
        Ok(SqliteStore {
            published,
            jobs,
            requests,
            queued_bytes: Arc::new(Semaphore::new(QUEUED_BYTES as usize)),
            closed: AtomicBool::new(false),
            reader: Some(reader),
            writer: Some(writer),
        })
    }

    /// Executes queued writes, moves the log into the database and releases the directory. Later calls fail
    /// with `Closed`. An unfinished compaction continues at the next start.
    pub async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let (reply, done) = oneshot::channel();
        if self.requests.send(Request::Close { reply }).is_ok() {
            // An error means that the thread has already ended.
            let _ = done.await;
        }
        let (reply, done) = oneshot::channel();
        if self.jobs.send(Job::Close { reply }).await.is_ok() {
            let _ = done.await;
        }
    }

    /// Removes overwritten, deleted and compacted values from the files: their pages would otherwise stay
    /// until they are reused.
    pub async fn shred(&self) -> Result<(), WriteError> {
        self.open_or(WriteError::Unavailable)?;
        self.command(|reply| Job::Shred { reply }).await
    }

    /// The reason why a thread does not respond.
    fn gone(&self) -> Unavailable {
        match self.closed.load(Ordering::Acquire) {
            true => Unavailable::Closed,
            false => Unavailable::Failed("the store's thread has stopped; restart the server".into()),
        }
    }

    async fn command<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, WriteError>>) -> Job,
    ) -> Result<T, WriteError> {
        let (reply, answer) = oneshot::channel();
        if self.jobs.send(job(reply)).await.is_err() {
            return Err(WriteError::Unavailable(self.gone()));
        }
        answer.await.unwrap_or_else(|_| Err(WriteError::Unavailable(self.gone())))
    }

    async fn request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, ReadError>>) -> Request,
    ) -> Result<T, ReadError> {
        let (reply, answer) = oneshot::channel();
        if self.requests.send(request(reply)).is_err() {
            return Err(ReadError::Unavailable(self.gone()));
        }
        answer.await.unwrap_or_else(|_| Err(ReadError::Unavailable(self.gone())))
    }

    fn open_or<E>(&self, error: fn(Unavailable) -> E) -> Result<(), E> {
        if self.closed.load(Ordering::Acquire) { Err(error(Unavailable::Closed)) } else { Ok(()) }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        let (reply, _) = oneshot::channel();
        let _ = self.requests.send(Request::Close { reply });
        join(self.reader.take());
        // The writer ends when the last sender is dropped and the queue is empty.
        drop(std::mem::replace(&mut self.jobs, mpsc::channel(1).0));
        join(self.writer.take());
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    // A sink may own the last reference to the store, and a thread cannot join itself. A panic of the thread
    // was reported when it happened.
    if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
        let _ = thread.join();
    }
}

impl Store for SqliteStore {
    /// If the future is dropped before the write was queued, nothing is written; later, it may be.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move {
            self.open_or(WriteError::Unavailable)?;
            let size = write.value.as_ref().map_or(0, |value| value.len());
            if size > MAX_VALUE {
                let cause = format!("a value of {size} bytes is too large; the limit is {MAX_VALUE}");
                return Err(WriteError::Unavailable(Unavailable::Failed(cause)));
            }
            // A value may be larger than the whole limit: it then waits for all of it.
            let wanted = u32::try_from(size).unwrap_or(QUEUED_BYTES).clamp(1, QUEUED_BYTES);
            let permit = self.queued_bytes.clone().acquire_many_owned(wanted).await;
            let permit = permit.map_err(|_| WriteError::Unavailable(self.gone()))?;
            self.command(|reply| Job::Write(writer::Pending { write, reply, _permit: permit })).await
        })
    }

    fn range(
        &self,
        range: Range,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(self.request(move |reply| Request::Range { range, at, limit, reply }))
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        let answer = self.open_or(ReadError::Unavailable).map(|()| self.published.state().revision);
        Box::pin(std::future::ready(answer))
    }

    fn compacted(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        let answer = self.open_or(ReadError::Unavailable).map(|()| self.published.state().compacted);
        Box::pin(std::future::ready(answer))
    }

    fn tail_start(&self, bytes: usize) -> BoxFuture<'_, Result<Revision, ReadError>> {
        Box::pin(self.request(move |reply| Request::TailStart { bytes, reply }))
    }

    fn visit(&self, visit: Visit) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(self.request(move |reply| Request::Visit { visit, reply }))
    }

    fn subscribe(&self, after: Revision, sink: Sink) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(self.request(move |reply| Request::Subscribe { after, sink, reply }))
    }

    /// Returns when the rows are deleted from the table. Other writes do not wait for that.
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        Box::pin(async move {
            self.open_or(WriteError::Unavailable)?;
            self.command(|reply| Job::Compact { through, reply }).await
        })
    }

    fn raise(&self, to: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        Box::pin(async move {
            self.open_or(WriteError::Unavailable)?;
            if to > MAX_REVISION {
                return Err(WriteError::Unavailable(Unavailable::revision_too_high(to)));
            }
            self.command(|reply| Job::Raise { to, reply }).await
        })
    }
}
