//! Enqueues objects when related objects change.

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Cache, Key, Queue};
use atoll_meta::object;
use serde_json::Value;

use crate::shared::controller_refs::{controller_key, selects};
use crate::shared::selectors;

/// Enqueues the controllers of `children` when one changes and, when one has no controller, all owners that
/// select it.
pub fn owners(children: &Cache, owners: &Arc<Cache>, queue: &Queue) {
    owners_after(children, owners, queue, Duration::ZERO);
}

/// Like [`owners`], after a delay that combines several changes.
pub fn owners_after(children: &Cache, owners: &Arc<Cache>, queue: &Queue, delay: Duration) {
    let (owners, queue) = (owners.clone(), queue.clone());
    let add = move |key: Key| match delay.is_zero() {
        true => queue.add(key),
        false => queue.add_after(key, delay),
    };
    children.listen(move |change| {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        for child in [old, new].into_iter().flatten() {
            if let Some(key) = controller_key(&owners, &owners.resource, child) {
                add(key);
            }
        }
        let Some(orphan) = new.filter(|new| object::controller_of(new).is_none()) else { return };
        let is_changed = old.is_none_or(|old| {
            object::controller_of(old).is_some() || old["metadata"]["labels"] != orphan["metadata"]["labels"]
        });
        if is_changed {
            for key in selecting_owners(&owners, orphan) {
                add(key);
            }
        }
    });
}

/// Enqueues only the controllers of `children`.
pub fn controllers(children: &Cache, owners: &Arc<Cache>, queue: &Queue) {
    let (owners, queue) = (owners.clone(), queue.clone());
    children.listen(move |change| {
        for child in [&change.old, &change.new].into_iter().flatten() {
            if let Some(key) = controller_key(&owners, &owners.resource, child) {
                queue.add(key);
            }
        }
    });
}

/// Enqueues each owner when it changes.
pub fn changed_objects(owners: &Cache, queue: &Queue) {
    let queue = queue.clone();
    owners.listen(move |change| queue.add(change.key.clone()));
}

/// Returns the owners in an object's namespace that select it.
fn selecting_owners(owners: &Cache, object: &Value) -> Vec<Key> {
    let key = Key::of(object);
    let candidates = owners.list(&key.workspace, &key.namespace).into_iter();
    let is_selecting = |owner: &Arc<Value>| {
        selectors::of_object(owner).is_ok_and(|selector| !selector.is_empty() && selects(&selector, object))
    };
    candidates.filter(is_selecting).map(|owner| Key::of(&owner)).collect()
}
