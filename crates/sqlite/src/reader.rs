//! The reader thread: ranges, and the replays that bring a follower up to date.

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

/// How much a follower is given at once while it catches up.
const REPLAY_COUNT: usize = 2048;
const REPLAY_BYTES: usize = 4 << 20;

/// How far behind a follower may be for writers to wait until it has caught up.
const TAIL: Revision = 512;

/// How often a follower tries to get that close before writers wait for it in any case.
const ROUNDS: usize = 8;

pub(crate) enum Request {
    Range {
        range: Range,
        at: Option<Revision>,
        limit: usize,
        reply: oneshot::Sender<Result<Page, ReadError>>,
    },
    Last {
        bytes: usize,
        reply: oneshot::Sender<Result<Revision, ReadError>>,
    },
    Visit {
        visit: Visit,
        reply: oneshot::Sender<Result<(), ReadError>>,
    },
    Follow {
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
    /// To tell the writer that a replay no longer keeps rows from being swept away.
    jobs: mpsc::WeakSender<Job>,
}

impl Reader {
    pub fn new(database: Arc<Database>, published: Arc<Published>, jobs: mpsc::WeakSender<Job>) -> Self {
        Reader { database, published, jobs }
    }

    pub fn run(self, requests: blocking::Receiver<Request>) {
        // Whoever asked may have gone away since; then nobody wants the answer.
        while let Ok(request) = requests.recv() {
            match request {
                Request::Range { range, at, limit, reply } => {
                    let _ = reply.send(self.range(range, at, limit));
                }
                Request::Last { bytes, reply } => {
                    let _ = reply.send(self.last(bytes));
                }
                Request::Visit { visit, reply } => {
                    let _ = reply.send(self.visit(&visit));
                }
                Request::Follow { after, sink, reply } => {
                    let _ = reply.send(self.follow(after, sink));
                    if let Some(jobs) = self.jobs.upgrade() {
                        // A full queue wakes the writer just as well.
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
            // The snapshot begins under the lock: it then has every row that memory knows of, and compaction
            // cannot have taken away what is asked for.
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
            let other = self.second(connection)?;
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
                // Everyone is given the same keys, so that they are in memory once.
                Entry { key: known.next_if_eq(&&key).cloned().unwrap_or(key), value, revision }
            });
            Ok(Page { entries: entries.collect(), revision, more: false })
        })
    }

    fn last(&self, bytes: usize) -> Result<Revision, ReadError> {
        let compacted = self.published.state().compacted;
        self.reading(|connection| Ok(table::last(connection, compacted, bytes)?))
    }

    fn visit(&self, visit: &Visit) -> Result<(), ReadError> {
        let through = self.published.state().revision;
        self.reading(|connection| {
            let other = self.second(connection)?;
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

    /// Another connection for reading the whole log, if that is long enough.
    fn second(&self, connection: &Connection) -> rusqlite::Result<Option<Connection>> {
        let revision = self.published.state().revision;
        let is_long = table::span(connection, revision)? > scan::SHORT;
        is_long.then(|| self.database.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)).transpose()
    }

    fn follow(&self, after: Revision, mut sink: Sink) -> Result<(), ReadError> {
        let published = &self.published;
        let _hold = published.hold(after)?;
        let mut seen = after;
        for _ in 0..ROUNDS {
            let revision = published.state().revision;
            if revision - seen <= TAIL {
                break;
            }
            if self.replay(seen, revision, &mut sink)?.is_break() {
                return Ok(());
            }
            seen = revision;
        }
        // Nothing is published while this is held, so what is replayed now and what comes later fit together.
        let mut followers = published.followers();
        let revision = published.state().revision;
        if seen < revision && self.replay(seen, revision, &mut sink)?.is_break() {
            return Ok(());
        }
        followers.push(sink);
        Ok(())
    }

    /// Gives the sink what happened after `after`, up to `through`.
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

    fn reading<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, ReadError> {
        let outcome = self.database.read(read, |fault| matches!(fault, Fault::Sqlite(_)));
        outcome.map_err(|fault| match fault {
            Fault::Answer(error) => error,
            Fault::Sqlite(error) => ReadError::Unavailable(Unavailable::Failed(error.to_string())),
        })
    }
}

/// Why nothing was read.
enum Fault {
    Answer(ReadError),
    Sqlite(rusqlite::Error),
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        Fault::Answer(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sqlite(error)
    }
}

/// Begins a snapshot now: SQLite would otherwise begin it with the first read.
fn snapshot(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    let transaction = connection.unchecked_transaction()?;
    touch(&transaction)?;
    Ok(transaction)
}

/// The same for a connection that is used for nothing else.
fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    touch(connection)
}

fn touch(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("SELECT id FROM mark")?.query_row([], |_| Ok(()))
}

/// Reads the values of what was found: one entry more than the limit if there is more.
fn page(
    connection: &Connection,
    mut found: Vec<(Key, Revision)>,
    revision: Revision,
    limit: usize,
) -> Result<Page, Fault> {
    let more = limit != 0 && found.len() > limit;
    if more {
        found.truncate(limit);
    }
    // In the order in which they lie on the disk.
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
            Err(Fault::Answer(ReadError::Unavailable(Unavailable::Failed(cause))))
        }
    });
    Ok(Page { entries: entries.collect::<Result<_, _>>()?, revision, more })
}
