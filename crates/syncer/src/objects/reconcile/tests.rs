use serde_json::json;

use super::*;

fn desired() -> Desired {
    Desired::present(4, &json!({"spec": {"replicas": 2}}))
}

fn hash() -> String {
    match desired() {
        Desired::Present { hash, .. } => hash,
        Desired::Absent => String::new(),
    }
}

fn seen(applied: &str) -> ObservedObject {
    ObservedObject {
        uid: "b".into(),
        resource_version: "7".into(),
        applied: applied.into(),
        ..ObservedObject::default()
    }
}

#[test]
fn next_action() {
    let going = ObservedObject { is_terminating: true, ..seen("old") };
    let drifted = ObservedObject { drifted: true, ..seen(&hash()) };
    let kept = ObservedObject { keep: "deployments.apps/web".into(), ..seen(&hash()) };
    let stale = ObservedObject { drifted: true, ..seen("old") };
    use Drift::{Correct, Report};
    for (desired, seen, drift, expected) in [
        (desired(), None, Correct, Action::Create),
        (desired(), Some(seen("old")), Correct, Action::Apply),
        (desired(), Some(seen("old")), Report, Action::Apply),
        (desired(), Some(stale), Report, Action::Apply),
        (desired(), Some(seen(&hash())), Correct, Action::None),
        (desired(), Some(drifted.clone()), Correct, Action::Apply),
        (desired(), Some(drifted.clone()), Report, Action::None),
        (desired(), Some(going.clone()), Correct, Action::Wait),
        (Desired::Absent, None, Correct, Action::Read),
        (Desired::Absent, Some(seen("old")), Correct, Action::Delete),
        (Desired::Absent, Some(drifted), Report, Action::Delete),
        (Desired::Absent, Some(kept.clone()), Correct, Action::Release),
        (desired(), Some(kept), Correct, Action::None),
        (Desired::Absent, Some(going), Correct, Action::Wait),
    ] {
        let maps = SyncResource { resource: "configmaps".into(), ..SyncResource::default() };
        assert_eq!(action(&maps, &desired, seen.as_ref(), drift), expected, "{desired:?} {seen:?} {drift:?}");
    }
}

#[test]
fn definitions_are_never_deleted() {
    let definitions = |version: &str| SyncResource {
        group: "apiextensions.k8s.io".into(),
        version: version.into(),
        resource: "customresourcedefinitions".into(),
        ..SyncResource::default()
    };
    let drifted = ObservedObject { drifted: true, ..seen(&hash()) };
    let adopted = ObservedObject { is_adopted: true, ..seen("old") };
    for version in ["v1", "v1beta1", "v9"] {
        for seen in [seen("old"), seen(&hash()), drifted.clone(), adopted.clone()] {
            for drift in [Drift::Correct, Drift::Report] {
                let action = action(&definitions(version), &Desired::Absent, Some(&seen), drift);
                assert_eq!(action, Action::Release, "{version} {seen:?} {drift:?}");
            }
        }
    }
}

fn found(manager: &str, fields: Value, replicas: i64) -> Value {
    json!({
        "metadata": {
            "annotations": {"atoll.dev/applied": hash(), "atoll.dev/generation": "3"}, "generation": 2,
            "managedFields": [
                {"manager": manager, "operation": "Apply", "fieldsV1": fields},
                {"manager": "atoll", "subresource": "status", "fieldsV1": {"f:status": {}}},
            ],
        },
        "spec": {"replicas": replicas}, "status": {"observedGeneration": 2},
    })
}

#[test]
fn drift_is_a_change_of_owned_fields() {
    let before = ObservedObject::of(&found("atoll", json!({"f:spec": {"f:replicas": {}}}), 2));
    let same = found("atoll", json!({"f:spec": {"f:replicas": {}}}), 2);
    let taken = found("atoll", json!({"f:spec": {}}), 5);
    let look = |before: Option<&ObservedObject>, found: &Value| {
        ObservedObject::of(found).after(before, &desired(), found).drifted
    };
    assert!(!look(Some(&before), &same));
    assert!(look(Some(&before), &taken));
    let known = ObservedObject { drifted: true, ..before.clone() };
    assert!(look(Some(&known), &same), "drift remains until the next apply");
    assert!(!look(None, &same), "no drift after a restart");
    assert!(look(None, &taken), "drift is detected after a restart");
    let other = Desired::present(5, &json!({"spec": {"replicas": 5}}));
    assert!(
        !ObservedObject::of(&same).after(None, &other, &same).drifted,
        "the shape will be applied in any case"
    );
}

#[test]
fn records_have_the_applied_generation() {
    let target = ObjectTarget { name: "a".into(), ..ObjectTarget::default() };
    let current = ObservedObject::of(&found("atoll", json!({}), 2));
    let result = record(&target, &desired(), Some(&current), None);
    assert_eq!((result.generation, result.observed, result.state), (4, true, State::Applied));
    assert_eq!(result.status, json!({"observedGeneration": 2}));
    let refused = (State::Refused, "no".to_string());
    let old = ObservedObject { applied: "old".into(), ..current.clone() };
    let result = record(&target, &desired(), Some(&old), Some(&refused));
    assert_eq!(
        (result.generation, result.observed, result.state, result.message.as_str()),
        (3, false, State::Refused, "no")
    );
    let behind = ObservedObject { observed: false, ..current };
    assert!(!record(&target, &desired(), Some(&behind), None).observed);
    let result = record(&target, &desired(), None, Some(&refused));
    assert_eq!((result.generation, result.status.is_null()), (0, true));
}

#[test]
fn found_objects_are_managed_or_foreign() {
    let target =
        ObjectTarget { workspace: "w".into(), name: "a".into(), uid: "u".into(), ..ObjectTarget::default() };
    let ours = crate::objects::mark::configuration(&json!({}), &target, "", "cp", 1, "h");
    assert!(matches!(classify(Some(&ours), "cp", &target), Lookup::Managed(seen) if seen.applied == "h"));
    assert!(matches!(classify(Some(&ours), "other", &target), Lookup::Foreign(_)));
    assert_eq!(classify(None, "cp", &target), Lookup::Absent);
}

#[test]
fn created_fields_become_applied_fields() {
    let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
    let object = |entries: Vec<Value>| json!({"metadata": {"managedFields": entries}});
    let other = entry("kubectl", "Update", json!({"f:a": {}}));
    let created = entry("atoll", "Update", json!({"f:a": {"f:b": {}}}));
    let applied = entry("atoll", "Apply", json!({"f:a": {"f:c": {}}}));
    assert_eq!(applied_fields(&object(vec![other.clone(), applied.clone()])), None);
    assert_eq!(
        applied_fields(&object(vec![created.clone(), other.clone()])),
        Some(json!([other, entry("atoll", "Apply", json!({"f:a": {"f:b": {}}}))]))
    );
    assert_eq!(
        applied_fields(&object(vec![created.clone(), applied])),
        Some(json!([entry("atoll", "Apply", json!({"f:a": {"f:b": {}, "f:c": {}}}))]))
    );
    assert!(ObservedObject::of(&object(vec![created])).is_fresh);
}
