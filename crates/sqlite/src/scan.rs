//! Reads the whole log from both ends concurrently.
//!
//! Half of the time is spent in system calls, one for each page, so two connections take half as long as one.
//! The distribution of the rows is not known beforehand (compaction leaves few of the old ones), so one
//! connection reads forwards, the other backwards, and both stop where they meet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll_store::{Key, Revision};
use rusqlite::{Connection, Row};

use crate::table;

/// Logs that span fewer revisions are read by one connection: opening a second one would take longer than it
/// saves.
pub(crate) const SINGLE_CONNECTION: Revision = 8_192;

/// Number of rows between two checks of the other end's position.
const CHECK_INTERVAL: usize = 64;

/// The column that is read after the revision and the key.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Value,
    /// Whether the value is null. Overflow pages of large values are not read.
    IsDeleted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forwards,
    Backwards,
}

/// The part of the log that has not been read yet.
struct Unread {
    after: AtomicU64,
    before: AtomicU64,
}

/// Calls `visit` for every row up to `through`, on two threads if there is another connection, each with its
/// own state. Rows near the meeting point may be visited twice. Returns the states, that of the forward scan
/// first.
pub(crate) fn walk<S: Default + Send>(
    connection: &Connection,
    other: Option<Connection>,
    through: Revision,
    column: Column,
    visit: impl Fn(&mut S, Direction, &Row<'_>) -> rusqlite::Result<()> + Sync,
) -> rusqlite::Result<[S; 2]> {
    let unread = Unread { after: AtomicU64::new(0), before: AtomicU64::new(through.saturating_add(1)) };
    let end = |connection: &Connection, direction| -> rusqlite::Result<S> {
        let mut state = S::default();
        walk_end(connection, &unread, direction, column, |row| visit(&mut state, direction, row))?;
        Ok(state)
    };
    std::thread::scope(|scope| {
        let backwards = other.map(|other| scope.spawn(move || end(&other, Direction::Backwards)));
        let first = end(connection, Direction::Forwards);
        let second = match backwards.map(std::thread::ScopedJoinHandle::join) {
            Some(Ok(second)) => second,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(S::default()),
        };
        Ok([first?, second?])
    })
}

fn walk_end(
    connection: &Connection,
    unread: &Unread,
    direction: Direction,
    column: Column,
    mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let column = match column {
        Column::Value => "value",
        Column::IsDeleted => "value IS NULL",
    };
    let order = if direction == Direction::Forwards { "ASC" } else { "DESC" };
    let sql =
        format!("SELECT revision, key, {column} FROM change WHERE revision < ?1 ORDER BY revision {order}");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([table::signed(unread.before.load(Ordering::Relaxed))])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let revision = table::revision(row, 0)?;
        let is_read = match direction {
            Direction::Forwards => revision >= unread.before.load(Ordering::Relaxed),
            Direction::Backwards => revision <= unread.after.load(Ordering::Relaxed),
        };
        if is_read {
            break;
        }
        visit(row)?;
        count += 1;
        // Progress is recorded after the row was read: if this end fails, the whole scan fails.
        if count % CHECK_INTERVAL == 0 {
            match direction {
                Direction::Forwards => unread.after.store(revision, Ordering::Relaxed),
                Direction::Backwards => unread.before.store(revision, Ordering::Relaxed),
            }
        }
    }
    Ok(())
}

/// Each key that had a value at `at`, with its revision and the result of `read` for its last change: `None`
/// if that was a deletion.
pub(crate) fn latest<V: Send>(
    connection: &Connection,
    other: Option<Connection>,
    at: Revision,
    column: Column,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<Option<V>> + Sync,
) -> rusqlite::Result<BTreeMap<Key, (Revision, V)>> {
    type LatestByKey<V> = BTreeMap<Key, (Revision, Option<V>)>;
    let [mut found, mut later] =
        walk(connection, other, at, column, |found: &mut LatestByKey<V>, direction, row| {
            let key = row.get_ref(1)?.as_str()?;
            match found.get_mut(key) {
                Some(_) if direction == Direction::Backwards => {}
                Some(known) => *known = (table::revision(row, 0)?, read(row)?),
                None => drop(found.insert(Key::from(key), (table::revision(row, 0)?, read(row)?))),
            }
            Ok(())
        })?;
    found.append(&mut later);
    Ok(found.into_iter().filter_map(|(key, (revision, read))| Some((key, (revision, read?)))).collect())
}
