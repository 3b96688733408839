//! Decides what to do with an object from the state of its owners.

// upstream: pkg/controller/garbagecollector/garbagecollector.go
// upstream: pkg/controller/garbagecollector/patch.go

use atoll_meta::object;
use serde_json::Value;

use super::graph::{FOREGROUND, Item, ORPHAN, Owner};

/// State of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// The owner exists and stays.
    Solid,
    /// The owner does not exist, or has another uid.
    Dangling,
    /// The owner waits for its owned objects to be deleted.
    Waiting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Keep,
    /// Keep the object, and remove the references to these owners.
    RemoveReferences(Vec<String>),
    /// Delete the object after those that it owns. With `unblock`, first clear `blockOwnerDeletion`, which
    /// would deadlock in a cycle.
    DeleteForeground {
        unblock: bool,
    },
    Delete(&'static str),
}

/// Returns the state of an owner that was found.
pub fn state(owner: &Owner, live: &Value) -> OwnerState {
    if object::uid(live) != &*owner.uid {
        return OwnerState::Dangling;
    }
    let waits = object::is_being_deleted(live) && object::finalizers(live).any(|own| own == FOREGROUND);
    if waits { OwnerState::Waiting } else { OwnerState::Solid }
}

/// Decides about the object `live` with these `owners`; `dependents` are the objects that it owns.
pub fn decide(live: &Value, owners: &[(Owner, OwnerState)], dependents: &[Item]) -> Decision {
    let with = |wanted: OwnerState| owners.iter().filter(move |(_, state)| *state == wanted);
    if owners.is_empty() {
        return Decision::Keep;
    }
    if with(OwnerState::Solid).next().is_some() {
        let lost = with(OwnerState::Dangling).chain(with(OwnerState::Waiting));
        let lost: Vec<String> = lost.map(|(owner, _)| owner.uid.to_string()).collect();
        return if lost.is_empty() { Decision::Keep } else { Decision::RemoveReferences(lost) };
    }
    if with(OwnerState::Waiting).next().is_some() && !dependents.is_empty() {
        return Decision::DeleteForeground { unblock: dependents.iter().any(|item| item.waits) };
    }
    let has = |finalizer: &str| object::finalizers(live).any(|own| own == finalizer);
    Decision::Delete(match () {
        () if has(ORPHAN) => "Orphan",
        () if has(FOREGROUND) => "Foreground",
        () => "Background",
    })
}

/// Returns the owner references of an object without these owners.
pub fn references_without(live: &Value, uids: &[String]) -> Vec<Value> {
    let references = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_kept = |own: &&Value| !uids.iter().any(|uid| own["uid"] == *uid);
    references.filter(is_kept).cloned().collect()
}

/// Returns the owner references of an object with `blockOwnerDeletion` cleared.
pub fn unblocked_references(live: &Value) -> Vec<Value> {
    let mut references = live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    for reference in &mut references {
        if reference["blockOwnerDeletion"] == true {
            reference["blockOwnerDeletion"] = false.into();
        }
    }
    references
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use atoll_informer::{Key, resources};
    use serde_json::json;

    use super::OwnerState::{Dangling, Solid, Waiting};
    use super::*;

    fn owner(uid: &str) -> Owner {
        Owner { uid: uid.into(), api_version: "v1".into(), kind: "K".into(), name: "o".into(), blocks: true }
    }

    fn item(waits: bool) -> Item {
        Item {
            uid: "x".into(),
            resource: Arc::new(resources::PODS.clone()),
            key: Key::new("", "n", "x"),
            owners: Vec::new(),
            is_being_deleted: waits,
            waits,
            orphans: false,
        }
    }

    #[test]
    fn objects_without_remaining_owners_are_deleted() {
        let plain = json!({"metadata": {}});
        let with = |finalizer: &str| json!({"metadata": {"finalizers": [finalizer]}});
        let remove =
            |uids: &[&str]| Decision::RemoveReferences(uids.iter().map(|uid| uid.to_string()).collect());
        let cases = [
            ("no owners", plain.clone(), vec![], vec![], Decision::Keep),
            ("owned", plain.clone(), vec![Solid], vec![], Decision::Keep),
            ("owned still", plain.clone(), vec![Dangling, Solid, Waiting], vec![], remove(&["0", "2"])),
            ("lost", plain.clone(), vec![Dangling], vec![], Decision::Delete("Background")),
            (
                "lost twice",
                plain.clone(),
                vec![Dangling, Dangling],
                vec![item(false)],
                Decision::Delete("Background"),
            ),
            ("lost, orphaning", with(ORPHAN), vec![Dangling], vec![], Decision::Delete("Orphan")),
            ("lost, waiting", with(FOREGROUND), vec![Dangling], vec![], Decision::Delete("Foreground")),
            ("waited for", plain.clone(), vec![Waiting], vec![], Decision::Delete("Background")),
            (
                "waited for, an owner",
                plain.clone(),
                vec![Waiting],
                vec![item(false)],
                Decision::DeleteForeground { unblock: false },
            ),
            (
                "in a circle",
                plain,
                vec![Waiting, Dangling],
                vec![item(false), item(true)],
                Decision::DeleteForeground { unblock: true },
            ),
        ];
        for (name, live, states, dependents, wanted) in cases {
            let owners: Vec<(Owner, OwnerState)> = states
                .into_iter()
                .enumerate()
                .map(|(index, state)| (owner(&index.to_string()), state))
                .collect();
            assert_eq!(decide(&live, &owners, &dependents), wanted, "{name}");
        }
    }

    #[test]
    fn owner_state_follows_uid_and_deletion() {
        let live = |uid: &str, is_deleted: bool, finalizers: Value| {
            let mut live = json!({"metadata": {"uid": uid, "finalizers": finalizers}});
            if is_deleted {
                object::set_deletion_timestamp(&mut live, "2026-11-15T08:00:00Z");
            }
            live
        };
        for (live, wanted) in [
            (live("u", false, json!([])), Solid),
            (live("v", false, json!([])), Dangling),
            (live("u", true, json!(["other"])), Solid),
            (live("u", false, json!([FOREGROUND])), Solid),
            (live("u", true, json!([FOREGROUND])), Waiting),
        ] {
            assert_eq!(state(&owner("u"), &live), wanted, "{live}");
        }
    }

    #[test]
    fn references_are_removed_or_unblocked() {
        let live = json!({"metadata": {"ownerReferences": [
            {"uid": "a", "blockOwnerDeletion": true}, {"uid": "b"}, {"uid": "c", "blockOwnerDeletion": false},
        ]}});
        assert_eq!(references_without(&live, &["a".into(), "c".into()]), [json!({"uid": "b"})]);
        let expected = [
            json!({"uid": "a", "blockOwnerDeletion": false}),
            json!({"uid": "b"}),
            json!({"uid": "c", "blockOwnerDeletion": false}),
        ];
        assert_eq!(unblocked_references(&live), expected);
    }
}
