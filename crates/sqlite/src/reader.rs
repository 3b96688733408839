//! The reader thread: ranges, and replays for new subscribers.

use std::ops::ControlFlow;
use std::sync::{Arc, mpsc as blocking};

use atoll_store::{Batch, Change, Entry, Key, Page, Range, ReadError, Revision, Sink, Unavailable, Visit};
use rusqlite::{Connection, OpenFlags, Row, Transaction};
use tokio::sync::{mpsc, oneshot};

use crate::open::Database;
use crate::published::Published;
use crate::scan::{self, Column};
use crate::table;
use crate::writer::Job;

/// Maximum size of one batch during replay.
const REPLAY_COUNT: usize = 2048;
const REPLAY_BYTES: usize = 4 << 20;

/// Number of missing changes below which writers wait until a subscriber has caught up.
const FINAL_REPLAY: Revision = 512;

/// Number of attempts to get that close before writers wait in any case.
const REPLAY_ATTEMPTS: usize = 8;

pub(crate) enum Request {
    Range {
        range: Range,
        at: Option<Revision>,
        limit: usize,
        reply: oneshot::Sender<Result<Page, ReadError>>,
    },
    TailStart {
        bytes: usize,
        reply: oneshot::Sender<Result<Revision, ReadError>>,
    },
    Visit {
        visit: Visit,
        reply: oneshot::Sender<Result<(), ReadError>>,
    },
    Subscribe {
        after: Revision,
        sink: Sink,
        reply: oneshot::Sender<Result<(), ReadError>>,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
}

pub(crate) struct Reader {
    database: Arc<Database>,
    published: Arc<Published>,
    /// Notifies the writer that a replay no longer blocks sweeping.
    jobs: mpsc::WeakSender<Job>,
}

impl Reader {
    pub fn new(database: Arc<Database>, published: Arc<Published>, jobs: mpsc::WeakSender<Job>) -> Self {
        Reader { database, published, jobs }
    }

    pub fn run(self, requests: blocking::Receiver<Request>) {
        // Send errors are ignored: the caller may have stopped waiting.
        while let Ok(request) = requests.recv() {
            match request {
                Request::Range { range, at, limit, reply } => {
                    let _ = reply.send(self.range(range, at, limit));
                }
                Request::TailStart { bytes, reply } => {
                    let _ = reply.send(self.tail_start(bytes));
                }
                Request::Visit { visit, reply } => {
                    let _ = reply.send(self.visit(&visit));
                }
                Request::Subscribe { after, sink, reply } => {
                    let _ = reply.send(self.subscribe(after, sink));
                    if let Some(jobs) = self.jobs.upgrade() {
                        // A full queue wakes the writer as well.
                        let _ = jobs.try_send(Job::Sweep);
                    }
                }
                Request::Close { reply } => {
                    self.database.close_reader();
                    let _ = reply.send(());
                    return;
                }
            }
        }
    }

    fn range(&self, range: Range, at: Option<Revision>, limit: usize) -> Result<Page, ReadError> {
        if range.is_everything() && limit == 0 {
            return self.everything(at);
        }
        let published = &self.published;
        self.reading(|connection| {
            // The snapshot starts under the lock: it then has every row that the state in memory refers to,
            // and compaction cannot have removed the requested rows.
            let state = published.state();
            let revision = at.unwrap_or(state.revision);
            state.readable(revision)?;
            let snapshot = snapshot(connection)?;
            if range.is_empty() {
                return Ok(Page { entries: Vec::new(), revision, more: false });
            }
            let bounds = (range.start, range.end);
            let wanted = if limit == 0 { usize::MAX } else { limit.saturating_add(1) };
            let copy = |(key, revision): (&Key, &Revision)| (key.clone(), *revision);
            let found: Vec<(Key, Revision)> = if revision == state.revision {
                state.live.range(bounds).take(wanted).map(copy).collect()
            } else {
                drop(state);
                let is_there = |row: &Row<'_>| Ok((!row.get::<_, bool>(2)?).then_some(()));
                let live = scan::latest(&snapshot, None, revision, Column::IsDeleted, is_there)?;
                let wanted = live.range(bounds).take(wanted);
                wanted.map(|(key, (revision, ()))| (key.clone(), *revision)).collect()
            };
            page(&snapshot, found, revision, limit)
        })
    }

    /// All keys and values, in one pass over the log.
    fn everything(&self, at: Option<Revision>) -> Result<Page, ReadError> {
        let published = &self.published;
        self.reading(|connection| {
            let other = self.second_connection(connection)?;
            let state = published.state();
            let revision = at.unwrap_or(state.revision);
            state.readable(revision)?;
            let snapshot = snapshot(connection)?;
            other.as_ref().map(begin).transpose()?;
            drop(state);
            let found = scan::latest(&snapshot, other, revision, Column::Value, table::value_of)?;
            let state = published.state();
            let mut known = state.live.keys().peekable();
            let entries = found.into_iter().map(|(key, (revision, value))| {
                while known.next_if(|known| **known < key).is_some() {}
                // Reuse the known keys, so that each is in memory once.
                Entry { key: known.next_if_eq(&&key).cloned().unwrap_or(key), value, revision }
            });
            Ok(Page { entries: entries.collect(), revision, more: false })
        })
    }

    fn tail_start(&self, bytes: usize) -> Result<Revision, ReadError> {
        let compacted = self.published.state().compacted;
        self.reading(|connection| Ok(table::tail_start(connection, compacted, bytes)?))
    }

    fn visit(&self, visit: &Visit) -> Result<(), ReadError> {
        let through = self.published.state().revision;
        self.reading(|connection| {
            let other = self.second_connection(connection)?;
            let show = |_: &mut (), _, row: &Row<'_>| {
                if let Some(value) = row.get_ref(2)?.as_blob_or_null()? {
                    visit(&Key::from(row.get_ref(1)?.as_str()?), table::revision(row, 0)?, value);
                }
                Ok(())
            };
            scan::walk(connection, other, through, Column::Value, show)?;
            Ok(())
        })
    }

    /// Opens a second connection for reading the whole log, if the log is long enough.
    fn second_connection(&self, connection: &Connection) -> rusqlite::Result<Option<Connection>> {
        let revision = self.published.state().revision;
        let is_long = table::span(connection, revision)? > scan::SINGLE_CONNECTION;
        is_long.then(|| self.database.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)).transpose()
    }

    fn subscribe(&self, after: Revision, mut sink: Sink) -> Result<(), ReadError> {
        let published = &self.published;
        let _guard = published.guard_replay(after)?;
        let mut seen = after;
        for _ in 0..REPLAY_ATTEMPTS {
            let revision = published.state().revision;
            if revision - seen <= FINAL_REPLAY {
                break;
            }
            if self.replay(seen, revision, &mut sink)?.is_break() {
                return Ok(());
            }
            seen = revision;
        }
        // Nothing is published while this lock is held, so there is no gap between replay and live changes.
        let mut subscribers = published.subscribers();
        let revision = published.state().revision;
        if seen < revision && self.replay(seen, revision, &mut sink)?.is_break() {
            return Ok(());
        }
        subscribers.push(sink);
        Ok(())
    }

    /// Replays the changes after `after`, up to `through`, to the sink.
    fn replay(
        &self,
        after: Revision,
        through: Revision,
        sink: &mut Sink,
    ) -> Result<ControlFlow<()>, ReadError> {
        let published = &self.published;
        self.reading(|connection| {
            let mut changes: Vec<Change> = Vec::new();
            let mut bytes = 0;
            let mut flow = ControlFlow::Continue(());
            table::changes(connection, after, through, |mut change| {
                if changes.len() == REPLAY_COUNT || bytes >= REPLAY_BYTES {
                    let revision = changes.last().map_or(after, |change| change.revision);
                    flow = sink(&Batch { changes: std::mem::take(&mut changes), revision });
                    bytes = 0;
                }
                if let Some((known, _)) = published.state().live.get_key_value(&change.key) {
                    change.key = known.clone();
                }
                bytes += change.value.as_ref().map_or(0, |value| value.len());
                changes.push(change);
                flow
            })?;
            if flow.is_continue() {
                flow = sink(&Batch { changes, revision: through });
            }
            Ok(flow)
        })
    }

    fn reading<T>(&self, read: impl FnOnce(&Connection) -> Result<T, ReadFailure>) -> Result<T, ReadError> {
        let outcome = self.database.read(read, |fault| matches!(fault, ReadFailure::Sqlite(_)));
        outcome.map_err(|fault| match fault {
            ReadFailure::Store(error) => error,
            ReadFailure::Sqlite(error) => ReadError::Unavailable(Unavailable::Failed(error.to_string())),
        })
    }
}

/// The reason why reading failed.
enum ReadFailure {
    Store(ReadError),
    Sqlite(rusqlite::Error),
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> Self {
        ReadFailure::Store(error)
    }
}

impl From<rusqlite::Error> for ReadFailure {
    fn from(error: rusqlite::Error) -> Self {
        ReadFailure::Sqlite(error)
    }
}

/// Starts a snapshot immediately; SQLite would otherwise start it with the first read.
fn snapshot(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    let transaction = connection.unchecked_transaction()?;
    touch(&transaction)?;
    Ok(transaction)
}

/// Starts a snapshot on a connection that is used for nothing else.
fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    touch(connection)
}

fn touch(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("SELECT id FROM mark")?.query_row([], |_| Ok(()))
}

/// Reads the values of the found keys; `found` has one entry more than the limit if there are more.
fn page(
    connection: &Connection,
    mut found: Vec<(Key, Revision)>,
    revision: Revision,
    limit: usize,
) -> Result<Page, ReadFailure> {
    let more = limit != 0 && found.len() > limit;
    if more {
        found.truncate(limit);
    }
    // Read in on-disk order.
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_unstable_by_key(|index| found[*index].1);
    let mut values = vec![None; found.len()];
    for index in order {
        values[index] = table::value(connection, found[index].1)?;
    }
    let entries = found.into_iter().zip(values).map(|((key, revision), value)| match value {
        Some(value) => Ok(Entry { key, value, revision }),
        None => {
            let cause = format!("the value of {key} at revision {revision} is missing; restore a backup");
            Err(ReadFailure::Store(ReadError::Unavailable(Unavailable::Failed(cause))))
        }
    });
    Ok(Page { entries: entries.collect::<Result<_, _>>()?, revision, more })
}
