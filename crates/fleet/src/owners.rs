//! Owned objects are placed with the placed objects that own them.

use std::collections::HashSet;
use std::sync::Arc;

use atoll_meta::object::{self, OwnerReference};
use serde_json::Value;

use crate::Placement;
use crate::placed_by::REFERENCE;
use crate::placement::Share;

/// Most owners of an object that count. Owners of dependent owners, which count in their place, are included.
pub const MAX_OWNERS: usize = 16;
/// Longest chain of owners that are placed with their own owners.
pub const MAX_CHAIN: usize = 4;

/// Finds the owner that a reference names.
pub type FindOwner<'a> = dyn Fn(&OwnerReference<'_>) -> Option<Arc<Value>> + 'a;

/// The clusters of the placed objects that own an object. An owner that is itself placed with its owner counts where
/// that one is, so that objects that own each other do not keep each other in place. Each owner counts once, however
/// many objects it owns.
pub fn owner_shares(owned: &Value, find: &FindOwner<'_>) -> Vec<Share> {
    let (mut shares, mut names) = (Vec::new(), HashSet::new());
    let mut seen = HashSet::new();
    let mut level = owners(owned, find, &mut seen);
    for _ in 0..MAX_CHAIN {
        let mut next = Vec::new();
        for owner in level {
            let placement = Placement::of(&owner);
            if placement.by == REFERENCE && has_owner(&owner) {
                next.extend(owners(&owner, find, &mut seen));
                continue;
            }
            for share in placement.clusters {
                // A placement names each cluster once.
                if names.insert(share.name.clone()) {
                    shares.push(Share::on(&share.name, &share.uid));
                }
            }
        }
        level = next;
    }
    shares
}

/// The owners of an object that were not seen before and are not being deleted, as long as there are not too many.
fn owners(owned: &Value, find: &FindOwner<'_>, seen: &mut HashSet<String>) -> Vec<Arc<Value>> {
    let mut found = Vec::new();
    for reference in object::owner_references(owned).take(MAX_OWNERS) {
        if seen.len() >= MAX_OWNERS {
            break;
        }
        if !seen.insert(reference.uid.to_string()) {
            continue;
        }
        let owner = find(&reference).filter(|owner| object::uid(owner) == reference.uid);
        found.extend(owner.filter(|owner| !object::is_being_deleted(owner)));
    }
    found
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

    #[test]
    fn owners_with_many_common_owners_are_looked_up_once() {
        let level_of = |number: usize| (0..16).map(move |at| format!("{number}-{at}"));
        let mut known = HashMap::new();
        for number in 0..5 {
            let owners: Vec<Value> = match number {
                0 => Vec::new(),
                _ => level_of(number - 1)
                    .map(|name| json!({ "apiVersion": "v1", "kind": "K", "name": name, "uid": name }))
                    .collect(),
            };
            for name in level_of(number) {
                let by = if number == 0 { "default" } else { REFERENCE };
                let placement = json!({ "clusters": [{ "name": "east" }], "by": by }).to_string();
                let object = json!({ "metadata": {
                    "name": name, "uid": name, "ownerReferences": owners,
                    "annotations": { "atoll.dev/placement": placement },
                } });
                known.insert(name, Arc::new(object));
            }
        }
        let lookups = std::cell::Cell::new(0);
        let find = |owner: &OwnerReference<'_>| {
            lookups.set(lookups.get() + 1);
            known.get(owner.name).cloned()
        };
        owner_shares(&known["4-0"], &find);
        assert!(lookups.get() <= MAX_OWNERS, "{}", lookups.get());
        assert_eq!(owner_shares(&known["1-0"], &find), [Share::on("east", "")]);
    }
}
