//! Controller references: a controller adopts objects that it selects and that have no controller, and
//! releases those that it no longer selects.
//!
//! ```text
//!   candidates (owned, or orphans) ─► decide ─┬─ Keep
//!                                             ├─ Adopt: after checking that the same owner still exists
//!                                             ├─ Release
//!                                             └─ Ignore
//! ```

// upstream: pkg/controller/controller_ref_manager.go

use std::sync::Arc;

use atoll_informer::{ApiScope, Cache, Key, Resource};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Value, json};

use crate::shared::pods::controller_reference;

/// Result of comparing an object with a possible owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimDecision {
    Keep,
    Adopt,
    Release,
    Ignore,
}

/// Adopts and releases objects for one owner.
pub struct ControllerRefManager<'a> {
    pub api: &'a ApiScope,
    /// Cache of the candidate objects; written objects are stored in it.
    pub cache: &'a Cache,
    /// Resource of the owner.
    pub owners: &'a Resource,
    pub owner: &'a Value,
    pub selector: &'a LabelSelector,
    /// Finalizers that are added on adoption and removed on release.
    pub finalizers: &'a [&'a str],
}

/// Returns the key under which the [`orphans`] index lists an object without a controller.
pub fn namespace_key(object: &Value) -> String {
    let key = Key::of(object);
    format!("{}/{}", key.workspace, key.namespace)
}

/// Index of objects without a controller, by namespace.
pub fn orphans(object: &Value) -> Vec<String> {
    match object::controller_of(object) {
        Some(_) => Vec::new(),
        None => vec![namespace_key(object)],
    }
}

/// Returns the objects that `owner` controls or could adopt: its own and the orphans of its namespace.
/// `index` is the [`orphans`] index of `cache`.
pub fn candidates(cache: &Cache, index: usize, owner: &Value) -> Vec<Arc<Value>> {
    let uid = object::uid(owner);
    let own = cache.owned_by(&Key::of(owner), uid).into_iter();
    let mut found: Vec<Arc<Value>> = own.filter(|object| is_managed_by(object, uid)).collect();
    found.extend(cache.by_index(index, &namespace_key(owner)));
    found
}

/// Whether the object with this uid is the controller of `object`.
pub fn is_managed_by(object: &Value, uid: &str) -> bool {
    object::controller_of(object).is_some_and(|reference| reference.uid == uid)
}

/// Returns the key of the controller of `object`, if it is one of `owners` and in `cache`.
pub fn controller_key(cache: &Cache, owners: &Resource, object: &Value) -> Option<Key> {
    let reference = object::controller_of(object)?;
    if reference.kind != owners.kind {
        return None;
    }
    let key = Key::of(object).sibling(reference.name);
    cache.get(&key).filter(|owner| object::uid(owner) == reference.uid).map(|_| key)
}

pub fn selects(selector: &LabelSelector, object: &Value) -> bool {
    selector.matches_labels(&object::label_map(object))
}

impl ControllerRefManager<'_> {
    /// Returns the objects that belong to the owner now. Continues after failed writes and returns the first
    /// error.
    pub async fn claim(&self, objects: Vec<Arc<Value>>) -> Result<Vec<Arc<Value>>, Status> {
        let (mut claimed, mut failed, mut checked) = (Vec::new(), None, None);
        for object in objects {
            let outcome = match decide(self.owner, &object, selects(self.selector, &object)) {
                ClaimDecision::Ignore => continue,
                ClaimDecision::Keep => {
                    claimed.push(object);
                    continue;
                }
                ClaimDecision::Adopt => {
                    // One check is enough for all objects.
                    if checked.is_none() {
                        checked = Some(self.may_adopt().await);
                    }
                    match &checked {
                        Some(Err(status)) => Err(self.cannot_adopt(&object, status)),
                        _ => self.write(&object, self.adoption(&object)).await.map(Some),
                    }
                }
                ClaimDecision::Release => match self.write(&object, self.release(&object)).await {
                    // The object has no owner reference any more, or is another object with the same name.
                    Err(status) if status.reason() == "Invalid" => Ok(None),
                    released => released.map(|_| None),
                },
            };
            match outcome {
                Ok(adopted) => claimed.extend(adopted),
                Err(status) if status.reason() == "NotFound" => {}
                Err(status) => failed = failed.or(Some(status)),
            }
        }
        failed.map_or(Ok(claimed), Err)
    }

    async fn write(&self, object: &Value, patch: Value) -> Result<Arc<Value>, Status> {
        let key = Key::of(object);
        let written = self.api.patch_strategic(&self.cache.resource, &key, &patch).await?;
        self.cache.wrote(&written);
        Ok(self.cache.get(&key).unwrap_or_else(|| Arc::new(written)))
    }

    fn adoption(&self, object: &Value) -> Value {
        let mut metadata = json!({
            "uid": object::uid(object),
            "ownerReferences": [controller_reference(self.owners, self.owner)],
        });
        if !self.finalizers.is_empty() {
            metadata["finalizers"] = json!(self.finalizers);
        }
        json!({"metadata": metadata})
    }

    fn release(&self, object: &Value) -> Value {
        let mut metadata = json!({
            "uid": object::uid(object),
            "ownerReferences": [{"$patch": "delete", "uid": object::uid(self.owner)}],
        });
        if !self.finalizers.is_empty() {
            metadata["$deleteFromPrimitiveList/finalizers"] = json!(self.finalizers);
        }
        json!({"metadata": metadata})
    }

    /// Reads the owner, because the cached one may be stale: the owner may be being deleted with its objects
    /// orphaned on purpose.
    async fn may_adopt(&self) -> Result<(), Status> {
        let key = Key::of(self.owner);
        let fresh = self.api.get(self.owners, &key).await?;
        let (kind, place) = (&self.owners.kind, format!("{}/{}", key.namespace, key.name));
        if object::uid(&fresh) != object::uid(self.owner) {
            let (got, wanted) = (object::uid(&fresh), object::uid(self.owner));
            let message = format!("original {kind} {place} is gone: got uid {got}, wanted {wanted}");
            return Err(Status::plain_internal(message));
        }
        match object::deletion_timestamp(&fresh) {
            Some(time) => Err(Status::plain_internal(format!("{place} has just been deleted at {time}"))),
            None => Ok(()),
        }
    }

    fn cannot_adopt(&self, object: &Value, status: &Status) -> Status {
        let (kind, uid) = (&self.cache.resource.kind, object::uid(object));
        let place = format!("{}/{}", object::namespace(object), object::name(object));
        Status::plain_internal(format!("can't adopt {kind} {place} ({uid}): {status}"))
    }
}

fn decide(owner: &Value, object: &Value, selected: bool) -> ClaimDecision {
    let is_owner_going = object::is_being_deleted(owner);
    match object::controller_of(object) {
        Some(reference) if reference.uid != object::uid(owner) => ClaimDecision::Ignore,
        Some(_) if selected => ClaimDecision::Keep,
        Some(_) if is_owner_going => ClaimDecision::Ignore,
        Some(_) => ClaimDecision::Release,
        None if is_owner_going || !selected || object::is_being_deleted(object) => ClaimDecision::Ignore,
        None if object::namespace(object) != object::namespace(owner) => ClaimDecision::Ignore,
        None => ClaimDecision::Adopt,
    }
}

#[cfg(test)]
mod tests;
