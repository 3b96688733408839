//! Who belongs to whom: of all objects those that have owners, or go and have something to do before.
//!
//! An owner is but a uid here. That it is there, under the name by which somebody calls it, is looked up once and
//! remembered until it goes; so nothing has to be known of the many objects that own nothing and that nobody owns.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use atoll_informer::{Key, Resource};
use atoll_meta::object;
use serde_json::Value;

pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

/// Objects that are remembered to be gone.
const REMEMBERED: usize = 8192;

pub type Uid = Arc<str>;

/// How an object calls its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub uid: Uid,
    pub api_version: String,
    pub kind: String,
    pub name: String,
    /// Whether the owner waits for this object.
    pub blocks: bool,
}

#[derive(Clone, Debug)]
pub struct Item {
    pub uid: Uid,
    pub resource: Arc<Resource>,
    pub key: Key,
    pub owners: Vec<Owner>,
    pub is_going: bool,
    /// It waits for what it owns to go.
    pub waits: bool,
    /// What it owns is to stay.
    pub orphans: bool,
}

impl Item {
    fn new(resource: &Arc<Resource>, key: Key, object: &Value) -> Item {
        let is_going = object::is_being_deleted(object);
        let has = |finalizer: &str| object::finalizers(object).any(|own| own == finalizer);
        let owners = object::owner_references(object).map(|owner| Owner {
            uid: owner.uid.into(),
            api_version: owner.api_version.into(),
            kind: owner.kind.into(),
            name: owner.name.into(),
            blocks: owner.block_owner_deletion == Some(true),
        });
        Item {
            uid: object::uid(object).into(),
            resource: resource.clone(),
            key,
            owners: owners.collect(),
            is_going,
            waits: is_going && has(FOREGROUND),
            orphans: is_going && has(ORPHAN),
        }
    }

    fn is_of_interest(&self) -> bool {
        !self.owners.is_empty() || self.waits || self.orphans
    }
}

/// An owner that was found under a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    api_version: String,
    kind: String,
    namespace: Arc<str>,
    name: String,
}

/// What is known of an owner that is there.
struct Found {
    resource: Arc<Resource>,
    workspace: Arc<str>,
    /// Under which it was found.
    names: HashSet<Name>,
}

#[derive(Default)]
pub struct Graph {
    items: HashMap<Uid, Item>,
    /// By the uid of the owner.
    dependents: HashMap<Uid, HashSet<Uid>>,
    /// Owners that are there.
    found: HashMap<Uid, Found>,
    /// The last that went, so that whoever looked just before does not bring them back.
    gone: HashSet<Uid>,
    /// The same in the order in which they went.
    graves: VecDeque<Uid>,
}

/// Items that are to be looked at.
pub type Work = Vec<Uid>;

impl Graph {
    pub fn get(&self, uid: &str) -> Option<Item> {
        self.items.get(uid).cloned()
    }

    pub fn workspace(&self, uid: &str) -> Option<Arc<str>> {
        self.items.get(uid).map(|item| item.key.workspace.clone())
    }

    pub fn dependents(&self, uid: &str) -> Vec<Item> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| self.items.get(uid).cloned()).collect()
    }

    /// Whether an owner is known to be there as `item` calls it.
    pub fn is_found(&self, item: &Item, owner: &Owner) -> bool {
        self.found.get(&owner.uid).is_some_and(|found| {
            let known = |namespace| found.names.contains(&name(owner, namespace));
            known(&item.key.namespace) || known("")
        })
    }

    /// Somebody has looked: the owner is there as `item` calls it. It is one of `resource`.
    pub fn found(&mut self, item: &Item, owner: &Owner, resource: &Arc<Resource>) {
        // It may have gone since, or begun to wait for what it owns.
        if self.gone.contains(&owner.uid)
            || self.waiting(&owner.uid).is_some()
            || !self.dependents.contains_key(&owner.uid)
        {
            return;
        }
        let namespace: &str = if resource.namespaced { &item.key.namespace } else { "" };
        let found = self.found.entry(owner.uid.clone()).or_insert_with(|| Found {
            resource: resource.clone(),
            workspace: item.key.workspace.clone(),
            names: HashSet::new(),
        });
        found.names.insert(name(owner, namespace));
    }

    /// An object is there, or has changed.
    pub fn there(&mut self, resource: &Arc<Resource>, key: Key, object: &Value) -> Work {
        let item = Item::new(resource, key, object);
        let before = self.items.remove(&item.uid);
        let mut work = Work::new();
        for gone in before.iter().flat_map(|item| &item.owners) {
            let kept = item.owners.iter().find(|owner| owner.uid == gone.uid);
            if kept.is_none() {
                self.forget(&gone.uid, &item.uid);
            }
            if gone.blocks && kept.is_none_or(|kept| !kept.blocks) {
                work.extend(self.waiting(&gone.uid));
            }
        }
        for owner in &item.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(item.uid.clone());
        }
        let is_new = |owner: &&Owner| !before.as_ref().is_some_and(|before| before.owners.contains(owner));
        if item.owners.iter().filter(is_new).any(|owner| !self.is_found(&item, owner)) {
            work.push(item.uid.clone());
        }
        let (waited, orphaned) = before.as_ref().map_or((false, false), |own| (own.waits, own.orphans));
        if item.orphans && !orphaned {
            work.push(item.uid.clone());
        } else if item.waits && !waited {
            self.found.remove(&item.uid);
            work.extend(self.dependents.get(&item.uid).into_iter().flatten().cloned());
            work.push(item.uid.clone());
        }
        if item.is_of_interest() {
            self.items.insert(item.uid.clone(), item);
        }
        work
    }

    /// An object is gone.
    pub fn gone(&mut self, uid: &str) -> Work {
        self.found.remove(uid);
        self.bury(uid);
        let mut work: Work = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        if let Some(item) = self.items.remove(uid) {
            for owner in &item.owners {
                self.forget(&owner.uid, &item.uid);
                work.extend(self.waiting(&owner.uid));
            }
        }
        work
    }

    /// All objects of a resource have been shown: what was not is gone. `workspace` is the only one in which they were looked for.
    pub fn all(&mut self, resource: &Resource, workspace: Option<&str>, present: &HashSet<String>) -> Work {
        let is_meant = |own: &Resource, place: &str| {
            own == resource && workspace.is_none_or(|workspace| workspace == place)
        };
        let items = self.items.values().filter(|item| is_meant(&item.resource, &item.key.workspace));
        let mut gone: HashSet<Uid> = items.map(|item| item.uid.clone()).collect();
        let found = self.found.iter().filter(|(_, found)| is_meant(&found.resource, &found.workspace));
        gone.extend(found.map(|(uid, _)| uid.clone()));
        gone.retain(|uid| !present.contains(&**uid));
        gone.iter().flat_map(|uid| self.gone(uid)).collect()
    }

    fn bury(&mut self, uid: &str) {
        let uid: Uid = uid.into();
        if self.gone.insert(uid.clone()) {
            self.graves.push_back(uid);
        }
        if self.graves.len() > REMEMBERED
            && let Some(oldest) = self.graves.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }

    fn waiting(&self, uid: &Uid) -> Option<Uid> {
        self.items.get(uid).filter(|item| item.waits).map(|item| item.uid.clone())
    }

    fn forget(&mut self, owner: &Uid, dependent: &Uid) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
                self.found.remove(owner);
            }
        }
    }
}

fn name(owner: &Owner, namespace: &str) -> Name {
    Name {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        namespace: namespace.into(),
        name: owner.name.clone(),
    }
}

#[cfg(test)]
mod tests;
