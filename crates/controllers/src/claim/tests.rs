use super::*;

#[test]
fn decisions_follow_owner_selector_and_deletion() {
    let owner = json!({"metadata": {"name": "web", "namespace": "n", "uid": "u"}});
    let mut going = owner.clone();
    object::set_deletion_timestamp(&mut going, "2026-11-15T08:00:00Z");
    let object = |namespace: &str, managers: Value| json!({"metadata": {"name": "p", "namespace": namespace, "ownerReferences": managers}});
    let by = |uid: &str| json!([{"kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true}]);
    let mut doomed = object("n", json!([]));
    object::set_deletion_timestamp(&mut doomed, "2026-11-15T08:00:00Z");
    let no_manager = json!([{"kind": "ReplicaSet", "name": "web", "uid": "u"}]);
    let cases = [
        (&owner, object("n", by("u")), true, Fate::Keep),
        (&owner, object("n", by("u")), false, Fate::Release),
        (&owner, object("n", by("x")), true, Fate::Leave),
        (&owner, object("n", by("x")), false, Fate::Leave),
        (&owner, object("n", json!([])), true, Fate::Adopt),
        (&owner, object("n", no_manager), true, Fate::Adopt),
        (&owner, object("n", json!([])), false, Fate::Leave),
        (&owner, object("m", json!([])), true, Fate::Leave),
        (&owner, doomed, true, Fate::Leave),
        (&going, object("n", by("u")), true, Fate::Keep),
        (&going, object("n", by("u")), false, Fate::Leave),
        (&going, object("n", json!([])), true, Fate::Leave),
    ];
    for (owner, object, selected, wanted) in cases {
        assert_eq!(fate(owner, &object, selected), wanted, "{object} selected: {selected}");
    }
}
