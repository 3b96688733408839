//! Usage and limits of workspaces: objects, bytes and definitions.
//!
//! The contents of a workspace also count for all workspaces above it, except for the root, which has no
//! limits: creating child workspaces does not circumvent a limit. Limits are in the Workspace object, which
//! is in the parent, so that only users with access to the parent can raise them.
//!
//! ```text
//!   create, update ─ reserve ─► counted as requested ─ write ─┬─► change observed (Observer): counted as written
//!                       └─ 403                              └─► write failed: released
//! ```
//!
//! Reserving and counting are serialised, so that concurrent writes never exceed a limit.

mod compiled;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_meta::Status;
use atoll_meta::quantity::Quantity;
use atoll_store::{Key, Revision, key};
use atoll_watch::{Object, Observer};
use bytes::Bytes;
use memchr::memchr_iter;
use serde_json::Value;

use crate::bootstrap::ROOT;
use crate::catalog::ATOLL;
use crate::definitions;
use crate::imports;
use crate::row::{ObjectRef, Row};

use compiled::{Compiled, Spec};

pub(crate) use compiled::CompileReservation;

/// Group of internal keys, which are not objects.
const INTERNAL: &str = "internal.atoll.dev";
/// Maximum number of ancestors that are considered.
const MAX_DEPTH: usize = 256;
/// Number of workspaces in metrics.
const METRICS_WORKSPACES: usize = 10;

/// Counted amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub objects: i64,
    /// Size of the served JSON, and of the JSON objects within it, see [`charged_bytes`].
    pub bytes: i64,
    /// CustomResourceDefinitions, and those that are imported from clusters.
    pub definitions: i64,
}

/// Default limits of a workspace.
pub const DEFAULT: Amounts = Amounts { objects: 100_000, bytes: 512 << 20, definitions: 1_000 };

/// The names of the amounts, in the order of `Amounts::list`.
pub const NAMES: [&str; 3] = ["objects", "bytes", "definitions"];

impl Amounts {
    pub fn list(&self) -> [i64; 3] {
        [self.objects, self.bytes, self.definitions]
    }

    fn of(key: &Key, size: usize) -> Amounts {
        let Some(parts) = key.parts().filter(|parts| parts.group != INTERNAL && size > 0) else {
            return Amounts::default();
        };
        let defines = [(definitions::GROUP, definitions::RESOURCE), (ATOLL, imports::RESOURCE)]
            .contains(&(parts.group, parts.resource));
        Amounts {
            objects: 1,
            bytes: i64::try_from(size).unwrap_or(i64::MAX),
            definitions: i64::from(defines),
        }
    }

    fn plus(self, other: Amounts) -> Amounts {
        Amounts {
            objects: self.objects + other.objects,
            bytes: self.bytes.saturating_add(other.bytes),
            definitions: self.definitions + other.definitions,
        }
    }

    fn minus(self, other: Amounts) -> Amounts {
        self.plus(Amounts { objects: -other.objects, bytes: -other.bytes, definitions: -other.definitions })
    }

    /// The limits in `spec.limits` of a Workspace.
    fn limits(workspace: &Value) -> Amounts {
        let limits = &workspace["spec"]["limits"];
        Amounts {
            objects: limits["objects"].as_i64().unwrap_or(DEFAULT.objects),
            bytes: quantity(&limits["bytes"]).map_or(DEFAULT.bytes, |bytes| bytes.units()),
            definitions: limits["definitions"].as_i64().unwrap_or(DEFAULT.definitions),
        }
    }
}

/// Number of bytes that count for each JSON object within an object. In the caches of controllers it needs much more
/// memory than its text.
const NESTED_BYTES: usize = 128;
/// Number of bytes that count for each value of a list of very short ones, because of the memory for a parsed value.
const VALUE_BYTES: usize = 32;
/// Length of the text of most values with their names. Shorter ones are dense.
const USUAL_VALUE: usize = 16;

/// The bytes that count for the JSON of an object.
pub(crate) fn charged_bytes<'a>(json: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>) -> usize {
    let parts = json.into_iter();
    let (mut length, mut nested, mut commas) = (0, 0, 0);
    for part in parts.clone() {
        length += part.len();
        nested += memchr_iter(b'{', part).count();
        commas += memchr_iter(b',', part).count();
    }
    let usual = length / USUAL_VALUE + nested;
    // Text may have many commas, too.
    if commas > usual {
        commas = commas_between_values(parts);
    }
    length + NESTED_BYTES * nested + VALUE_BYTES * commas.saturating_sub(usual)
}

/// Number of commas outside of strings.
fn commas_between_values<'a>(json: impl Iterator<Item = &'a [u8]>) -> usize {
    let (mut is_text, mut is_escaped, mut commas) = (false, false, 0);
    for byte in json.flatten() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b',' if !is_text => commas += 1,
            _ => {}
        }
    }
    commas
}

/// Whether a workspace can have limits.
pub(crate) fn has_limits(workspace: &str) -> bool {
    workspace != ROOT
}

/// Parses a quantity that is a string or a number.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// The usage of all workspaces, updated with every write.
#[derive(Default)]
pub struct Usage {
    state: Mutex<UsageState>,
    refused: [AtomicU64; 3],
}

#[derive(Default)]
struct UsageState {
    /// The parent of each workspace id. The root has none.
    parents: HashMap<Box<str>, Box<str>>,
    /// Usage by workspace id, including workspaces below and reservations. Empty workspaces have no entry.
    used: HashMap<Box<str>, Amounts>,
    /// Limits that differ from the default.
    limits: HashMap<Box<str>, Amounts>,
    /// Compiled definitions by workspace id, including workspaces below.
    compiled: HashMap<Box<str>, Compiled>,
    /// Reservations of pending writes. A change of a key settles all its reservations: only one writer can
    /// succeed.
    reserved: HashMap<Key, Vec<(u64, Amounts)>>,
    reservations: u64,
}

/// A limit that a request would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exceeded {
    amount: usize,
    requested: i64,
    used: i64,
    limit: i64,
    /// Whether the limit belongs to a workspace above.
    above: bool,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exceeded { amount, requested, used, limit, above } = self;
        let name = NAMES[*amount];
        write!(
            f,
            "exceeded workspace limit: requested: {name}={requested}, used: {name}={used}, limited: {name}={limit}"
        )?;
        f.write_str(if *above { " (in a workspace above and all below it)" } else { "" })
    }
}

impl UsageState {
    /// Calls `visit` for a workspace and its ancestors except the root, until it returns a value.
    fn find_up<T>(&self, workspace: &str, mut visit: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let mut current = workspace;
        for _ in 0..MAX_DEPTH {
            if current == ROOT {
                return None;
            }
            if let Some(found) = visit(current) {
                return Some(found);
            }
            current = self.parents.get(current)?;
        }
        None
    }

    fn add(&mut self, workspace: &str, amounts: Amounts) {
        if amounts == Amounts::default() {
            return;
        }
        let mut line: Vec<Box<str>> = Vec::with_capacity(4);
        self.find_up(workspace, |id| {
            line.push(id.into());
            None::<()>
        });
        for id in line {
            let used = self.used.entry(id).or_default();
            *used = used.plus(amounts);
        }
    }

    fn subtract(&mut self, workspace: &str, amounts: Amounts) {
        self.add(workspace, Amounts::default().minus(amounts));
        let mut empty: Vec<Box<str>> = Vec::new();
        self.find_up(workspace, |id| {
            empty.extend(self.used.get(id).filter(|used| **used == Amounts::default()).map(|_| id.into()));
            None::<()>
        });
        for id in empty {
            self.used.remove(&id);
        }
    }

    fn exceeded(&self, workspace: &str, requested: Amounts, is_new: bool) -> Option<Exceeded> {
        self.find_up(workspace, |id| {
            let used = self.used.get(id).copied().unwrap_or_default().list();
            let limit = self.limits.get(id).unwrap_or(&DEFAULT).list();
            let mut each = requested.list().into_iter().zip(used).zip(limit).enumerate();
            each.find_map(|(amount, ((requested, used), limit))| {
                // Existing objects may exceed the limit by a tenth, so that the status of objects in a full
                // workspace can be written.
                let most = if is_new { limit } else { limit.saturating_add(limit / 10) };
                let exceeds = requested > 0 && used.saturating_add(requested) > most;
                exceeds.then_some(Exceeded { amount, requested, used, limit, above: id != workspace })
            })
        })
    }
}

/// The reservation of a pending write, released on drop if the write did not use it.
pub(crate) struct Reservation<'u> {
    usage: &'u Usage,
    key: Key,
    number: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.usage.state();
        let Some(reserved) = state.reserved.get_mut(&self.key) else { return };
        let Some(own) = reserved.iter().position(|(number, _)| *number == self.number) else { return };
        let (_, amounts) = reserved.swap_remove(own);
        if reserved.is_empty() {
            state.reserved.remove(&self.key);
        }
        let workspace = self.key.parts().map(|parts| parts.workspace).unwrap_or_default();
        state.subtract(workspace, amounts);
    }
}

impl Usage {
    /// Reserves usage for an object of `size` bytes that replaces one of `before` bytes, if there was one.
    pub(crate) fn reserve(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        key: &Key,
        before: Option<usize>,
        size: usize,
    ) -> Result<Option<Reservation<'_>>, Status> {
        if !has_limits(object_ref.workspace) {
            return Ok(None);
        }
        let was = before.map(|before| Amounts::of(key, before)).unwrap_or_default();
        let wanted = Amounts::of(key, size).minus(was);
        if wanted.list().iter().all(|amount| *amount <= 0) {
            return Ok(None);
        }
        let mut state = self.state();
        if let Some(exceeded) = state.exceeded(object_ref.workspace, wanted, before.is_none()) {
            self.refused[exceeded.amount].fetch_add(1, Ordering::Relaxed);
            return Err(Status::forbidden(&row.group, &row.resource, object_ref.name, exceeded.to_string()));
        }
        state.add(object_ref.workspace, wanted);
        state.reservations += 1;
        let number = state.reservations;
        state.reserved.entry(key.clone()).or_default().push((number, wanted));
        Ok(Some(Reservation { usage: self, key: key.clone(), number }))
    }

    /// Number of writes that each limit has refused, in the order of `NAMES`.
    pub fn refused(&self) -> [u64; 3] {
        self.refused.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// The workspaces that have used most of their limits: id, usage and limits.
    pub fn fullest(&self) -> Vec<(String, Amounts, Amounts)> {
        let state = self.state();
        let share = |used: &Amounts, limits: &Amounts| {
            let each = used.list().into_iter().zip(limits.list());
            each.map(|(used, limit)| used.saturating_mul(1_000) / limit.max(1)).max().unwrap_or_default()
        };
        let mut fullest: Vec<(i64, &str)> = Vec::with_capacity(METRICS_WORKSPACES + 1);
        for (id, used) in &state.used {
            let share = share(used, state.limits.get(id).unwrap_or(&DEFAULT));
            if fullest.len() < METRICS_WORKSPACES || fullest.last().is_some_and(|(least, _)| share > *least) {
                let position = fullest.partition_point(|(other, _)| *other >= share);
                fullest.insert(position, (share, id));
                fullest.truncate(METRICS_WORKSPACES);
            }
        }
        let shown = fullest.into_iter().filter_map(|(_, id)| {
            Some((id.to_string(), *state.used.get(id)?, *state.limits.get(id).unwrap_or(&DEFAULT)))
        });
        shown.collect()
    }

    fn state(&self) -> MutexGuard<'_, UsageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a changed Workspace: its parent and its limits.
    fn workspace(state: &mut UsageState, parent: &str, before: Option<&Object>, after: Option<&Object>) {
        let (old, new) = (id_of(before), id_of(after));
        if old != new && !old.is_empty() {
            let left = state.used.remove(old).unwrap_or_default();
            state.subtract(parent, left);
            for (spec, count) in state.compiled.remove(old).unwrap_or_default().specs() {
                state.remove_spec(parent, spec, count);
            }
            state.parents.remove(old);
            state.limits.remove(old);
        }
        if new.is_empty() || new == ROOT {
            return;
        }
        if old != new && !state.parents.contains_key(new) {
            // While loading, contents may be counted before their workspace is known.
            let there = state.used.get(new).copied().unwrap_or_default();
            state.add(parent, there);
            for (spec, count) in state.compiled.get(new).cloned().unwrap_or_default().specs() {
                state.add_spec(parent, spec, count);
            }
            state.parents.insert(new.into(), parent.into());
        }
        let json = after.map(Object::json).unwrap_or_default();
        let parsed = atoll_meta::json::parse(&json).map(|parsed| parsed.value).unwrap_or_default();
        match Amounts::limits(&parsed) {
            DEFAULT => drop(state.limits.remove(new)),
            limits => drop(state.limits.insert(new.into(), limits)),
        }
    }
}

impl Observer for Usage {
    fn changed(&self, _: &Key, _: Option<&Bytes>, _: Revision) {}

    fn replaced(&self, before: Option<&Object>, after: Option<&Object>) {
        let Some(key) = after.or(before).map(|object| &object.key) else { return };
        let Some(parts) = key.parts() else { return };
        let is_workspace = is_workspace(&parts);
        if parts.workspace == ROOT && !is_workspace {
            return;
        }
        let amounts = |object: Option<&Object>| {
            object.map(|object| Amounts::of(key, charged_bytes(object.slices()))).unwrap_or_default()
        };
        let mut change = amounts(after).minus(amounts(before));
        let specs = [before, after].map(|object| object.and_then(definitions::Definition::of));
        let [was, is] = specs.map(|definition| definition.map(|definition| Spec::of(&definition)));
        let mut state = self.state();
        // Add before removing, so that a definition that stays is not dropped in between.
        if let Some(spec) = is {
            state.add_spec(parts.workspace, spec, 1);
        }
        if let Some(spec) = was {
            state.remove_spec(parts.workspace, spec, 1);
        }
        let reserved = state.reserved.remove(key).unwrap_or_default();
        for (_, amounts) in reserved {
            change = change.minus(amounts);
        }
        // Subtracting the negated change leaves no empty entries.
        state.subtract(parts.workspace, Amounts::default().minus(change));
        if is_workspace {
            Usage::workspace(&mut state, parts.workspace, before, after);
        }
    }
}

/// The id of a Workspace.
fn id_of(object: Option<&Object>) -> &str {
    object.map(|object| object.field("status.id")).unwrap_or_default()
}

fn is_workspace(parts: &key::Parts<'_>) -> bool {
    (parts.group, parts.resource) == (ATOLL, "workspaces")
}

#[cfg(test)]
mod tests;
