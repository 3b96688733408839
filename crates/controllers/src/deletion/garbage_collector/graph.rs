//! Graph of owners and owned objects. It contains only objects that have owners, or that are being deleted
//! and have to orphan or wait.
//!
//! An owner is only a uid in the workspace of the object that it owns. So an object of another workspace is
//! never an owner, whatever uid a reference contains. That an owner exists, under the name in the reference,
//! is looked up once and remembered until it is deleted. So no memory is used for the many objects that have
//! no owners and own nothing.

// upstream: pkg/controller/garbagecollector/graph.go
// upstream: pkg/controller/garbagecollector/graph_builder.go
// upstream: pkg/controller/garbagecollector/uid_cache.go

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use atoll_informer::{Key, Resource};
use atoll_meta::object;
use serde_json::Value;

pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

/// Number of deleted objects that are remembered.
const MAX_REMEMBERED: usize = 8192;

pub type Uid = Arc<str>;

/// An object, or an owner that may not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphNode {
    pub workspace: Arc<str>,
    pub uid: Uid,
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub uid: Uid,
    pub api_version: String,
    pub kind: String,
    pub name: String,
    /// Whether the reference has `blockOwnerDeletion`.
    pub blocks: bool,
}

#[derive(Clone, Debug)]
pub struct Item {
    pub uid: Uid,
    pub resource: Arc<Resource>,
    pub key: Key,
    pub owners: Vec<Owner>,
    pub is_being_deleted: bool,
    /// The object waits for its owned objects to be deleted.
    pub waits: bool,
    /// The object orphans its owned objects.
    pub orphans: bool,
}

impl Item {
    fn new(resource: &Arc<Resource>, key: Key, object: &Value) -> Item {
        let is_being_deleted = object::is_being_deleted(object);
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
            is_being_deleted,
            waits: is_being_deleted && has(FOREGROUND),
            orphans: is_being_deleted && has(ORPHAN),
        }
    }

    pub fn node(&self) -> GraphNode {
        GraphNode { workspace: self.key.workspace.clone(), uid: self.uid.clone() }
    }

    /// Returns the node of an owner.
    fn owner(&self, owner: &Owner) -> GraphNode {
        GraphNode { workspace: self.key.workspace.clone(), uid: owner.uid.clone() }
    }

    fn is_relevant(&self) -> bool {
        !self.owners.is_empty() || self.waits || self.orphans
    }
}

/// A name under which an owner was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    api_version: String,
    kind: String,
    namespace: Arc<str>,
    name: String,
}

/// An owner that exists.
struct ExistingOwner {
    resource: Arc<Resource>,
    /// Names under which it was found.
    names: HashSet<Name>,
}

#[derive(Default)]
pub struct Graph {
    items: HashMap<GraphNode, Item>,
    /// Owned objects by owner.
    dependents: HashMap<GraphNode, HashSet<GraphNode>>,
    /// Owners that exist.
    found: HashMap<GraphNode, ExistingOwner>,
    /// Recently deleted objects, so that a concurrent live read does not add them again.
    deleted: HashSet<GraphNode>,
    /// The same in the order of their deletion.
    deletion_order: VecDeque<GraphNode>,
}

/// Objects to process.
pub type Work = Vec<GraphNode>;

impl Graph {
    pub fn get(&self, node: &GraphNode) -> Option<Item> {
        self.items.get(node).cloned()
    }

    pub fn dependents(&self, owner: &GraphNode) -> Vec<Item> {
        let dependents = self.dependents.get(owner).into_iter().flatten();
        dependents.filter_map(|dependent| self.items.get(dependent).cloned()).collect()
    }

    /// Whether an owner is known to exist under the name in `item`'s reference.
    pub fn is_known_owner(&self, item: &Item, owner: &Owner) -> bool {
        self.found.get(&item.owner(owner)).is_some_and(|found| {
            let known = |namespace| found.names.contains(&name(owner, namespace));
            known(&item.key.namespace) || known("")
        })
    }

    /// Records that the owner exists under the name in `item`'s reference. It is one of `resource`.
    pub fn add_known_owner(&mut self, item: &Item, owner: &Owner, resource: &Arc<Resource>) {
        // The owner may have been deleted since, or wait for its owned objects.
        let node = item.owner(owner);
        if self.deleted.contains(&node)
            || self.waiting(&node).is_some()
            || !self.dependents.contains_key(&node)
        {
            return;
        }
        let namespace: &str = if resource.namespaced { &item.key.namespace } else { "" };
        let found = self
            .found
            .entry(node)
            .or_insert_with(|| ExistingOwner { resource: resource.clone(), names: HashSet::new() });
        found.names.insert(name(owner, namespace));
    }

    /// Adds or updates an object.
    pub fn update(&mut self, resource: &Arc<Resource>, key: Key, object: &Value) -> Work {
        let item = Item::new(resource, key, object);
        let node = item.node();
        let before = self.items.remove(&node);
        let mut work = Work::new();
        for gone in before.iter().flat_map(|item| &item.owners) {
            let kept = item.owners.iter().find(|owner| owner.uid == gone.uid);
            if kept.is_none() {
                self.forget(&item.owner(gone), &node);
            }
            if gone.blocks && kept.is_none_or(|kept| !kept.blocks) {
                work.extend(self.waiting(&item.owner(gone)));
            }
        }
        for owner in &item.owners {
            self.dependents.entry(item.owner(owner)).or_default().insert(node.clone());
        }
        let is_new = |owner: &&Owner| !before.as_ref().is_some_and(|before| before.owners.contains(owner));
        if item.owners.iter().filter(is_new).any(|owner| !self.is_known_owner(&item, owner)) {
            work.push(node.clone());
        }
        let (waited, orphaned) = before.as_ref().map_or((false, false), |own| (own.waits, own.orphans));
        if item.orphans && !orphaned {
            work.push(node.clone());
        } else if item.waits && !waited {
            self.found.remove(&node);
            work.extend(self.dependents.get(&node).into_iter().flatten().cloned());
            work.push(node.clone());
        }
        if item.is_relevant() {
            self.items.insert(node, item);
        }
        work
    }

    /// Removes an object.
    pub fn remove(&mut self, node: &GraphNode) -> Work {
        self.found.remove(node);
        self.remember_deleted(node);
        let mut work: Work = self.dependents.get(node).into_iter().flatten().cloned().collect();
        if let Some(item) = self.items.remove(node) {
            for owner in &item.owners {
                self.forget(&item.owner(owner), node);
                work.extend(self.waiting(&item.owner(owner)));
            }
        }
        work
    }

    /// Removes all objects of a resource that are not `present` after a list of the workspaces for which
    /// `is_listed` holds.
    pub fn retain_listed(
        &mut self,
        resource: &Resource,
        is_listed: impl Fn(&str) -> bool,
        present: &HashSet<String>,
    ) -> Work {
        self.missing(resource, is_listed, present).iter().flat_map(|node| self.remove(node)).collect()
    }

    /// Returns the objects of a resource that are not `present` after a list, and those that they own, to look at them
    /// again: some may be in another list, because their workspace has a definition of its own now. Removes none.
    pub fn look_again(
        &mut self,
        resource: &Resource,
        is_listed: impl Fn(&str) -> bool,
        present: &HashSet<String>,
    ) -> Work {
        let missing = self.missing(resource, is_listed, present);
        let mut work = Work::new();
        for node in missing {
            self.found.remove(&node);
            work.extend(self.dependents.get(&node).into_iter().flatten().cloned());
            work.push(node);
        }
        work
    }

    /// The objects of a resource that are not `present` after a list of the workspaces for which `is_listed` holds.
    fn missing(
        &self,
        resource: &Resource,
        is_listed: impl Fn(&str) -> bool,
        present: &HashSet<String>,
    ) -> HashSet<GraphNode> {
        let is_meant = |own: &Resource, place: &str| own == resource && is_listed(place);
        let items = self.items.iter().filter(|(node, item)| is_meant(&item.resource, &node.workspace));
        let mut gone: HashSet<GraphNode> = items.map(|(node, _)| node.clone()).collect();
        let found = self.found.iter().filter(|(node, found)| is_meant(&found.resource, &node.workspace));
        gone.extend(found.map(|(node, _)| node.clone()));
        gone.retain(|node| !present.contains(&*node.uid));
        gone
    }

    fn remember_deleted(&mut self, node: &GraphNode) {
        if self.deleted.insert(node.clone()) {
            self.deletion_order.push_back(node.clone());
        }
        if self.deletion_order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.deletion_order.pop_front()
        {
            self.deleted.remove(&oldest);
        }
    }

    fn waiting(&self, node: &GraphNode) -> Option<GraphNode> {
        self.items.get(node).filter(|item| item.waits).map(Item::node)
    }

    fn forget(&mut self, owner: &GraphNode, dependent: &GraphNode) {
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
