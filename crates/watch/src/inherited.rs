//! Objects that a workspace gives to itself and to all workspaces below it.
//!
//! They are derived from stored objects of another resource, have the revisions of these, and exist once however
//! many workspaces inherit them. An object that a workspace stores itself hides an inherited one of the same name,
//! and that of a nearer workspace hides those from further above. A list across all workspaces shows each in the
//! workspace that gives it.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_store::Key;
use imbl::OrdMap;

use crate::object::{Decode, Object};
use crate::snapshot::Scope;

/// The keys of the one resource that can be inherited begin with this prefix.
pub const RESOURCE: &str = "apiextensions.k8s.io/customresourcedefinitions/";

/// The workspaces in which a change of an object can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A stored object.
    Stored,
    /// An inherited object became visible in the workspace of the key, because an object that hid it is gone.
    Uncovered,
    /// An inherited object of the workspace of the key and of those below it.
    Inherited,
}

/// All inherited objects, under their keys in the workspaces that give them.
#[derive(Clone)]
pub(crate) struct Inherited {
    /// Each object with the key of the stored object that it is derived from.
    objects: OrdMap<Key, (Arc<Object>, Key)>,
    /// The keys of derived objects by those of the stored objects.
    sources: OrdMap<Key, Key>,
    decode: Arc<dyn Decode>,
}

/// An inherited object before and after a change, with its key.
pub(crate) type InheritedChange = (Key, Option<Arc<Object>>, Option<Arc<Object>>);

impl Inherited {
    pub fn new(decode: Arc<dyn Decode>) -> Self {
        Inherited { objects: OrdMap::new(), sources: OrdMap::new(), decode }
    }

    /// The object that the workspace of `key` inherits under this key.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        if self.objects.is_empty() || !key.starts_with(RESOURCE) {
            return None;
        }
        let parts = key.parts()?;
        let mut above = self.decode.ancestry(parts.workspace).into_iter();
        above.find_map(|giver| {
            let (object, _) = self.objects.get(&key_in(key, &giver)?)?;
            Some(object.with_key(key))
        })
    }

    /// The objects of a scope in key order, starting after the key `after`.
    pub fn list(&self, scope: &Scope, after: Option<&str>) -> Vec<Arc<Object>> {
        if !self.covers(scope) {
            return Vec::new();
        }
        let is_listed = |key: &Key| scope.contains(key) && after.is_none_or(|after| **key > *after);
        let Some(workspace) = scope.workspace() else {
            let all = self.objects.values().map(|(object, _)| object);
            return all.filter(|object| is_listed(&object.key)).cloned().collect();
        };
        let mut found = BTreeMap::new();
        for giver in self.decode.ancestry(workspace) {
            let prefix = format!("{RESOURCE}{giver}/");
            let from = self.objects.range(Key::from(prefix.as_str())..);
            for (key, (object, _)) in from.take_while(|(key, _)| key.starts_with(&prefix)) {
                let Some(key) = key_in(key, workspace).filter(is_listed) else { continue };
                found.entry(key).or_insert(object);
            }
        }
        found.into_iter().map(|(key, object)| object.with_key(&key)).collect()
    }

    /// Whether there may be objects in a scope.
    pub fn covers(&self, scope: &Scope) -> bool {
        !self.objects.is_empty() && is_inheritable(scope)
    }

    /// Replaces what is derived from the stored object under `source`. Returns the changes as the workspaces see
    /// them that give the objects.
    pub fn derive(&mut self, source: &Key, derived: Option<Object>) -> Vec<InheritedChange> {
        let former = self.sources.get(source).cloned();
        let mut keys: Vec<Key> =
            former.iter().chain(derived.as_ref().map(|derived| &derived.key)).cloned().collect();
        keys.dedup();
        let before: Vec<_> = keys.iter().map(|key| self.get(key)).collect();
        if let Some(former) = former {
            self.sources.remove(source);
            // Another stored object may give it meanwhile.
            if self.objects.get(&former).is_some_and(|(_, of)| of == source) {
                self.objects.remove(&former);
            }
        }
        if let Some(derived) = derived {
            self.sources.insert(source.clone(), derived.key.clone());
            self.objects.insert(derived.key.clone(), (Arc::new(derived), source.clone()));
        }
        let changes = keys.into_iter().zip(before).map(|(key, before)| {
            let after = self.get(&key);
            (key, before, after)
        });
        changes
            .filter(|(_, before, after)| match (before, after) {
                (Some(before), Some(after)) => before.revision != after.revision,
                (before, after) => before.is_some() || after.is_some(),
            })
            .collect()
    }

    /// Restores an object of an earlier revision.
    pub fn revert(&mut self, key: &Key, previous: Option<Arc<Object>>) {
        match previous {
            Some(previous) => drop(self.objects.insert(key.clone(), (previous, key.clone()))),
            None => drop(self.objects.remove(key)),
        }
    }

    /// Replaces an object with a compiled definition by one without.
    pub fn demote(&mut self, object: *const Object, past: &Arc<Object>) {
        if let Some((found, source)) = self.objects.get(&past.key)
            && std::ptr::eq(Arc::as_ptr(found), object)
        {
            let source = source.clone();
            self.objects.insert(past.key.clone(), (past.clone(), source));
        }
    }

    /// Whether the workspace of `key` gives an object under this key.
    pub fn is_given_under(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    /// Whether the object that `workspace` inherits under the name of `key` comes from the workspace of `key`, or
    /// would if that had one.
    pub fn is_from(&self, workspace: &str, key: &Key) -> bool {
        let Some(giver) = key.parts().map(|parts| parts.workspace) else { return false };
        for above in self.decode.ancestry(workspace) {
            if above == giver {
                return true;
            }
            if key_in(key, &above).is_some_and(|nearer| self.objects.contains_key(&nearer)) {
                return false;
            }
        }
        false
    }

    /// The workspace that gives the object that the workspace of `key` inherits under this key.
    pub fn giver(&self, key: &Key) -> Option<String> {
        if self.objects.is_empty() || !key.starts_with(RESOURCE) {
            return None;
        }
        let mut above = self.decode.ancestry(key.parts()?.workspace).into_iter();
        above.find(|giver| key_in(key, giver).is_some_and(|key| self.objects.contains_key(&key)))
    }

    /// Names of the groups of watchers that a scope belongs to: one for each workspace that it inherits from.
    pub fn watch_groups(&self, scope: &Scope) -> Vec<String> {
        match scope.workspace() {
            _ if !is_inheritable(scope) => Vec::new(),
            Some(workspace) => {
                self.decode.ancestry(workspace).iter().map(|giver| watch_group(giver)).collect()
            }
            None => vec![watch_group("*")],
        }
    }
}

/// The name of the watchers that are told of inherited objects of a workspace.
pub(crate) fn watch_group(giver: &str) -> String {
    format!("inherited/{giver}")
}

/// Whether objects of a scope can be inherited.
fn is_inheritable(scope: &Scope) -> bool {
    scope.prefix.starts_with(RESOURCE)
}

/// The key of the same name in another workspace.
pub(crate) fn key_in(key: &Key, workspace: &str) -> Option<Key> {
    let parts = key.parts()?;
    Some(Key::object(parts.group, parts.resource, workspace, parts.namespace, parts.name))
}
