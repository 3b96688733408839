//! The writer thread, which executes all changes to the tables.
//!
//! It takes all queued writes, checks the conditions in order, appends the rows and commits once. Only then
//! are the changes delivered to the subscribers, and only after that do the writes return. An unmet condition
//! is reported at the same time, because it may be due to an earlier write of the same batch.
//!
//! If anything fails before the end of the commit, the contents of the disk are unknown. Every write of the
//! batch fails, its revisions are not reused, and the connection is closed. The next write opens another
//! connection and reads the log: changes that did reach the disk are published then, so that memory and disk
//! agree again.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use atoll_store::{Batch, Change, Guard, Key, Revision, Unavailable, Write, WriteError};
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::open::Database;
use crate::published::Published;
use crate::sweep::Sweep;
use crate::table::{self, Mark};

/// Maximum size of one commit. More would not be faster, and the first write would wait for the last.
const BATCH_COUNT: usize = 1024;
const BATCH_BYTES: usize = 8 << 20;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, WriteError>>;

pub(crate) enum Job {
    Write(Pending),
    Compact {
        through: Revision,
        reply: Reply<()>,
    },
    Raise {
        to: Revision,
        reply: Reply<()>,
    },
    Shred {
        reply: Reply<()>,
    },
    /// A replay that may have blocked sweeping has ended.
    Sweep,
    Close {
        reply: oneshot::Sender<()>,
    },
}

pub(crate) struct Pending {
    pub write: Write,
    pub reply: Reply<Revision>,
    /// The value's part of the limit on queued bytes.
    pub _permit: OwnedSemaphorePermit,
}

pub(crate) struct Writer {
    pub(crate) database: Arc<Database>,
    pub(crate) published: Arc<Published>,
    /// `None` after a fault, until the next attempt to write.
    connection: Option<Connection>,
    queue: mpsc::Receiver<Job>,
    /// The highest revision assigned to any write, including those of failed batches.
    assigned: Revision,
    pub(crate) sweep: Sweep,
    /// Number of pages in the log after the last commit, and the number at which it is moved into the
    /// database.
    log_pages: Arc<AtomicU32>,
    checkpoint_at: u32,
    closing: Vec<oneshot::Sender<()>>,
    lock: File,
}

impl Writer {
    pub fn new(
        database: Arc<Database>,
        published: Arc<Published>,
        connection: Connection,
        queue: mpsc::Receiver<Job>,
        swept: Revision,
        lock: File,
    ) -> Self {
        let assigned = published.state().revision;
        let mut writer = Writer {
            assigned,
            sweep: Sweep::new(swept),
            checkpoint_at: database.options.checkpoint_pages,
            database,
            published,
            connection: None,
            queue,
            log_pages: Arc::default(),
            closing: Vec::new(),
            lock,
        };
        writer.connection = Some(writer.watch_log(connection));
        writer
    }

    pub fn run(mut self) {
        let mut jobs = Vec::with_capacity(BATCH_COUNT);
        while self.receive(&mut jobs) {
            self.execute(&mut jobs);
            self.sweep_step();
            self.checkpoint();
        }
        if let Some(connection) = self.connection {
            self.database.finish(connection);
        }
        // Unlock explicitly: a child process that is being started may still share the open file.
        let _ = self.lock.unlock();
        for reply in self.closing {
            // The caller may have stopped waiting.
            let _ = reply.send(());
        }
    }

    /// Waits for jobs; returns `false` if there will be no more.
    fn receive(&mut self, jobs: &mut Vec<Job>) -> bool {
        if !self.must_sweep() || !self.closing.is_empty() {
            return self.queue.blocking_recv_many(jobs, BATCH_COUNT) > 0;
        }
        while jobs.len() < BATCH_COUNT {
            match self.queue.try_recv() {
                Ok(job) => jobs.push(job),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return !jobs.is_empty(),
            }
        }
        true
    }

    fn execute(&mut self, jobs: &mut Vec<Job>) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for job in jobs.drain(..) {
            let Job::Write(pending) = job else {
                self.write_all(std::mem::take(&mut batch));
                bytes = 0;
                self.command(job);
                continue;
            };
            bytes += pending.write.value.as_ref().map_or(0, |value| value.len());
            batch.push(pending);
            if bytes >= BATCH_BYTES {
                self.write_all(std::mem::take(&mut batch));
                bytes = 0;
            }
        }
        self.write_all(batch);
    }

    fn command(&mut self, job: Job) {
        match job {
            Job::Write(pending) => self.write_all(vec![pending]),
            Job::Compact { through, reply } => match self.compact(through) {
                Ok(through) => self.sweep.wait(through, reply),
                Err(error) => drop(reply.send(Err(error))),
            },
            Job::Raise { to, reply } => drop(reply.send(self.raise(to))),
            Job::Shred { reply } => {
                let outcome = self.attempt(|_, connection| table::shred(connection));
                drop(reply.send(outcome.map_err(WriteError::Unavailable)));
            }
            Job::Sweep => {}
            Job::Close { reply } => {
                self.queue.close();
                self.closing.push(reply);
            }
        }
    }

    /// Executes writes in one transaction and sends the results.
    fn write_all(&mut self, batch: Vec<Pending>) {
        if batch.is_empty() {
            return;
        }
        let mut changes = Vec::with_capacity(batch.len());
        let answers = self.attempt(|writer, connection| writer.append_all(connection, &batch, &mut changes));
        match answers {
            Ok(answers) => {
                if let Some(revision) = changes.last().map(|change: &Change| change.revision) {
                    self.published.publish(&Batch { changes, revision }, None);
                }
                // The caller may have stopped waiting.
                for (pending, answer) in batch.into_iter().zip(answers) {
                    let _ = pending.reply.send(answer);
                }
            }
            Err(cause) => {
                for pending in batch {
                    let _ = pending.reply.send(Err(WriteError::Unavailable(cause.clone())));
                }
            }
        }
    }

    fn append_all(
        &mut self,
        connection: &Connection,
        batch: &[Pending],
        changes: &mut Vec<Change>,
    ) -> rusqlite::Result<Vec<Result<Revision, WriteError>>> {
        // Revisions of keys that this batch has changed, which are not published yet.
        let mut ahead = HashMap::new();
        let mut answers = Vec::with_capacity(batch.len());
        for Pending { write, .. } in batch {
            let (key, previous) = match self.check(write, &ahead, changes.last()) {
                Ok(found) => found,
                Err(unmet) => {
                    answers.push(Err(unmet));
                    continue;
                }
            };
            if changes.is_empty() {
                table::begin(connection)?;
            }
            self.assigned += 1;
            table::append(connection, self.assigned, previous.unwrap_or(0), &key, write.value.as_deref())?;
            ahead.insert(key.clone(), write.value.as_ref().map(|_| self.assigned));
            answers.push(Ok(self.assigned));
            let (value, hint) = (write.value.clone(), write.hint.clone());
            changes.push(Change { key, revision: self.assigned, value, hint });
        }
        if !changes.is_empty() {
            table::commit(connection)?;
        }
        Ok(answers)
    }

    /// Checks the conditions of a write. Returns the shared key and the revision of its value.
    fn check(
        &self,
        write: &Write,
        ahead: &HashMap<Key, Option<Revision>>,
        last: Option<&Change>,
    ) -> Result<(Key, Option<Revision>), WriteError> {
        let state = self.published.state();
        let actual = |key: &Key| match ahead.get(key) {
            Some(revision) => *revision,
            None => state.live.get(key).copied(),
        };
        let revision = last.map_or(state.revision, |change| change.revision);
        let unmet = |key: &Key| WriteError::Unmet { key: key.clone(), actual: actual(key), revision };
        let previous = actual(&write.key);
        if !write.expect.holds(previous) || (write.value.is_none() && previous.is_none()) {
            return Err(unmet(&write.key));
        }
        for Guard { key, condition } in &write.guards {
            if !condition.holds(actual(key)) {
                return Err(unmet(key));
            }
        }
        let key = match ahead.get_key_value(&write.key) {
            Some((known, _)) => known,
            None => state.live.get_key_value(&write.key).map_or(&write.key, |(known, _)| known),
        };
        Ok((key.clone(), previous))
    }

    /// Records compaction up to `through` durably; the rows are deleted later. Returns the compacted
    /// revision.
    fn compact(&mut self, through: Revision) -> Result<Revision, WriteError> {
        let (revision, compacted) = {
            let state = self.published.state();
            (state.revision, state.compacted)
        };
        let through = through.min(revision);
        if through > compacted {
            self.mark(|mark| mark.compacted = through)?;
            self.published.state().compacted = through;
        }
        Ok(through)
    }

    fn raise(&mut self, to: Revision) -> Result<(), WriteError> {
        let revision = self.assigned.max(to);
        self.mark(|mark| (mark.revision, mark.compacted) = (revision, revision))?;
        self.assigned = revision;
        self.published.publish(&Batch { changes: Vec::new(), revision }, Some(revision));
        Ok(())
    }

    /// Changes the mark and stores the highest revision in it: compaction may delete the log row that has
    /// that revision, but no later one.
    fn mark(&mut self, change: impl FnOnce(&mut Mark)) -> Result<(), WriteError> {
        let outcome = self.attempt(|_, connection| {
            table::begin(connection)?;
            let mut mark = table::mark(connection)?;
            change(&mut mark);
            table::set_mark(connection, mark)?;
            table::commit(connection)
        });
        outcome.map_err(WriteError::Unavailable)
    }

    /// Runs `work` on the tables. If it fails, the connection is not used again.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self, &Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Unavailable> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.reconnect()?,
        };
        let outcome = work(self, &connection);
        match outcome {
            Ok(done) => {
                self.connection = Some(connection);
                self.sweep.stalled = false;
                Ok(done)
            }
            Err(error) => {
                drop(connection);
                Err(self.database.unavailable(&error))
            }
        }
    }

    /// Opens another connection after a fault, and updates the state in memory from the tables.
    fn reconnect(&mut self) -> Result<Connection, Unavailable> {
        let connection = self.watch_log(self.database.recover()?);
        let of_sqlite = |error: rusqlite::Error| self.database.unavailable(&error);
        let mark = table::mark(&connection).map_err(of_sqlite)?;
        let (revision, compacted) = {
            let state = self.published.state();
            (state.revision, state.compacted)
        };
        if mark.revision > revision || mark.compacted > compacted {
            // Publish changes that reached the disk although their writes failed.
            let mut changes = Vec::new();
            let collect = |change| {
                changes.push(change);
                ControlFlow::Continue(())
            };
            table::changes(&connection, revision, mark.revision, collect).map_err(of_sqlite)?;
            self.published.publish(&Batch { changes, revision: mark.revision }, Some(mark.compacted));
        }
        self.assigned = self.assigned.max(mark.revision);
        self.sweep.swept = mark.swept;
        Ok(connection)
    }

    /// Installs a hook that records the length of the log at each commit.
    fn watch_log(&self, mut connection: Connection) -> Connection {
        let pages = self.log_pages.clone();
        let hook = move |_: &mut Wal, now: c_int| {
            pages.store(u32::try_from(now).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        // Without the hook, the log only becomes longer than necessary.
        let _ = connection.wal_hook(Some(hook));
        connection
    }

    /// Moves the log into the database once it is long enough. Only the next write waits for that: the
    /// previous ones have returned.
    fn checkpoint(&mut self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < self.checkpoint_at || self.connection.is_none() {
            return;
        }
        let outcome = self.attempt(|_, connection| table::checkpoint(connection, "PASSIVE"));
        // Everything is still in the log, but the connection's state is not trusted; the next write opens
        // another one.
        let all = outcome.unwrap_or_else(|cause| {
            tracing::warn!(%cause, "cannot checkpoint the write-ahead log into the database; the log grows until a checkpoint succeeds");
            false
        });
        // If a snapshot blocks the checkpoint, it will for a while.
        let wait = self.database.options.checkpoint_pages;
        self.checkpoint_at = if all { wait } else { pages.saturating_add(wait) };
        self.log_pages.store(0, Ordering::Relaxed);
    }
}
