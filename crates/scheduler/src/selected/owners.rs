//! The owners of objects that select Pods: such an object is placed with its owner, too.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::owners::{FindOwner, MAX_CHAIN, MAX_OWNERS, owner_shares};
use atoll_fleet::placement::Share;
use atoll_informer::{ApiScope, Change, Key};
use atoll_meta::{Status, object};
use serde_json::Value;

use super::{NAMESPACES, Selected, scoped};
use crate::kinds::Kinds;
use crate::workloads;

/// Workspace, namespace and owner of an object.
pub fn index_key(at: &Key, uid: &str) -> String {
    scoped(at, &format!("owner/{uid}"))
}

/// Adds the index keys of the owners of an object.
pub fn with_index_keys(object: &Value, mut index_keys: Vec<String>) -> Vec<String> {
    let mut owners = object::owner_references(object).take(MAX_OWNERS).peekable();
    if owners.peek().is_some() {
        let at = Key::of(object);
        index_keys.extend(owners.map(|owner| index_key(&at, owner.uid)));
    }
    index_keys
}

/// Adds the clusters of the owners of an object.
pub fn with_shares(mut shares: Vec<Share>, owned: &Value, find: &FindOwner<'_>) -> Vec<Share> {
    for share in owner_shares(owned, find) {
        if !shares.iter().any(|known| known.name == share.name) {
            shares.push(share);
        }
    }
    shares
}

/// Reads the owners of an object from the API, and theirs, by uid.
pub async fn read(
    api: &ApiScope,
    kinds: &Kinds,
    at: &Key,
    owned: &Value,
) -> Result<HashMap<String, Arc<Value>>, Status> {
    let mut found: HashMap<String, Arc<Value>> = HashMap::new();
    let mut open = vec![Arc::new(owned.clone())];
    for _ in 0..MAX_CHAIN {
        for object in std::mem::take(&mut open) {
            for owner in object::owner_references(&object).take(MAX_OWNERS) {
                if found.contains_key(owner.uid) || found.len() >= MAX_OWNERS {
                    continue;
                }
                let Some((cache, key)) = kinds.owner_resource(at, &owner) else { continue };
                match api.get_metadata(&cache.resource, &key).await {
                    Err(status) if status.code() == 404 => {}
                    owner => {
                        let owner = Arc::new(owner?);
                        found.insert(object::uid(&owner).to_string(), owner.clone());
                        open.push(owner);
                    }
                }
            }
        }
    }
    Ok(found)
}

impl Selected {
    /// Adds the objects that an object of another kind owns, if its clusters have changed.
    pub fn owner_changed(&self, change: &Change) {
        let clusters = |object: &Option<Arc<Value>>| {
            object.as_ref().map(|object| Placement::of(object).clusters).unwrap_or_default()
        };
        if clusters(&change.old) != clusters(&change.new) {
            let namespace = change.key.sibling("");
            self.changed.add(&namespace, vec![index_key(&change.key, object::uid(change.object()))]);
            self.queue.add(workloads::queue_key(NAMESPACES, &namespace));
        }
    }
}
