//! `metadata.managedFields`: the fields of each manager.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/capmanagers.go

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use atoll_meta::json;
use serde_json::{Map, Value};

use super::path_set::Set;

/// Maximum number of managers of updates.
const MAX_UPDATERS: usize = 10;

/// Number of entries up to which comparing each with each is cheaper than hashing.
const FEW_ENTRIES: usize = 8;

/// Manager that combines older managers of updates.
const ANCIENT_CHANGES: &str = "ancient-changes";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Apply,
    Update,
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub manager: Cow<'a, str>,
    pub operation: Operation,
    pub api_version: Cow<'a, str>,
    /// Empty for the object itself.
    pub subresource: Cow<'a, str>,
    pub time: Option<Cow<'a, str>>,
    pub set: Set<'a>,
}

/// The entries cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedEntries;

impl<'a> Entry<'a> {
    /// Whether both entries belong to the same manager. Managers that apply may change the version.
    pub fn is_same_manager(&self, other: &Entry<'_>) -> bool {
        #[cfg(test)]
        super::tests::steps::count();
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Returns upstream's identifier, by which it sorts managers.
    pub fn identifier(&self) -> String {
        #[cfg(test)]
        super::tests::steps::count();
        let mut out = Vec::with_capacity(96);
        let mut member = |name: &str, value: &str| {
            if !value.is_empty() {
                out.push(if out.is_empty() { b'{' } else { b',' });
                json::write_string(name, &mut out);
                out.push(b':');
                json::write_string(value, &mut out);
            }
        };
        member("manager", &self.manager);
        member("operation", self.operation.name());
        if self.operation == Operation::Update {
            member("apiVersion", &self.api_version);
        }
        member("subresource", &self.subresource);
        out.push(b'}');
        String::from_utf8(out).unwrap_or_default()
    }

    fn decode(value: &'a Value) -> Result<Self, MalformedEntries> {
        let text = |name: &str| text(value, name);
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(MalformedEntries),
        };
        if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
            return Err(MalformedEntries);
        }
        let set = value.get("fieldsV1").map_or(Ok(Set::default()), Set::from_fields);
        Ok(Entry {
            manager: text("manager").into(),
            operation,
            api_version: text("apiVersion").into(),
            subresource: text("subresource").into(),
            time: value.get("time").and_then(Value::as_str).map(Cow::Borrowed),
            set: set.map_err(|_| MalformedEntries)?,
        })
    }

    fn encode(&self) -> Value {
        let mut entry = Map::new();
        let mut text = |name: &str, value: &str| {
            if !value.is_empty() {
                entry.insert(name.to_owned(), value.into());
            }
        };
        text("manager", &self.manager);
        text("operation", self.operation.name());
        text("apiVersion", &self.api_version);
        text("time", self.time.as_deref().unwrap_or_default());
        text("fieldsType", "FieldsV1");
        text("subresource", &self.subresource);
        entry.insert("fieldsV1".to_owned(), self.set.to_fields());
        Value::Object(entry)
    }

    /// Compares entries in canonical order: those of applies, oldest first, then those of updates. Timestamps
    /// sort as strings.
    fn order(&self, other: &Entry<'_>) -> Ordering {
        let time = |entry: &Entry<'_>, other: &Entry<'_>| {
            entry.time.as_deref().unwrap_or_default().cmp(other.time.as_deref().unwrap_or_default())
        };
        self.operation
            .cmp(&other.operation)
            .then_with(|| time(self, other))
            .then_with(|| self.manager.cmp(&other.manager))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

fn text<'v>(entry: &'v Value, name: &str) -> &'v str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Parses `managedFields`. The last of several entries of the same manager wins.
pub fn decode(value: Option<&Value>) -> Result<Vec<Entry<'_>>, MalformedEntries> {
    let list = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(MalformedEntries),
    };
    if list.len() <= FEW_ENTRIES {
        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(list.len());
        for value in list {
            let entry = Entry::decode(value)?;
            entries.retain(|earlier| !earlier.is_same_manager(&entry));
            entries.push(entry);
        }
        return Ok(entries);
    }
    let mut entries: Vec<Option<Entry<'_>>> = Vec::with_capacity(list.len());
    let mut indices = HashMap::with_capacity(list.len());
    for value in list {
        let entry = Entry::decode(value)?;
        // Managers that apply may change the version.
        let version = if entry.operation == Operation::Apply { "" } else { text(value, "apiVersion") };
        let manager = (entry.operation, text(value, "manager"), version, text(value, "subresource"));
        if let Some(earlier) = indices.insert(manager, entries.len()) {
            entries[earlier] = None;
        }
        entries.push(Some(entry));
    }
    Ok(entries.into_iter().flatten().collect())
}

/// Encodes `managedFields`. `None` if there are no managers.
pub fn encode(mut entries: Vec<Entry<'_>>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(Entry::order);
    Some(Value::Array(entries.iter().map(Entry::encode).collect()))
}

/// Whether a client requests a reset of the managers.
pub fn is_reset(value: Option<&Value>) -> bool {
    match value.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.is_empty(),
        _ => false,
    }
}

/// Combines the oldest managers of updates until the limit is met.
pub(super) fn cap(entries: &mut Vec<Entry<'_>>) {
    let is_updater = |entry: &Entry<'_>| entry.operation == Operation::Update;
    let mut count = entries.iter().filter(|entry| is_updater(entry)).count();
    if count <= MAX_UPDATERS {
        return;
    }
    let mut all = Managers::new(std::mem::take(entries));
    let updaters = all.entries.iter().flatten().filter(|entry| is_updater(entry));
    let mut oldest: Vec<(String, String)> = updaters
        .map(|entry| (entry.time.as_deref().unwrap_or_default().to_owned(), entry.identifier()))
        .collect();
    oldest.sort();
    let mut firsts: HashMap<String, String> = HashMap::new();
    for (_, identifier) in oldest {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(version) = all.get(&identifier).map(|entry| entry.api_version.to_string()) else { continue };
        let Some(first) = firsts.get(&version) else {
            firsts.insert(version, identifier);
            continue;
        };
        let bucket = Entry {
            manager: ANCIENT_CHANGES.into(),
            operation: Operation::Update,
            api_version: version.into(),
            subresource: "".into(),
            time: None,
            set: Set::default(),
        };
        // The first entry of the version becomes the bucket, unless there is one already.
        let bucket_id = bucket.identifier();
        if all.get(&bucket_id).is_none() {
            let set = all.remove(first).map(|first| first.set);
            all.push(bucket_id.clone(), Entry { set: set.unwrap_or_default(), ..bucket });
        }
        // A bucket that becomes the oldest entry itself is dropped, as upstream does.
        if let Some(entry) = all.remove(&identifier) {
            all.combine(entry, &bucket_id);
            count -= 1;
        }
    }
    *entries = all.into_entries();
}

/// Entries that are found by their identifiers.
struct Managers<'a> {
    /// In order; `None` for those that were removed.
    entries: Vec<Option<Entry<'a>>>,
    indices: HashMap<String, usize>,
    /// Sets by the index of the entry to which they will be added, all at once in the end: one by one, each would
    /// copy those before it.
    added: HashMap<usize, Vec<Set<'a>>>,
}

impl<'a> Managers<'a> {
    fn new(entries: Vec<Entry<'a>>) -> Self {
        let indices = entries.iter().enumerate().map(|(index, entry)| (entry.identifier(), index)).collect();
        Managers { entries: entries.into_iter().map(Some).collect(), indices, added: HashMap::new() }
    }

    fn get(&self, identifier: &str) -> Option<&Entry<'a>> {
        self.entries[*self.indices.get(identifier)?].as_ref()
    }

    fn push(&mut self, identifier: String, entry: Entry<'a>) {
        self.indices.insert(identifier, self.entries.len());
        self.entries.push(Some(entry));
    }

    fn remove(&mut self, identifier: &str) -> Option<Entry<'a>> {
        let index = self.indices.remove(identifier)?;
        let mut entry = self.entries[index].take()?;
        if let Some(added) = self.added.remove(&index) {
            entry.set = union_with(entry.set, added);
        }
        Some(entry)
    }

    /// Adds the fields of an entry to those of another, which also gets its time.
    fn combine(&mut self, entry: Entry<'a>, into: &str) {
        let Some(&index) = self.indices.get(into) else { return };
        let Some(bucket) = &mut self.entries[index] else { return };
        bucket.time = entry.time;
        self.added.entry(index).or_default().push(entry.set);
    }

    fn into_entries(mut self) -> Vec<Entry<'a>> {
        for (index, added) in self.added {
            if let Some(entry) = &mut self.entries[index] {
                entry.set = union_with(std::mem::take(&mut entry.set), added);
            }
        }
        self.entries.into_iter().flatten().collect()
    }
}

/// Returns the union of a set and those that were added to it. The notation of the last one wins.
fn union_with<'a>(set: Set<'a>, added: Vec<Set<'a>>) -> Set<'a> {
    Set::union_of(added.into_iter().rev().chain([set]).collect())
}
