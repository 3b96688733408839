//! Deleting what compaction has made superfluous, a little at a time.
//!
//! A row is superfluous once another row up to the compacted revision has replaced it, and so is a row that
//! deletes. Each row knows which one it replaced, so one pass over the rows that were not looked at before finds
//! them all. Every step commits how far it came; after a crash the pass goes on from there.

use std::time::{Duration, Instant};

use atoll_store::{Revision, Unavailable, WriteError};
use rusqlite::Connection;

use crate::table;
use crate::writer::{Reply, Writer};

/// How many rows a step looks at, and how long it may take before it commits. Writes wait that long at most.
const STEP_COUNT: usize = 512;
const STEP_TIME: Duration = Duration::from_millis(2);

pub(crate) struct Sweep {
    /// How far rows have been looked at.
    pub swept: Revision,
    /// Whether the disk failed: no further attempt until something else has worked.
    pub stalled: bool,
    waiting: Vec<(Revision, Reply<()>)>,
}

impl Sweep {
    pub fn new(swept: Revision) -> Self {
        Sweep { swept, stalled: false, waiting: Vec::new() }
    }

    /// Answers once everything up to `through` has been swept, or that has failed once more.
    pub fn wait(&mut self, through: Revision, reply: Reply<()>) {
        self.stalled = false;
        self.waiting.push((through, reply));
        self.answer();
    }

    fn answer(&mut self) {
        // Whoever asked may not have waited.
        for (_, reply) in self.waiting.extract_if(.., |(through, _)| *through <= self.swept) {
            let _ = reply.send(Ok(()));
        }
    }

    fn fail(&mut self, cause: &Unavailable) {
        tracing::warn!(%cause, "compaction has stopped; it goes on after the next write that works");
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

    /// Takes one step, if there is one to take.
    pub(crate) fn sweep_some(&mut self) {
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

/// Looks at some rows after `swept`, up to `through`, and deletes what they make superfluous. Returns how far it
/// came.
fn step(connection: &Connection, swept: Revision, through: Revision) -> rusqlite::Result<Revision> {
    let started = Instant::now();
    table::begin(connection)?;
    let rows = table::slim(connection, swept, through, STEP_COUNT)?;
    let mut last = rows.len() < STEP_COUNT;
    let mut reached = swept;
    for row in rows {
        // However slow the disk is, every step gets one row further.
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
