//! Deletes compacted rows in small steps.
//!
//! A row can be deleted once another row up to the compacted revision has replaced it, or if it is a deletion
//! itself. Each row contains the revision that it replaced, so one pass over the unswept rows finds all of
//! them. Every step commits its progress; after a crash the pass continues from there.

use std::time::{Duration, Instant};

use atoll_store::{Revision, Unavailable, WriteError};
use rusqlite::Connection;

use crate::table;
use crate::writer::{Reply, Writer};

/// Number of rows in one step, and the time after which it commits. Writes wait at most that long.
const STEP_COUNT: usize = 512;
const STEP_TIME: Duration = Duration::from_millis(2);

pub(crate) struct Sweep {
    /// The revision up to which rows have been swept.
    pub swept: Revision,
    /// Whether the disk failed: no further attempt until another operation has succeeded.
    pub stalled: bool,
    waiting: Vec<(Revision, Reply<()>)>,
}

impl Sweep {
    pub fn new(swept: Revision) -> Self {
        Sweep { swept, stalled: false, waiting: Vec::new() }
    }

    /// Replies once everything up to `through` has been swept or sweeping has failed again.
    pub fn wait(&mut self, through: Revision, reply: Reply<()>) {
        self.stalled = false;
        self.waiting.push((through, reply));
        self.answer();
    }

    fn answer(&mut self) {
        // The caller may have stopped waiting.
        for (_, reply) in self.waiting.extract_if(.., |(through, _)| *through <= self.swept) {
            let _ = reply.send(Ok(()));
        }
    }

    fn fail(&mut self, cause: &Unavailable) {
        tracing::warn!(%cause, "compaction stopped; it continues after the next successful write");
        self.stalled = true;
        for (_, reply) in self.waiting.drain(..) {
            let _ = reply.send(Err(WriteError::Unavailable(cause.clone())));
        }
    }
}

impl Writer {
    pub(crate) fn must_sweep(&self) -> bool {
        !self.sweep.stalled && self.sweep.swept < self.published.sweepable()
    }

    /// Runs one step if there are rows to sweep.
    pub(crate) fn sweep_step(&mut self) {
        if !self.must_sweep() {
            return;
        }
        let through = self.published.sweepable();
        match self.attempt(|writer, connection| step(connection, writer.sweep.swept, through)) {
            Ok(swept) => {
                self.sweep.swept = swept;
                self.sweep.answer();
            }
            Err(cause) => self.sweep.fail(&cause),
        }
    }
}

/// Sweeps some rows after `swept`, up to `through`. Returns the revision up to which rows have been swept.
fn step(connection: &Connection, swept: Revision, through: Revision) -> rusqlite::Result<Revision> {
    let started = Instant::now();
    table::begin(connection)?;
    let rows = table::row_headers(connection, swept, through, STEP_COUNT)?;
    let mut last = rows.len() < STEP_COUNT;
    let mut reached = swept;
    for row in rows {
        // However slow the disk is, every step processes at least one row.
        if started.elapsed() >= STEP_TIME && reached > swept {
            last = false;
            break;
        }
        if row.previous != 0 {
            table::delete(connection, row.previous)?;
        }
        if row.deletes {
            table::delete(connection, row.revision)?;
        }
        reached = row.revision;
    }
    if last {
        reached = through;
    }
    let mut mark = table::mark(connection)?;
    mark.swept = reached;
    table::set_mark(connection, mark)?;
    table::commit(connection)?;
    Ok(reached)
}
