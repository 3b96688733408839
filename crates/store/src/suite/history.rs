//! Checks that a history of client operations is linearizable.
//!
//! The store's log gives the order of the changes. A history is linearizable if every operation fits into
//! that order, with its effect and its response, at a point between its invocation and its return. No search
//! is needed.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::{Change, Condition, Entry, Guard, Key, Page, Revision, Write};

/// One operation of a client with its response. Times are logical: each is unique, later is greater.
#[derive(Clone, Debug)]
pub struct HistoryOperation {
    pub invoked: u64,
    pub returned: u64,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    Wrote {
        key: Key,
        expect: Condition,
        /// No two writes of a history have the same value.
        value: Option<Bytes>,
        guards: Vec<Guard>,
        result: WriteResult,
    },
    /// All entries were read (`past`: at a revision that the client chose).
    Read { entries: Vec<Entry>, revision: Revision, past: bool },
}

#[derive(Clone, Debug)]
pub enum WriteResult {
    Written(Revision),
    Unmet {
        key: Key,
        actual: Option<Revision>,
        revision: Revision,
    },
    /// The write may or may not have been executed, at any time since it was invoked.
    Unknown,
}

impl Action {
    pub fn wrote(write: &Write, result: WriteResult) -> Self {
        let Write { key, expect, value, guards, .. } = write.clone();
        Action::Wrote { key, expect, value, guards, result }
    }
}

type StoreState = BTreeMap<Key, (Revision, Bytes)>;

/// Checks a history against the store's log, which begins after `initial`.
pub fn check(initial: &Page, log: &[Change], operations: &[HistoryOperation]) -> Result<(), String> {
    let states = replay(&initial.entries, log)?;
    let at = |revision: Revision| match log.partition_point(|change| change.revision <= revision) {
        0 => &states[0],
        after => &states[after],
    };
    let index: HashMap<Revision, usize> =
        log.iter().enumerate().map(|(index, change)| (change.revision, index)).collect();
    let mut claimed = vec![false; log.len()];
    let floors = floors(operations);

    for (operation, floor) in operations.iter().zip(&floors) {
        match &operation.action {
            // The state before the log is unknown.
            Action::Read { revision, past: true, .. } if *revision < initial.revision => {}
            Action::Read { entries, revision, past } => {
                if !past && revision < floor {
                    return Err(format!(
                        "read revision {revision} although {floor} was known: {operation:?}"
                    ));
                }
                let expected = at(*revision).iter();
                let expected = expected.map(|(key, (revision, value))| Entry {
                    key: key.clone(),
                    value: value.clone(),
                    revision: *revision,
                });
                if !expected.eq(entries.iter().cloned()) {
                    return Err(format!("read entries that do not match the log:  {operation:?}"));
                }
            }
            Action::Wrote { key, value, result: WriteResult::Written(revision), .. } => {
                let Some(index) = index.get(revision) else {
                    return Err(format!("acknowledged, but not in the log: {operation:?}"));
                };
                if std::mem::replace(&mut claimed[*index], true) {
                    return Err(format!("revision {revision} was given out twice: {operation:?}"));
                }
                if (&log[*index].key, &log[*index].value) != (key, value) {
                    return Err(format!("the log has something else at {revision}: {operation:?}"));
                }
                if revision <= floor {
                    return Err(format!("written at {revision} although {floor} was known: {operation:?}"));
                }
                conditions_held(operation, &states[*index])?;
            }
            Action::Wrote { result: WriteResult::Unmet { key, actual, revision }, .. } => {
                if revision < floor {
                    return Err(format!("refused at {revision} although {floor} was known: {operation:?}"));
                }
                if at(*revision).get(key).map(|(revision, _)| *revision) != *actual {
                    return Err(format!("refused for a wrong reason:  {operation:?}"));
                }
                if conditions_held(operation, at(*revision)).is_ok() {
                    return Err(format!("refused although its conditions held: {operation:?}"));
                }
            }
            Action::Wrote { result: WriteResult::Unknown, .. } => {}
        }
    }
    explain_rest(log, &claimed, &states, operations, &floors)
}

/// The state before each change of the log, and after the last.
fn replay(initial: &[Entry], log: &[Change]) -> Result<Vec<StoreState>, String> {
    let first = initial.iter().map(|entry| (entry.key.clone(), (entry.revision, entry.value.clone())));
    let mut states: Vec<StoreState> = vec![first.collect()];
    let mut last = 0;
    for change in log {
        if change.revision <= last {
            return Err(format!("the log goes from {last} to {}", change.revision));
        }
        last = change.revision;
        let mut state = states.last().cloned().unwrap_or_default();
        match &change.value {
            Some(value) => drop(state.insert(change.key.clone(), (change.revision, value.clone()))),
            None => drop(state.remove(&change.key)),
        }
        states.push(state);
    }
    Ok(states)
}

/// For each operation, the highest revision that any client had received before it was invoked.
fn floors(operations: &[HistoryOperation]) -> Vec<Revision> {
    let received = |operation: &HistoryOperation| match &operation.action {
        Action::Read { revision, past: false, .. } => Some(*revision),
        Action::Wrote { result: WriteResult::Written(revision), .. } => Some(*revision),
        Action::Wrote { result: WriteResult::Unmet { revision, .. }, .. } => Some(*revision),
        Action::Read { .. } | Action::Wrote { result: WriteResult::Unknown, .. } => None,
    };
    let mut returns: Vec<(u64, Revision)> =
        operations.iter().filter_map(|operation| Some((operation.returned, received(operation)?))).collect();
    returns.sort_unstable();
    let mut highest = 0;
    for (_, revision) in &mut returns {
        highest = highest.max(*revision);
        *revision = highest;
    }
    let floor = |operation: &HistoryOperation| {
        let before = returns.partition_point(|(returned, _)| *returned < operation.invoked);
        before.checked_sub(1).map_or(0, |index| returns[index].1)
    };
    operations.iter().map(floor).collect()
}

fn conditions_held(operation: &HistoryOperation, state: &StoreState) -> Result<(), String> {
    let Action::Wrote { key, expect, value, guards, .. } = &operation.action else { return Ok(()) };
    let actual = |key: &Key| state.get(key).map(|(revision, _)| *revision);
    let own = expect.holds(actual(key)) && (value.is_some() || actual(key).is_some());
    if own && guards.iter().all(|guard| guard.condition.holds(actual(&guard.key))) {
        return Ok(());
    }
    Err(format!("written although its conditions did not hold: {operation:?}"))
}

/// Checks that every change in the log without an acknowledged write belongs to a write with unknown result.
fn explain_rest(
    log: &[Change],
    claimed: &[bool],
    states: &[StoreState],
    operations: &[HistoryOperation],
    floors: &[Revision],
) -> Result<(), String> {
    let mut used = vec![false; operations.len()];
    for (position, change) in log.iter().enumerate().filter(|(position, _)| !claimed[*position]) {
        let explains = |(index, operation): &(usize, &HistoryOperation)| match &operation.action {
            Action::Wrote { key, value, result: WriteResult::Unknown, .. } => {
                !used[*index]
                    && (key, value) == (&change.key, &change.value)
                    && floors[*index] < change.revision
                    && conditions_held(operation, &states[position]).is_ok()
            }
            _ => false,
        };
        match operations.iter().enumerate().find(explains) {
            Some((index, _)) => used[index] = true,
            None => return Err(format!("no operation wrote {change:?}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(revision: Revision, key: &str, value: Option<&'static str>) -> Change {
        Change { key: key.into(), revision, value: value.map(Bytes::from), hint: None }
    }

    fn wrote(
        times: (u64, u64),
        value: Option<&'static str>,
        expect: Condition,
        result: WriteResult,
    ) -> HistoryOperation {
        let value = value.map(Bytes::from);
        let action = Action::Wrote { key: "k".into(), expect, value, guards: Vec::new(), result };
        HistoryOperation { invoked: times.0, returned: times.1, action }
    }

    fn read(
        times: (u64, u64),
        revision: Revision,
        found: Option<(Revision, &'static str)>,
    ) -> HistoryOperation {
        let entry = |(revision, value)| Entry {
            key: "k".into(),
            value: Bytes::from_static(str::as_bytes(value)),
            revision,
        };
        let action = Action::Read { entries: found.map(entry).into_iter().collect(), revision, past: false };
        HistoryOperation { invoked: times.0, returned: times.1, action }
    }

    use Condition::{Absent, Any, At};
    use WriteResult::{Unknown, Unmet, Written};

    fn empty() -> Page {
        Page { entries: Vec::new(), revision: 0, more: false }
    }

    fn log() -> Vec<Change> {
        vec![change(1, "k", Some("a")), change(2, "k", Some("b")), change(3, "k", None)]
    }

    fn good() -> Vec<HistoryOperation> {
        vec![
            wrote((1, 2), Some("a"), Absent, Written(1)),
            wrote((3, 6), Some("b"), At(1), Written(2)),
            read((4, 5), 1, Some((1, "a"))),
            read((7, 8), 2, Some((2, "b"))),
            wrote((9, 10), Some("c"), Absent, Unmet { key: "k".into(), actual: Some(2), revision: 2 }),
            wrote((11, 14), None, Any, Unknown),
            read((12, 13), 3, None),
        ]
    }

    #[test]
    fn accepts_what_could_have_happened() {
        check(&empty(), &log(), &good()).unwrap();
        // The write with unknown result may also not have been executed, if no client saw it.
        check(&empty(), &log()[..2], &good()[..6]).unwrap();
    }

    #[test]
    fn rejects_what_could_not() {
        let broken = |position: usize, operation: HistoryOperation, reason: &str| {
            let mut operations = good();
            operations[position] = operation;
            let error = check(&empty(), &log(), &operations).unwrap_err();
            assert!(error.contains(reason), "expected {reason:?}, got {error}");
        };
        broken(3, read((7, 8), 1, Some((1, "a"))), "although 2 was known");
        broken(2, read((4, 5), 1, Some((1, "x"))), "read entries that do not match the log");
        broken(2, read((4, 5), 1, None), "read entries that do not match the log");
        broken(0, wrote((1, 2), Some("a"), Absent, Written(4)), "not in the log");
        broken(0, wrote((1, 2), Some("x"), Absent, Written(1)), "something else at 1");
        broken(0, wrote((1, 2), Some("a"), At(7), Written(1)), "conditions did not hold");
        broken(5, wrote((11, 14), Some("b"), Any, Written(2)), "given out twice");
        broken(1, wrote((9, 10), Some("b"), Any, Written(2)), "although 2 was known");
        broken(
            5,
            wrote((11, 14), None, Any, Unmet { key: "k".into(), actual: Some(2), revision: 2 }),
            "conditions held",
        );
        broken(
            4,
            wrote((9, 10), Some("c"), Absent, Unmet { key: "k".into(), actual: None, revision: 2 }),
            "for a wrong reason",
        );
        broken(
            4,
            wrote((9, 10), Some("c"), Absent, Unmet { key: "k".into(), actual: Some(1), revision: 1 }),
            "although 2 was known",
        );
        // The deletion in the log needs a write that explains it.
        broken(5, wrote((11, 14), Some("d"), Any, Unknown), "no operation wrote");
        broken(5, wrote((15, 16), None, Any, Unknown), "no operation wrote");
        let reversed = [change(2, "k", Some("a")), change(1, "k", Some("b"))];
        assert!(check(&empty(), &reversed, &[]).unwrap_err().contains("the log goes from"));
    }
}
