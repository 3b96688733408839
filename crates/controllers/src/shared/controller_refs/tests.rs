use super::*;

#[test]
fn decisions_follow_owner_selector_and_deletion() {
    let owner = json!({"metadata": {"name": "web", "namespace": "n", "uid": "u"}});
    let mut deleted_owner = owner.clone();
    object::set_deletion_timestamp(&mut deleted_owner, "2026-11-15T08:00:00Z");
    let object = |namespace: &str, managers: Value| json!({"metadata": {"name": "p", "namespace": namespace, "ownerReferences": managers}});
    let by = |uid: &str| json!([{"kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true}]);
    let mut deleted_object = object("n", json!([]));
    object::set_deletion_timestamp(&mut deleted_object, "2026-11-15T08:00:00Z");
    let no_manager = json!([{"kind": "ReplicaSet", "name": "web", "uid": "u"}]);
    let cases = [
        (&owner, object("n", by("u")), true, ClaimDecision::Keep),
        (&owner, object("n", by("u")), false, ClaimDecision::Release),
        (&owner, object("n", by("x")), true, ClaimDecision::Ignore),
        (&owner, object("n", by("x")), false, ClaimDecision::Ignore),
        (&owner, object("n", json!([])), true, ClaimDecision::Adopt),
        (&owner, object("n", no_manager), true, ClaimDecision::Adopt),
        (&owner, object("n", json!([])), false, ClaimDecision::Ignore),
        (&owner, object("m", json!([])), true, ClaimDecision::Ignore),
        (&owner, deleted_object, true, ClaimDecision::Ignore),
        (&deleted_owner, object("n", by("u")), true, ClaimDecision::Keep),
        (&deleted_owner, object("n", by("u")), false, ClaimDecision::Ignore),
        (&deleted_owner, object("n", json!([])), true, ClaimDecision::Ignore),
    ];
    for (owner, object, selected, wanted) in cases {
        assert_eq!(decide(owner, &object, selected), wanted, "{object} selected: {selected}");
    }
}
