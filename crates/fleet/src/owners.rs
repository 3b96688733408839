//! Owned objects go along with the placed objects that own them.

use std::sync::Arc;

use atoll_meta::object::{self, OwnerReference};
use serde_json::Value;

use crate::Placement;
use crate::placed_by::REFERENCE;
use crate::placement::Share;

/// Most owners of an object that count.
pub const MAX_OWNERS: usize = 16;
/// Longest chain of owners that go along with their owners.
pub const MAX_CHAIN: usize = 4;

/// Finds the owner that a reference names.
pub type FindOwner<'a> = dyn Fn(&OwnerReference<'_>) -> Option<Arc<Value>> + 'a;

/// The clusters of the placed objects that own an object. An owner that itself goes along with its owner counts where
/// that one is, so that objects that own each other do not keep each other in place.
pub fn owner_shares(owned: &Value, find: &FindOwner<'_>) -> Vec<Share> {
    let mut found = Vec::new();
    add_owner_shares(owned, find, MAX_CHAIN, &mut found);
    found
}

fn add_owner_shares(owned: &Value, find: &FindOwner<'_>, chain: usize, all: &mut Vec<Share>) {
    if chain == 0 {
        return;
    }
    for reference in object::owner_references(owned).take(MAX_OWNERS) {
        let owner = find(&reference).filter(|owner| object::uid(owner) == reference.uid);
        let Some(owner) = owner.filter(|owner| !object::is_being_deleted(owner)) else { continue };
        let placement = Placement::of(&owner);
        if placement.by == REFERENCE && has_owner(&owner) {
            add_owner_shares(&owner, find, chain - 1, all);
            continue;
        }
        for share in placement.clusters {
            // A placement names each cluster once.
            if !all.iter().any(|known| known.name == share.name) {
                all.push(Share::on(&share.name, &share.uid));
            }
        }
    }
}

pub fn has_owner(object: &Value) -> bool {
    object::owner_references(object).next().is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn owned_objects_are_where_their_owners_are() {
        let object = |name: &str, owners: &[&str], placement: Value| {
            let owners: Vec<Value> = owners
                .iter()
                .map(|owner| json!({ "apiVersion": "v1", "kind": "K", "name": owner, "uid": owner }))
                .collect();
            let annotations = json!({ "atoll.dev/placement": placement.to_string() });
            json!({ "metadata": { "name": name, "uid": name, "ownerReferences": owners, "annotations": annotations } })
        };
        let on = |cluster: &str, by: &str| json!({ "clusters": [{ "name": cluster }], "by": by });
        let mut leaving = object("leaving", &[], on("east", "default"));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let known: HashMap<String, Arc<Value>> = [
            object("web", &[], on("east", "default")),
            object("other", &[], on("west", "annotation")),
            object("above", &[], json!({})),
            object("between", &["web"], on("north", REFERENCE)),
            object("selected", &[], on("south", REFERENCE)),
            object("one", &["two"], on("east", REFERENCE)),
            object("two", &["one"], on("east", REFERENCE)),
            leaving,
        ]
        .into_iter()
        .map(|object| (object::name(&object).to_string(), Arc::new(object)))
        .collect();
        let find = |owner: &OwnerReference<'_>| known.get(owner.name).cloned();
        for (owners, expected) in [
            (&["web"][..], vec!["east"]),
            (&["web", "other", "above", "between"], vec!["east", "west"]),
            (&["missing"], vec![]),
            (&["leaving"], vec![]),
            // A chain leads to the first owner, and a circle to none.
            (&["between"], vec!["east"]),
            (&["selected"], vec!["south"]),
            (&["one"], vec![]),
        ] {
            let found = owner_shares(&object("owned", owners, json!({})), &find);
            let names: Vec<&str> = found.iter().map(|share| share.name.as_str()).collect();
            assert_eq!(names, expected, "{owners:?}");
        }
        // Another object of that name is no owner.
        let mut owned = object("owned", &["web"], json!({}));
        owned["metadata"]["ownerReferences"][0]["uid"] = "earlier".into();
        assert_eq!(owner_shares(&owned, &find), []);
    }
}
