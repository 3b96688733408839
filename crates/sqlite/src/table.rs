//! The tables, and all SQL statements.
//!
//! `change` is the log: one row per change, found by revision only. The value is the last column, so that
//! reading the other columns never touches the overflow pages of a large value.
//!
//! `mark` has one row that is never deleted: compaction may delete every row of the log, and revisions must
//! not be reused even then.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use atoll_store::{Change, Key, Revision};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::scan::{self, Column};

/// "atol", which distinguishes a store from other SQLite databases.
pub(crate) const APPLICATION: i64 = 0x6174_6f6c;

/// The format that this version reads and writes.
pub(crate) const FORMAT: i64 = 1;

/// The row of the table `mark`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The highest assigned revision at the last update of the row; the log may have higher ones.
    pub revision: Revision,
    pub compacted: Revision,
    /// The revision up to which compaction has deleted rows. Less than `compacted` while it is running.
    pub swept: Revision,
}

/// The part of the tables that is kept in memory.
pub(crate) struct Contents {
    pub live: BTreeMap<Key, Revision>,
    pub mark: Mark,
}

/// A row of the log without its key and value.
pub(crate) struct RowHeader {
    pub revision: Revision,
    /// The revision whose value this change replaced, 0 if the key had none.
    pub previous: Revision,
    pub deletes: bool,
}

pub(crate) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE change (
             revision INTEGER PRIMARY KEY,
             previous INTEGER NOT NULL,
             key TEXT NOT NULL,
             value BLOB
         );
         CREATE TABLE mark (
             id INTEGER PRIMARY KEY CHECK (id = 1),
             revision INTEGER NOT NULL,
             compacted INTEGER NOT NULL,
             swept INTEGER NOT NULL
         );
         INSERT INTO mark VALUES (1, 0, 0, 0);
         PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {FORMAT};
         COMMIT;"
    ))
}

pub(crate) fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)
}

pub(crate) fn commit(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("COMMIT")?.execute([]).map(drop)
}

/// Moves the log into the database. Returns whether all of it was moved: an open snapshot may need some.
pub(crate) fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<bool> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let (busy, pages, moved): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(!busy && pages == moved)
    })
}

/// Rewrites the database without free pages, and empties the log.
pub(crate) fn shred(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("VACUUM")?;
    checkpoint(connection, "TRUNCATE").map(drop)
}

pub(crate) fn append(
    connection: &Connection,
    revision: Revision,
    previous: Revision,
    key: &str,
    value: Option<&[u8]>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO change (revision, previous, key, value) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![signed(revision), signed(previous), key, value])
        .map(drop)
}

/// Reads the mark, with the highest revision of both mark and log.
pub(crate) fn mark(connection: &Connection) -> rusqlite::Result<Mark> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT revision FROM change ORDER BY revision DESC LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    connection.prepare_cached("SELECT revision, compacted, swept FROM mark")?.query_row([], |row| {
        Ok(Mark {
            revision: revision(row, 0)?.max(unsigned(last.unwrap_or(0))),
            compacted: revision(row, 1)?,
            swept: revision(row, 2)?,
        })
    })
}

pub(crate) fn set_mark(connection: &Connection, mark: Mark) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE mark SET revision = ?1, compacted = ?2, swept = ?3")?
        .execute(params![signed(mark.revision), signed(mark.compacted), signed(mark.swept)])
        .map(drop)
}

/// Upper bound of the number of revisions in the log.
pub(crate) fn span(connection: &Connection, through: Revision) -> rusqlite::Result<Revision> {
    let first: Option<i64> = connection
        .prepare_cached("SELECT revision FROM change ORDER BY revision LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(first.map_or(0, |first| through.saturating_sub(unsigned(first))))
}

/// Reads the whole log once. `other` opens another connection to the same tables.
pub(crate) fn contents(
    connection: &Connection,
    other: impl FnOnce() -> rusqlite::Result<Connection>,
) -> rusqlite::Result<Contents> {
    let mark = mark(connection)?;
    let other = (span(connection, mark.revision)? > scan::SINGLE_CONNECTION).then(other).transpose()?;
    let is_there = |row: &Row<'_>| Ok((!row.get::<_, bool>(2)?).then_some(()));
    let live = scan::latest(connection, other, mark.revision, Column::IsDeleted, is_there)?;
    Ok(Contents { live: live.into_iter().map(|(key, (revision, ()))| (key, revision)).collect(), mark })
}

/// The newest revision after which values of more than `bytes` bytes were written, `compacted` if there is
/// none.
pub(crate) fn tail_start(
    connection: &Connection,
    compacted: Revision,
    bytes: usize,
) -> rusqlite::Result<Revision> {
    let mut statement = connection.prepare_cached(
        "SELECT revision, coalesce(length(value), 0) FROM change WHERE revision > ?1 ORDER BY revision DESC",
    )?;
    let mut rows = statement.query([signed(compacted)])?;
    let mut seen = 0_usize;
    while let Some(row) = rows.next()? {
        if seen > bytes {
            return revision(row, 0);
        }
        seen = seen.saturating_add(usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX));
    }
    Ok(compacted)
}

/// The value that was written at `at`; `None` if there is no such row.
pub(crate) fn value(connection: &Connection, at: Revision) -> rusqlite::Result<Option<Bytes>> {
    connection
        .prepare_cached("SELECT value FROM change WHERE revision = ?1")?
        .query_row([signed(at)], |row| Ok(row.get_ref(0)?.as_blob_or_null()?.map(Bytes::copy_from_slice)))
        .optional()
        .map(Option::flatten)
}

/// Calls `visit` for every change after `after` up to `through`, in order.
pub(crate) fn changes(
    connection: &Connection,
    after: Revision,
    through: Revision,
    mut show: impl FnMut(Change) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT revision, key, value FROM change WHERE revision > ?1 AND revision <= ?2 ORDER BY revision",
    )?;
    let mut rows = statement.query([signed(after), signed(through)])?;
    while let Some(row) = rows.next()? {
        let change = Change {
            revision: revision(row, 0)?,
            key: Key::from(row.get_ref(1)?.as_str()?),
            value: value_of(row)?,
            hint: None,
        };
        if show(change).is_break() {
            break;
        }
    }
    Ok(())
}

/// At most `limit` rows after `after` up to `through`, in order. `typeof` needs only the head of a row, whereas
/// `IS NULL` would read all of a large value.
pub(crate) fn row_headers(
    connection: &Connection,
    after: Revision,
    through: Revision,
    limit: usize,
) -> rusqlite::Result<Vec<RowHeader>> {
    connection
        .prepare_cached(
            "SELECT revision, previous, typeof(value) = 'null' FROM change
             WHERE revision > ?1 AND revision <= ?2 ORDER BY revision LIMIT ?3",
        )?
        .query_map(params![signed(after), signed(through), limit as i64], |row| {
            Ok(RowHeader { revision: revision(row, 0)?, previous: revision(row, 1)?, deletes: row.get(2)? })
        })?
        .collect()
}

pub(crate) fn delete(connection: &Connection, at: Revision) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM change WHERE revision = ?1")?.execute([signed(at)]).map(drop)
}

/// Reads the value from the third column of a row.
pub(crate) fn value_of(row: &Row<'_>) -> rusqlite::Result<Option<Bytes>> {
    Ok(row.get_ref(2)?.as_blob_or_null()?.map(Bytes::copy_from_slice))
}

pub(crate) fn revision(row: &Row<'_>, column: usize) -> rusqlite::Result<Revision> {
    row.get(column).map(unsigned)
}

pub(crate) fn signed(revision: Revision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn unsigned(revision: i64) -> Revision {
    Revision::try_from(revision).unwrap_or(0)
}
