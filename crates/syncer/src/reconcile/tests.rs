use serde_json::json;

use super::*;

fn wanted() -> Wanted {
    Wanted::present(4, &json!({"spec": {"replicas": 2}}))
}

fn hash() -> String {
    match wanted() {
        Wanted::Present { hash, .. } => hash,
        Wanted::Absent => String::new(),
    }
}

fn seen(applied: &str) -> Seen {
    Seen { uid: "b".into(), resource_version: "7".into(), applied: applied.into(), ..Seen::default() }
}

#[test]
fn next_action() {
    let going = Seen { is_going: true, ..seen("old") };
    let drifted = Seen { drifted: true, ..seen(&hash()) };
    let kept = Seen { keep: "deployments.apps/web".into(), ..seen(&hash()) };
    let stale = Seen { drifted: true, ..seen("old") };
    use Drift::{Correct, Report};
    for (wanted, seen, drift, expected) in [
        (wanted(), None, Correct, Step::Create),
        (wanted(), Some(seen("old")), Correct, Step::Apply),
        (wanted(), Some(seen("old")), Report, Step::Apply),
        (wanted(), Some(stale), Report, Step::Apply),
        (wanted(), Some(seen(&hash())), Correct, Step::Rest),
        (wanted(), Some(drifted.clone()), Correct, Step::Apply),
        (wanted(), Some(drifted.clone()), Report, Step::Rest),
        (wanted(), Some(going.clone()), Correct, Step::Wait),
        (Wanted::Absent, None, Correct, Step::Look),
        (Wanted::Absent, Some(seen("old")), Correct, Step::Delete),
        (Wanted::Absent, Some(drifted), Report, Step::Delete),
        (Wanted::Absent, Some(kept.clone()), Correct, Step::LetGo),
        (wanted(), Some(kept), Correct, Step::Rest),
        (Wanted::Absent, Some(going), Correct, Step::Wait),
    ] {
        let maps = Resource { resource: "configmaps".into(), ..Resource::default() };
        assert_eq!(step(&maps, &wanted, seen.as_ref(), drift), expected, "{wanted:?} {seen:?} {drift:?}");
    }
}

#[test]
fn definitions_are_never_deleted() {
    let definitions = |version: &str| Resource {
        group: "apiextensions.k8s.io".into(),
        version: version.into(),
        resource: "customresourcedefinitions".into(),
        ..Resource::default()
    };
    let drifted = Seen { drifted: true, ..seen(&hash()) };
    let adopted = Seen { is_adopted: true, ..seen("old") };
    for version in ["v1", "v1beta1", "v9"] {
        for seen in [seen("old"), seen(&hash()), drifted.clone(), adopted.clone()] {
            for drift in [Drift::Correct, Drift::Report] {
                let step = step(&definitions(version), &Wanted::Absent, Some(&seen), drift);
                assert_eq!(step, Step::LetGo, "{version} {seen:?} {drift:?}");
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
    let before = Seen::of(&found("atoll", json!({"f:spec": {"f:replicas": {}}}), 2));
    let same = found("atoll", json!({"f:spec": {"f:replicas": {}}}), 2);
    let taken = found("atoll", json!({"f:spec": {}}), 5);
    let look = |before: Option<&Seen>, found: &Value| Seen::of(found).after(before, &wanted(), found).drifted;
    assert!(!look(Some(&before), &same));
    assert!(look(Some(&before), &taken));
    let known = Seen { drifted: true, ..before.clone() };
    assert!(look(Some(&known), &same), "drift remains until the next apply");
    assert!(!look(None, &same), "no drift after a restart");
    assert!(look(None, &taken), "drift is detected after a restart");
    let other = Wanted::present(5, &json!({"spec": {"replicas": 5}}));
    assert!(!Seen::of(&same).after(None, &other, &same).drifted, "the shape will be applied in any case");
}

#[test]
fn records_have_the_applied_generation() {
    let target = Target { name: "a".into(), ..Target::default() };
    let current = Seen::of(&found("atoll", json!({}), 2));
    let told = record(&target, &wanted(), Some(&current), None);
    assert_eq!((told.generation, told.observed, told.state), (4, true, State::Applied));
    assert_eq!(told.status, json!({"observedGeneration": 2}));
    let refused = (State::Refused, "no".to_string());
    let old = Seen { applied: "old".into(), ..current.clone() };
    let told = record(&target, &wanted(), Some(&old), Some(&refused));
    assert_eq!(
        (told.generation, told.observed, told.state, told.message.as_str()),
        (3, false, State::Refused, "no")
    );
    let behind = Seen { observed: false, ..current };
    assert!(!record(&target, &wanted(), Some(&behind), None).observed);
    let told = record(&target, &wanted(), None, Some(&refused));
    assert_eq!((told.generation, told.status.is_null()), (0, true));
}

#[test]
fn found_objects_are_managed_or_foreign() {
    let target = Target { workspace: "w".into(), name: "a".into(), uid: "u".into(), ..Target::default() };
    let ours = crate::mark::configuration(&json!({}), &target, "", "cp", 1, "h");
    assert!(matches!(judge(Some(&ours), "cp", &target), Found::Ours(seen) if seen.applied == "h"));
    assert!(matches!(judge(Some(&ours), "other", &target), Found::Foreign(_)));
    assert_eq!(judge(None, "cp", &target), Found::Nothing);
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
    assert!(Seen::of(&object(vec![created])).is_fresh);
}
