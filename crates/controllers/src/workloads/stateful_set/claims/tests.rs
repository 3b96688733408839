use serde_json::json;

use super::*;

fn set(deleted: &str, scaled: &str) -> Value {
    json!({
        "metadata": {"name": "web", "uid": "set"},
        "spec": {
            "replicas": 2,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled},
        },
    })
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": name}})
}

/// Returns a claim with references to "set", to a pod by its name, or to others.
fn claim(owners: &[&str]) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|owner| match *owner {
            "set" => json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set", "controller": true}),
            "old set" => json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "old", "controller": true}),
            "set, loosely" => json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set"}),
            "other" => json!({"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o", "controller": true}),
            "friend" => json!({"apiVersion": "v1", "kind": "Other", "name": "f", "uid": "f"}),
            name => json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true}),
        })
        .collect();
    json!({"metadata": {"name": "data-web-0", "ownerReferences": references}})
}

fn owners(claim: &Value) -> Vec<&str> {
    object::owner_references(claim).map(|reference| reference.uid).collect()
}

#[test]
fn retention_policies_determine_owners() {
    // whenDeleted, whenScaled, pod; expected owner of the claim
    for (deleted, scaled, name, expected) in [
        ("Retain", "Retain", "web-0", &[][..]),
        ("Retain", "Retain", "web-9", &[]),
        ("Delete", "Retain", "web-0", &["set"]),
        ("Delete", "Retain", "web-9", &["set"]),
        ("Retain", "Delete", "web-0", &[]),
        ("Retain", "Delete", "web-9", &["web-9"]),
        ("Delete", "Delete", "web-0", &["set"]),
        ("Delete", "Delete", "web-9", &["web-9"]),
    ] {
        let (set, pod) = (set(deleted, scaled), pod(name));
        for before in [&[][..], &["set"], &[name], &["set", name], &["set, loosely"], &["friend"]] {
            let claim = claim(before);
            let ownership = ClaimOwnership { claim: &claim, set: &set, pod: &pod };
            let case = format!("{deleted} {scaled} {name} {before:?}");
            let updated = ownership.updated();
            let mut wanted: Vec<&str> =
                before.iter().filter(|owner| **owner == "friend").map(|_| "f").collect();
            wanted.extend(expected);
            assert_eq!(owners(&updated), wanted, "{case}");
            let again = ClaimOwnership { claim: &updated, set: &set, pod: &pod };
            assert!(again.is_up_to_date(), "{case}");
            let was_right = owners(&claim) == wanted && !before.contains(&"set, loosely");
            assert_eq!(ownership.is_up_to_date(), was_right, "{case}");
        }
    }
}

#[test]
fn claims_with_another_controller_are_not_owned() {
    let (set, pod) = (set("Delete", "Delete"), pod("web-0"));
    let check = |before: &[&str]| {
        let claim = claim(before);
        let ownership = ClaimOwnership { claim: &claim, set: &set, pod: &pod };
        let updated = ownership.updated();
        (ownership.is_up_to_date(), owners(&updated).join(" "))
    };
    assert_eq!(check(&["other"]), (true, "o".into()));
    assert_eq!(check(&["other", "set"]), (false, "o".into()), "the set's reference is removed");
    assert!(check(&["old set"]).0, "left to the garbage collector");
    let retained = self::set("Retain", "Retain");
    let claim = claim(&["other", "set"]);
    assert_eq!(owners(&ClaimOwnership { claim: &claim, set: &retained, pod: &pod }.updated()), ["o"]);
}

#[test]
fn stale_claims_block_new_pods() {
    let claim = claim(&["web-0"]);
    let new = json!({"metadata": {"name": "web-0"}});
    assert!(blocks(&set("Retain", "Delete"), &new, &claim));
    assert!(!blocks(&set("Delete", "Retain"), &new, &claim), "such claims are reused");
    assert!(!blocks(&set("Retain", "Delete"), &new, &self::claim(&["set"])));
}
