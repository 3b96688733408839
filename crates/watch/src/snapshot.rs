//! An immutable view of all objects at one revision.

use std::borrow::Cow;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use atoll_store::{Key, Revision, key};
use bytes::Bytes;
use imbl::OrdMap;

use crate::counts::Counts;
use crate::event::Event;
use crate::inherited::{Inherited, InheritedChange, Reach, key_in};
use crate::layer::Layer;
use crate::object::{Decode, Object};

#[derive(Clone)]
pub struct Snapshot {
    pub revision: Revision,
    objects: OrdMap<Key, Arc<Object>>,
    /// Counts of `objects` without tombstones.
    counts: Counts,
    layer: Arc<Layer>,
    inherited: Inherited,
    /// If set, only this scope is as it was at `revision`, and everything else is newer.
    pub(crate) reverted: Option<Scope>,
}

/// A part of the key space: a resource, narrowed to a workspace, a namespace or one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Common prefix of all keys in the scope; the whole key for one object.
    pub(crate) prefix: String,
    pub(crate) one_object: bool,
    workspace: Option<String>,
    /// The prefix in the layer: `group/resource/` and, for a namespace, `namespace/`.
    layer_prefix: String,
}

impl Scope {
    /// A resource in one workspace or all (`None`), in one namespace or all.
    pub fn new(group: &str, resource: &str, workspace: Option<&str>, namespace: Option<&str>) -> Self {
        let namespace = namespace.filter(|_| workspace.is_some());
        Scope {
            prefix: key::prefix(group, resource, workspace, namespace),
            one_object: false,
            workspace: workspace.map(str::to_string),
            layer_prefix: key::prefix(group, resource, namespace, None),
        }
    }

    /// The scope of one object.
    pub fn object(group: &str, resource: &str, workspace: &str, namespace: &str, name: &str) -> Self {
        let mut scope = Scope::new(group, resource, Some(workspace), Some(namespace));
        scope.prefix.push_str(name);
        scope.layer_prefix.push_str(name);
        scope.one_object = true;
        scope
    }

    /// The id of the workspace; `None` for all workspaces.
    pub fn workspace(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        if self.one_object { **key == *self.prefix } else { key.starts_with(&self.prefix) }
    }

    /// The part of a key after this scope's prefix.
    pub fn relative<'a>(&self, key: &'a Key) -> &'a str {
        key.strip_prefix(self.prefix.as_str()).unwrap_or(key)
    }

    pub(crate) fn start(&self, after: Option<&str>) -> Bound<Key> {
        match after {
            Some(after) => Bound::Excluded(Key::from(format!("{}{after}", self.prefix))),
            None => Bound::Included(Key::from(self.prefix.as_str())),
        }
    }

    pub(crate) fn end(&self) -> Bound<Key> {
        match self.one_object {
            true => Bound::Included(Key::from(self.prefix.as_str())),
            false => key::after_prefix(&self.prefix),
        }
    }
}

impl Snapshot {
    pub(crate) fn new(revision: Revision, layer: Arc<Layer>, decode: Arc<dyn Decode>) -> Self {
        let inherited = Inherited::new(decode);
        Snapshot {
            revision,
            objects: OrdMap::new(),
            counts: Counts::default(),
            layer,
            inherited,
            reverted: None,
        }
    }

    /// Applies the identity to the layer, if `key` is the identity key.
    pub(crate) fn identify(&mut self, key: &Key, value: Option<&Bytes>) {
        if let Some(layer) = self.layer.identified(key, value) {
            self.layer = Arc::new(layer);
        }
    }

    /// The object under `key`, from the bootstrap layer or inherited if the workspace has no version of its own.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        match self.objects.get(key) {
            Some(object) => Some(object.clone()).filter(|object| !object.is_tombstone()),
            None => self.layer.get(key).or_else(|| self.inherited.get(key)),
        }
    }

    /// The object under `key`, unless it is inherited.
    pub fn get_own(&self, key: &Key) -> Option<Arc<Object>> {
        match self.objects.get(key) {
            Some(object) => Some(object.clone()).filter(|object| !object.is_tombstone()),
            None => self.layer.get(key),
        }
    }

    /// Whether the workspace inherits the object under `key`.
    pub fn is_inherited(&self, key: &Key) -> bool {
        self.get_own(key).is_none() && self.inherited.get(key).is_some()
    }

    /// The workspace that gives the object under `key`: that of the key itself, or the one that it inherits from.
    pub fn giver(&self, key: &Key) -> Option<String> {
        match self.get_own(key) {
            Some(own) => Some(own.workspace().to_string()),
            None => self.inherited.giver(key),
        }
    }

    /// The inherited object under `key`, even if the workspace has one of its own.
    pub(crate) fn get_inherited(&self, key: &Key) -> Option<Arc<Object>> {
        self.inherited.get(key)
    }

    /// Replaces what the workspace of a stored object and those below it inherit from that object.
    pub(crate) fn derive(&mut self, source: &Key, derived: Option<Object>) -> Vec<InheritedChange> {
        self.inherited.derive(source, derived)
    }

    /// Replaces an object with a compiled definition by one without.
    pub(crate) fn demote(&mut self, object: *const Object, past: &Arc<Object>) {
        if self.objects.get(&past.key).is_some_and(|found| std::ptr::eq(Arc::as_ptr(found), object)) {
            self.insert(past.clone());
        }
        self.inherited.demote(object, past);
    }

    /// The groups of watchers that a watcher of `scope` belongs to.
    pub(crate) fn watch_groups(&self, scope: &Scope) -> Vec<String> {
        self.inherited.watch_groups(scope)
    }

    /// Whether a watcher of `scope` sees an event.
    pub(crate) fn shows(&self, scope: &Scope, event: &Event) -> bool {
        match (event.reach, scope.workspace()) {
            (Reach::Stored, _) | (Reach::Uncovered, Some(_)) => scope.contains(&event.key),
            // Lists of all workspaces show an inherited object in the workspace that gives it.
            (Reach::Uncovered, None) => {
                scope.contains(&event.key) && self.inherited.is_given_under(&event.key)
            }
            (Reach::Inherited, None) => scope.contains(&event.key) && !self.objects.contains_key(&event.key),
            (Reach::Inherited, Some(workspace)) => key_in(&event.key, workspace).is_some_and(|key| {
                scope.contains(&key)
                    && !self.objects.contains_key(&key)
                    && self.inherited.is_from(workspace, &event.key)
            }),
        }
    }

    /// The revision at which the store last changed `key`, which a write must expect. `None` if the store has
    /// no value there, even if the layer does.
    pub fn stored_revision(&self, key: &Key) -> Option<Revision> {
        self.objects.get(key).map(|object| object.revision)
    }

    /// The stored object under `key`, possibly a tombstone.
    pub(crate) fn stored_object(&self, key: &Key) -> Option<Arc<Object>> {
        self.objects.get(key).cloned()
    }

    /// Whether the bootstrap layer has an object under `key`.
    pub fn is_layered(&self, key: &Key) -> bool {
        self.layer.contains(key)
    }

    /// The objects of `scope` in key order, starting after `after` (relative to the scope's prefix). Objects
    /// of the bootstrap layer appear in lists of one workspace, not in lists across all of them. Inherited objects
    /// appear in lists of each workspace that inherits them, and once in lists across all of them.
    pub fn list<'a>(
        &'a self,
        scope: &'a Scope,
        after: Option<&str>,
    ) -> impl Iterator<Item = Arc<Object>> + use<'a> {
        self.list_borrowed(scope, after).map(Cow::into_owned)
    }

    /// Like `list`, but borrows the objects: changing the reference counts of objects that other threads read
    /// concurrently costs more than reading them.
    pub fn list_borrowed<'a>(
        &'a self,
        scope: &'a Scope,
        after: Option<&str>,
    ) -> impl Iterator<Item = Cow<'a, Arc<Object>>> + use<'a> {
        let stored = self.stored(scope.start(after), scope.end()).map(Cow::Borrowed);
        let layered = self.layered(scope, after).into_iter().map(Cow::Owned);
        Merged { stored: stored.peekable(), layered: layered.peekable() }
            .filter(|object| !object.is_tombstone())
    }

    /// The stored objects between two keys, including tombstones.
    pub(crate) fn stored(&self, start: Bound<Key>, end: Bound<Key>) -> impl Iterator<Item = &Arc<Object>> {
        let found = self.objects.range((start, end)).map(|(_, object)| object);
        #[cfg(test)]
        let found = found.inspect(|_| tests::count_visit());
        found
    }

    /// The layer's objects in `scope`, including those that a stored object hides.
    fn layered(&self, scope: &Scope, after: Option<&str>) -> Vec<Arc<Object>> {
        let from = after.map(|after| format!("{}{after}", scope.prefix));
        // The bootstrap layer has no objects of the resource that can be inherited.
        if self.inherited.covers(scope) {
            return self.inherited.list(scope, from.as_deref());
        }
        let Some(workspace) = scope.workspace.as_deref() else { return Vec::new() };
        self.layer.list(&scope.layer_prefix, scope.one_object, workspace, from)
    }

    /// Whether `scope` may have objects of the layer or inherited ones.
    pub(crate) fn is_layered_within(&self, scope: &Scope) -> bool {
        scope.workspace.is_some() && self.layer.has(&scope.layer_prefix) || self.inherited.covers(scope)
    }

    /// The stored keys in `scope`, including tombstones, without the layer.
    pub fn stored_keys(&self, scope: &Scope) -> Vec<Key> {
        self.objects.range((scope.start(None), scope.end())).map(|(key, _)| key.clone()).collect()
    }

    /// All stored keys of a workspace, of every resource. It skips from one resource to the next, so that the
    /// cost does not depend on other workspaces.
    pub fn keys_of_workspace(&self, workspace: &str) -> Vec<Key> {
        let (mut keys, mut start) = (Vec::new(), Bound::Unbounded);
        while let Some((next, _)) = self.objects.range((start, Bound::Unbounded)).next() {
            let Some(parts) = next.parts() else {
                start = Bound::Excluded(next.clone());
                continue;
            };
            keys.extend(self.stored_keys(&Scope::new(parts.group, parts.resource, Some(workspace), None)));
            // The next resource starts at the end of this one's range.
            let Bound::Excluded(end) = Scope::new(parts.group, parts.resource, None, None).end() else {
                break;
            };
            start = Bound::Included(end);
        }
        keys
    }

    /// The number of objects in `scope`, without iterating over them.
    pub fn count(&self, scope: &Scope) -> usize {
        let is_hidden = |object: &Arc<Object>| self.objects.contains_key(&object.key);
        let layered = self.layered(scope, None).iter().filter(|object| !is_hidden(object)).count();
        match scope.one_object {
            true => usize::from(self.list_borrowed(scope, None).next().is_some()),
            false => self.counts.of(&scope.prefix) + layered,
        }
    }

    /// Whether there are objects of `scope` after `last`, with which a page of a list ends.
    pub fn has_more(&self, scope: &Scope, last: &str) -> bool {
        self.list_borrowed(scope, Some(last)).next().is_some()
    }

    /// The number of objects after a page of a list that starts after `after`, has `limit` objects and is not the last
    /// one. Without iterating, unless `before`, the number of objects after the previous page, is not known.
    pub fn remaining(
        &self,
        scope: &Scope,
        after: Option<&str>,
        before: Option<usize>,
        limit: usize,
    ) -> usize {
        let before = before.unwrap_or_else(|| match after {
            None => self.count(scope),
            Some(_) => self.list_borrowed(scope, after).count(),
        });
        before.saturating_sub(limit).max(1)
    }

    /// Number of stored objects in `scope`, without the layer and without iterating; 0 for one object.
    pub fn stored_count(&self, scope: &Scope) -> usize {
        self.counts.of(&scope.prefix)
    }

    /// Number of stored objects, including tombstones.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds objects with new keys.
    pub(crate) fn fill(&mut self, objects: Vec<Arc<Object>>) {
        let shown = objects.iter().filter(|object| !object.is_tombstone());
        self.counts.add_all(shown.map(|object| &*object.key));
        self.objects.extend(objects.into_iter().map(|object| (object.key.clone(), object)));
    }

    pub(crate) fn insert(&mut self, object: Arc<Object>) {
        let is_shown = !object.is_tombstone();
        let key = object.key.clone();
        let was_shown = self.objects.insert(key.clone(), object).is_some_and(|old| !old.is_tombstone());
        match (was_shown, is_shown) {
            (false, true) => self.counts.add(&key),
            (true, false) => self.counts.subtract(&key),
            _ => {}
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        if self.objects.remove(key).is_some_and(|old| !old.is_tombstone()) {
            self.counts.subtract(key);
        }
    }

    /// Whether the objects of `scope` are as they were at this snapshot's revision.
    pub(crate) fn is_accurate_for(&self, scope: &Scope) -> bool {
        self.reverted.as_ref().is_none_or(|reverted| reverted == scope)
    }

    /// Reverts `event`. An object of the layer that it replaced becomes visible again.
    pub(crate) fn revert(&mut self, event: &Event) {
        match &event.previous {
            previous if event.reach == Reach::Inherited => {
                self.inherited.revert(&event.key, previous.clone());
            }
            Some(previous) => self.insert(previous.clone()),
            _ => self.remove(&event.key),
        }
    }
}

/// Merges two sorted sequences; stored objects hide layered ones.
struct Merged<S: Iterator, L: Iterator> {
    stored: Peekable<S>,
    layered: Peekable<L>,
}

impl<'a, S, L> Iterator for Merged<S, L>
where
    S: Iterator<Item = Cow<'a, Arc<Object>>>,
    L: Iterator<Item = Cow<'a, Arc<Object>>>,
{
    type Item = Cow<'a, Arc<Object>>;

    fn next(&mut self) -> Option<Cow<'a, Arc<Object>>> {
        let (Some(stored), Some(layered)) = (self.stored.peek(), self.layered.peek()) else {
            return self.stored.next().or_else(|| self.layered.next());
        };
        match stored.key.cmp(&layered.key) {
            std::cmp::Ordering::Greater => self.layered.next(),
            std::cmp::Ordering::Less => self.stored.next(),
            std::cmp::Ordering::Equal => {
                self.layered.next();
                self.stored.next()
            }
        }
    }
}

#[cfg(test)]
mod tests;
