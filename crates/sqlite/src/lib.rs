//! The embedded store: SQLite, written by one thread that commits whatever has queued up.
//!
//! ```text
//!  write ──► queue ──► writer thread ──► COMMIT (one fdatasync) ──► followers ──► acknowledged
//!                        │    ▲                                        ▲
//!                        │    └─ compaction, a few milliseconds at a time
//!                        ▼                                             │
//!                     Published: key → revision, in memory             │
//!                        ▲                                             │
//!  range, follow ──► reader thread ──► a snapshot of the table ── replay
//! ```
//!
//! The table is an append-only log with one row per change and no index besides the revision: the server reads
//! from memory, so the disk is only read to start, to replay, and in tests. What a write is checked against (the
//! revision of each key that has a value) is in memory too; a write never reads the disk.
//!
//! Two connections, each owned by a thread. The reader's snapshots never wait for the writer nor it for them,
//! and a disk that can no longer be written to can still be read.
//!
//! Pages that compaction frees are used again by later writes; the file does not shrink. Compaction runs all the
//! time, so the file stays at about the size of the data and the history that is kept, and giving pages back to
//! the file system only to ask for them again would cost every write.

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
pub use open::{OpenError, Options, Synchronous};
use published::Published;
use reader::Request;
use tokio::sync::{Semaphore, mpsc, oneshot};
use writer::Job;

/// How many writes may wait for the writer thread before further callers wait outside.
const QUEUE: usize = 4096;

/// How many bytes of values may wait for the writer thread before further callers wait outside.
const ROOM: u32 = 64 << 20;

/// The largest value. SQLite refuses what is larger than 1 GB, and would take the whole batch down with it.
const MAX_VALUE: usize = 256 << 20;

/// A store in a directory of its own. One process at a time can have it open.
pub struct SqliteStore {
    published: Arc<Published>,
    jobs: mpsc::Sender<Job>,
    requests: blocking::Sender<Request>,
    room: Arc<Semaphore>,
    closed: AtomicBool,
    /// Ends before the writer does: the connection that is closed last tidies up, and only the writer's can.
    reader: Option<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the store in `directory`, or makes one there if there is none. Blocks until every key is in memory.
    pub fn open(directory: &Path, options: Options) -> Result<SqliteStore, OpenError> {
        let open::Opened { database, lock, writer, contents } = open::open(directory, options)?;
        let swept = contents.mark.swept;
        let published = Arc::new(Published::new(contents));

        let (jobs, queue) = mpsc::channel(QUEUE);
        let (requests, asked) = blocking::channel();
        let reader = reader::Reader::new(database.clone(), published.clone(), jobs.downgrade());
        let writer = writer::Writer::new(database.clone(), published.clone(), writer, queue, swept, lock);
        let start = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.into())
                .spawn(body)
                .map_err(|error| OpenError::Failed { path: directory.into(), cause: error.to_string() })
        };
        let reader = start("store-reader", Box::new(move || reader.run(asked)))?;
        let writer = start("store-writer", Box::new(move || writer.run()))?;
        Ok(SqliteStore {
            published,
            jobs,
            requests,
            room: Arc::new(Semaphore::new(ROOM as usize)),
            closed: AtomicBool::new(false),
            reader: Some(reader),
            writer: Some(writer),
        })
    }

    /// Carries out what is queued, moves the log into the database and lets go of the directory. Whatever is
    /// asked afterwards is answered with `Closed`. Compaction that is not finished goes on at the next start.
    pub async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let (reply, done) = oneshot::channel();
        if self.requests.send(Request::Close { reply }).is_ok() {
            // An error means that the thread is gone already, which is what is wanted.
            let _ = done.await;
        }
        let (reply, done) = oneshot::channel();
        if self.jobs.send(Job::Close { reply }).await.is_ok() {
            let _ = done.await;
        }
    }

    /// Leaves nothing in the files of what was overwritten or deleted and has been compacted since: its pages would
    /// otherwise stay until they are used again.
    pub async fn shred(&self) -> Result<(), WriteError> {
        self.open_or(WriteError::Unavailable)?;
        self.command(|reply| Job::Shred { reply }).await
    }

    /// Why a thread does not answer.
    fn gone(&self) -> Unavailable {
        match self.closed.load(Ordering::Acquire) {
            true => Unavailable::Closed,
            false => Unavailable::Failed("its thread has stopped; restart the server".into()),
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
        // The writer ends by itself when the last sender is gone and the queue is empty.
        drop(std::mem::replace(&mut self.jobs, mpsc::channel(1).0));
        join(self.writer.take());
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    // A sink may own the last reference to the store, and a thread cannot wait for itself. That a thread has
    // panicked was reported when it happened.
    if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
        let _ = thread.join();
    }
}

impl Store for SqliteStore {
    /// A caller that goes away before the write was queued has written nothing; later, it may have.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move {
            self.open_or(WriteError::Unavailable)?;
            let size = write.value.as_ref().map_or(0, |value| value.len());
            if size > MAX_VALUE {
                let cause = format!("a value of {size} bytes is too large; the limit is {MAX_VALUE}");
                return Err(WriteError::Unavailable(Unavailable::Failed(cause)));
            }
            // One value may be larger than all the room there is: it then waits for all of it.
            let wanted = u32::try_from(size).unwrap_or(ROOM).clamp(1, ROOM);
            let room = self.room.clone().acquire_many_owned(wanted).await;
            let room = room.map_err(|_| WriteError::Unavailable(self.gone()))?;
            self.command(|reply| Job::Write(writer::Pending { write, reply, _room: room })).await
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

    fn last(&self, bytes: usize) -> BoxFuture<'_, Result<Revision, ReadError>> {
        Box::pin(self.request(move |reply| Request::Last { bytes, reply }))
    }

    fn visit(&self, visit: Visit) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(self.request(move |reply| Request::Visit { visit, reply }))
    }

    fn follow(&self, after: Revision, sink: Sink) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(self.request(move |reply| Request::Follow { after, sink, reply }))
    }

    /// Returns when the rows are gone from the table, which other writes do not wait for.
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
