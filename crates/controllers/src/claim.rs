//! Whose an object is: controllers take what they select and nobody has, and let go what they no longer select.
//!
//! ```text
//!   candidates (owned, or nobody's) ─► fate ─┬─ Keep
//!                                            ├─ Adopt: after a look whether the owner is still there, and the same
//!                                            ├─ Release
//!                                            └─ Leave
//! ```

use std::sync::Arc;

use atoll_informer::{Cache, Key, Resource, World};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::{Value, json};

use crate::pods::controller_reference;

/// What becomes of an object that somebody looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Keep,
    Adopt,
    Release,
    Leave,
}

/// Who claims what.
pub struct Claim<'a> {
    pub world: &'a World,
    /// Where the objects are from; what is written is put there.
    pub cache: &'a Cache,
    /// What the owner is one of.
    pub owners: &'a Resource,
    pub owner: &'a Value,
    pub selector: &'a LabelSelector,
    /// What adopted objects get besides an owner, and lose with it.
    pub finalizers: &'a [&'a str],
}

/// The word under which [`orphans`] finds what nobody manages.
pub fn place_of(object: &Value) -> String {
    let key = Key::of(object);
    format!("{}/{}", key.workspace, key.namespace)
}

/// An index of objects that nobody manages, by where they are.
pub fn orphans(object: &Value) -> Vec<String> {
    match object::controller_of(object) {
        Some(_) => Vec::new(),
        None => vec![place_of(object)],
    }
}

/// What `owner` manages or could: its own objects and those in its namespace that nobody manages. `index` is that of
/// [`orphans`] in `cache`.
pub fn candidates(cache: &Cache, index: usize, owner: &Value) -> Vec<Arc<Value>> {
    let uid = object::uid(owner);
    let own = cache.owned_by(&Key::of(owner), uid).into_iter();
    let mut found: Vec<Arc<Value>> = own.filter(|object| is_managed_by(object, uid)).collect();
    found.extend(cache.found(index, &place_of(owner)));
    found
}

/// Whether the object with this uid manages `object`.
pub fn is_managed_by(object: &Value, uid: &str) -> bool {
    object::controller_of(object).is_some_and(|reference| reference.uid == uid)
}

/// The key of the object that manages `object`, if it is one of `owners` and as `cache` knows it.
pub fn manager(cache: &Cache, owners: &Resource, object: &Value) -> Option<Key> {
    let reference = object::controller_of(object)?;
    if reference.kind != owners.kind {
        return None;
    }
    let key = Key::of(object).beside(reference.name);
    cache.get(&key).filter(|owner| object::uid(owner) == reference.uid).map(|_| key)
}

pub fn selects(selector: &LabelSelector, object: &Value) -> bool {
    selector.matches(|key| object::label(object, key))
}

impl Claim<'_> {
    /// Those of the objects that are the owner's now. All are looked at even if some could not be written.
    pub async fn claim(&self, objects: Vec<Arc<Value>>) -> Result<Vec<Arc<Value>>, Status> {
        let (mut claimed, mut failed, mut checked) = (Vec::new(), None, None);
        for object in objects {
            let outcome = match fate(self.owner, &object, selects(self.selector, &object)) {
                Fate::Leave => continue,
                Fate::Keep => {
                    claimed.push(object);
                    continue;
                }
                Fate::Adopt => {
                    // Once is enough for all.
                    if checked.is_none() {
                        checked = Some(self.may_adopt().await);
                    }
                    match &checked {
                        Some(Err(status)) => Err(self.cannot_adopt(&object, status)),
                        _ => self.write(&object, self.adoption(&object)).await.map(Some),
                    }
                }
                Fate::Release => match self.write(&object, self.release(&object)).await {
                    // It has no owner, or it is another object by now: as good.
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
        let written = self.world.patch_strategic(&self.cache.resource, &key, &patch).await?;
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

    /// What the cache says of the owner may be old: it may be on its way out, and its objects orphaned on purpose.
    async fn may_adopt(&self) -> Result<(), Status> {
        let key = Key::of(self.owner);
        let fresh = self.world.get(self.owners, &key).await?;
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

fn fate(owner: &Value, object: &Value, selected: bool) -> Fate {
    let is_owner_going = object::is_being_deleted(owner);
    match object::controller_of(object) {
        Some(reference) if reference.uid != object::uid(owner) => Fate::Leave,
        Some(_) if selected => Fate::Keep,
        Some(_) if is_owner_going => Fate::Leave,
        Some(_) => Fate::Release,
        None if is_owner_going || !selected || object::is_being_deleted(object) => Fate::Leave,
        None if object::namespace(object) != object::namespace(owner) => Fate::Leave,
        None => Fate::Adopt,
    }
}

#[cfg(test)]
mod tests;
