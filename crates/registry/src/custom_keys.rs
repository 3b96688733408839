//! Migrates custom objects to separate keys.
//!
//! Versions of Atoll before [`atoll_store::key::CUSTOM`] stored built-in and custom objects under the same
//! keys. Stores and snapshots of such versions are migrated before they are used.
//!
//! Those versions also accepted definitions of built-in resources, so that the key of a built-in resource may
//! contain a custom object. Such an object is recognised by its API versions and, if it is a Workspace, by an
//! id that was never assigned to it.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use atoll_meta::id::is_workspace_id;
use atoll_meta::object;
use atoll_store::key::{after_prefix, prefix};
use atoll_store::{Condition, Key, Range, ReadError, Revision, Store, Write, WriteError};
use atoll_watch::layer::INTERNAL;
use atoll_watch::object::TOMBSTONE;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::bootstrap::ROOT;
use crate::catalog::{ATOLL, Catalog, Profile};
use crate::definitions::{self, reserved};

/// Number of concurrent writes, so that they share commits.
const CONCURRENT_WRITES: usize = 512;

/// The entry which marks a store as migrated.
pub fn marker() -> (Key, Bytes) {
    let key = Key::object(INTERNAL, "format", "", "", "custom-keys");
    // In the canonical encoding, so that restoring a snapshot does not change it.
    let value = atoll_meta::json::encode_object(&json!({ "metadata": { "name": "custom-keys" } }));
    (key, Bytes::from(value))
}

/// The reason why a store could not be migrated.
#[derive(Debug)]
pub enum MigrationError {
    Read(ReadError),
    Write(WriteError),
    Interrupted,
}

impl std::fmt::Display for MigrationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MigrationError::Read(error) => write!(f, "cannot read the store: {error:?}"),
            MigrationError::Write(error) => write!(f, "cannot write to the store: {error:?}"),
            MigrationError::Interrupted => f.write_str("interrupted; start again to continue"),
        }
    }
}

/// Migrates the custom objects of a store that an older version wrote. To be called before the cache is
/// opened. It may be interrupted at any point: an object is written under its new key before the old key is
/// deleted, and the next call continues.
///
/// Workspaces are checked every time: the older version may have run again on a migrated store.
pub async fn migrate(store: &Arc<dyn Store>) -> Result<usize, MigrationError> {
    let (marker, value) = marker();
    let own = Range { start: Bound::Included(marker.clone()), end: Bound::Included(marker.clone()) };
    let is_marked = !read(store, own).await?.is_empty();
    let workspaces = prefix(ATOLL, "workspaces", None, None);
    let range = match is_marked {
        true => Range { start: Bound::Included(Key::from(&*workspaces)), end: after_prefix(&workspaces) },
        false => Range::all(),
    };
    let entries = read(store, range).await?;
    let moves = moves(&entries);
    let mut last = 0;
    for chunk in moves.chunks(CONCURRENT_WRITES) {
        let copies =
            chunk.iter().filter_map(|(old, new)| Some((new.clone(), Some(entries.get(old)?.clone()))));
        last = last.max(write_all(store, copies).await?);
        last = last.max(write_all(store, chunk.iter().map(|(old, _)| (old.clone(), None))).await?);
    }
    if !moves.is_empty() {
        tracing::info!(objects = moves.len(), "migrated custom objects to separate keys");
        // Watches that resume would miss the changes under the old keys: they have to list again.
        store.compact(last).await.map_err(MigrationError::Write)?;
    }
    if !is_marked {
        write_all(store, [(marker, Some(value))]).await?;
    }
    Ok(moves.len())
}

async fn read(store: &Arc<dyn Store>, range: Range) -> Result<BTreeMap<Key, Bytes>, MigrationError> {
    let page = store.range(range, None, 0).await.map_err(MigrationError::Read)?;
    Ok(page.entries.into_iter().map(|entry| (entry.key, entry.value)).collect())
}

/// Migrates the contents of an older snapshot.
pub fn upgrade(entries: &mut BTreeMap<Key, Bytes>) {
    for (old, new) in moves(entries) {
        if let Some(value) = entries.remove(&old) {
            entries.insert(new, value);
        }
    }
    let (key, value) = marker();
    entries.insert(key, value);
}

async fn write_all(
    store: &Arc<dyn Store>,
    changes: impl IntoIterator<Item = (Key, Option<Bytes>)>,
) -> Result<Revision, MigrationError> {
    let mut running = JoinSet::new();
    for (key, value) in changes {
        let expect = if value.is_some() { Condition::Any } else { Condition::Present };
        let write = Write { key, expect, value, guards: Vec::new(), hint: None };
        let store = store.clone();
        running.spawn(async move { store.write(write).await });
    }
    let mut last = 0;
    while let Some(outcome) = running.join_next().await {
        match outcome {
            Ok(Ok(revision)) => last = last.max(revision),
            Ok(Err(error)) => return Err(MigrationError::Write(error)),
            Err(_) => return Err(MigrationError::Interrupted),
        }
    }
    Ok(last)
}

/// The keys to migrate, old and new.
fn moves(entries: &BTreeMap<Key, Bytes>) -> Vec<(Key, Key)> {
    // Use all built-in resources, not only those of the current profile: the store may have been written with
    // another profile.
    let catalog = LazyCell::new(|| Catalog::new(Profile::Full));
    let defined: HashSet<(&str, &str)> = entries
        .keys()
        .filter_map(Key::parts)
        .filter(|parts| (parts.group, parts.resource) == (definitions::GROUP, definitions::RESOURCE))
        .map(|parts| (parts.workspace, parts.name))
        .collect();
    let owners = owners(entries);
    let is_custom = |key: &Key, value: &Bytes| {
        let Some(parts) = key.parts().filter(|parts| !parts.is_custom()) else { return false };
        if parts.group == INTERNAL || value == TOMBSTONE {
            return false;
        }
        let (group, resource) = (parts.api_group(), parts.resource);
        if !reserved::is_built_in(group, resource) {
            return true;
        }
        if (group, resource) == (ATOLL, "workspaces") && owners.get(key) == Some(&false) {
            return true;
        }
        defined.contains(&(parts.workspace, format!("{resource}.{group}").as_str()))
            && !has_built_in_versions(value, &catalog, group, resource)
    };
    let custom = entries.iter().filter(|(key, value)| is_custom(key, value));
    custom
        .filter_map(|(key, _)| {
            let parts = key.parts()?;
            let group = parts.api_group();
            Some((
                key.clone(),
                Key::custom(group, parts.resource, parts.workspace, parts.namespace, parts.name),
            ))
        })
        .collect()
}

/// Whether each Workspace object owns its id: it must be the oldest object with that id, and its ancestors
/// must lead to the root, as those of every real workspace do.
fn owners(entries: &BTreeMap<Key, Bytes>) -> HashMap<Key, bool> {
    let is_workspace =
        |key: &Key| key.parts().is_some_and(|parts| (parts.group, parts.resource) == (ATOLL, "workspaces"));
    let mut claims: HashMap<String, Vec<(String, Key)>> = HashMap::new();
    let mut owners = HashMap::new();
    for (key, value) in entries.iter().filter(|(key, _)| is_workspace(key)) {
        let workspace = parse(value);
        match workspace["status"]["id"].as_str().filter(|id| is_workspace_id(id)) {
            Some(id) => {
                let created = object::creation_timestamp(&workspace).unwrap_or_default().to_string();
                claims.entry(id.to_string()).or_default().push((created, key.clone()));
            }
            None => drop(owners.insert(key.clone(), false)),
        }
    }
    let mut oldest = HashMap::new();
    for (id, mut same) in claims {
        same.sort();
        oldest.extend(same.first().map(|(_, key)| (id, key.clone())));
        owners.extend(same.into_iter().enumerate().map(|(position, (_, key))| (key, position == 0)));
    }
    let loose: Vec<Key> = oldest.values().filter(|key| !leads_to_root(&oldest, key)).cloned().collect();
    owners.extend(loose.into_iter().map(|key| (key, false)));
    owners
}

/// Whether the ancestors of a Workspace object end at the root. They may also be unknown or form a cycle.
fn leads_to_root(owners: &HashMap<String, Key>, key: &Key) -> bool {
    let (mut key, mut steps) = (key, 0);
    while let Some(parts) = key.parts().filter(|_| steps <= owners.len()) {
        if parts.workspace == ROOT {
            return true;
        }
        let Some(above) = owners.get(parts.workspace) else { return false };
        (key, steps) = (above, steps + 1);
    }
    false
}

/// Whether an object was only written in versions of a built-in resource.
fn has_built_in_versions(value: &Bytes, catalog: &Catalog, group: &str, resource: &str) -> bool {
    let stored = parse(value);
    let managers = stored["metadata"]["managedFields"].as_array().into_iter().flatten();
    let versions = managers.filter_map(|manager| manager["apiVersion"].as_str());
    // A view of the resource may be in another group.
    let is_known = |api_version: &str| match api_version.rsplit_once('/') {
        Some((own, version)) => catalog.find(own, version, resource).is_some(),
        None => group.is_empty(),
    };
    versions.chain([object::api_version(&stored)]).all(is_known)
}

fn parse(value: &Bytes) -> Value {
    atoll_meta::json::parse(value).map(|parsed| parsed.value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
