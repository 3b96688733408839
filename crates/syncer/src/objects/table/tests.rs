use serde_json::json;

use super::*;
use crate::objects::mark::configuration;

const PLANE: &str = "plane";

fn target(name: &str, uid: &str) -> ObjectTarget {
    ObjectTarget { workspace: "w".into(), name: name.into(), uid: uid.into(), ..ObjectTarget::default() }
}

fn desired(value: i64) -> Desired {
    Desired::present(value, &json!({"spec": {"value": value}}))
}

/// Returns the object in the cluster after `value` was applied for the target.
fn found(target: &ObjectTarget, value: i64, uid: &str, revision: u64) -> Value {
    let Desired::Present { hash, .. } = desired(value) else { return Value::Null };
    let mut found = configuration(&json!({"spec": {"value": value}}), target, "", PLANE, value, &hash);
    object::set_uid(&mut found, uid);
    object::set_resource_version(&mut found, &revision.to_string());
    found
}

#[test]
fn objects_missing_in_a_round_are_forgotten() {
    let table = Table::default();
    table.begin_round();
    let (kept, gone) = (
        table.set_desired(target("kept", "1"), desired(1)),
        table.set_desired(target("gone", "2"), desired(1)),
    );
    assert_eq!(table.end_round().len(), 2);
    table.begin_round();
    table.set_desired(target("kept", "1"), desired(1));
    assert_eq!(table.end_round(), std::slice::from_ref(&kept));
    assert!(table.task(&kept).is_some() && table.task(&gone).is_none());
    table.forget(&target("kept", "another"));
    assert!(table.task(&kept).is_some(), "another uid is ignored");
    table.forget(&target("kept", "1"));
    assert!(table.task(&kept).is_none());
}

#[test]
fn only_newer_managed_observations_count() {
    let table = Table::default();
    let ours = target("a", "u");
    let key = table.set_desired(ours.clone(), desired(1));
    let revision = || table.task(&key).and_then(|task| task.seen).map(|seen| seen.revision());
    let foreign = found(&target("a", "other"), 1, "b", 3);
    assert_eq!((table.observe(&key, PLANE, &foreign), revision()), (Effect::None, None));
    assert_eq!(table.observe(&key, "other", &found(&ours, 1, "b", 3)), Effect::None);
    assert_eq!((table.observe(&key, PLANE, &found(&ours, 1, "b", 5)), revision()), (Effect::Report, Some(5)));
    assert_eq!((table.observe(&key, PLANE, &found(&ours, 1, "b", 4)), revision()), (Effect::None, Some(5)));
    // Another writer removes a mark of the same object.
    let mut unmarked = found(&ours, 1, "b", 6);
    object::remove_annotation(&mut unmarked, "atoll.dev/uid");
    assert_eq!(table.observe(&key, PLANE, &unmarked), Effect::Reconcile);
    assert_eq!(table.observe(&key, PLANE, &unmarked), Effect::None, "reported once");
    table.record_write(&key, &found(&ours, 1, "b", 7));
    assert_eq!(table.pending_keys(Drift::Correct), Vec::<Key>::new());
    // A new object with the same name above: the observation belongs to the old one.
    table.set_desired(target("a", "v"), desired(1));
    assert_eq!(revision(), None);
}

#[test]
fn objects_missing_in_a_list_are_gone_unless_newer() {
    let table = Table::default();
    let key = |name: &str, revision: u64| {
        let target = target(name, name);
        let key = table.set_desired(target.clone(), desired(1));
        table.observe(&key, PLANE, &found(&target, 1, name, revision));
        key
    };
    let (there, missing) = (key("there", 5), key("missing", 5));
    let present = HashSet::from(["there".to_string()]);
    let resource = SyncResource::default();
    let (all, is_missing) = table.retain(&resource, &present, 6);
    assert_eq!((all.len(), is_missing), (2, true));
    let is_seen = |key: &Key| table.task(key).is_some_and(|task| task.seen.is_some());
    assert!(is_seen(&there) && !is_seen(&missing));
    // A list older than the observation proves nothing.
    let later = key("later", 9);
    assert!(!table.retain(&resource, &present, 6).1);
    assert!(!is_seen(&later), "it is read again");
    let other = SyncResource { resource: "others".into(), ..SyncResource::default() };
    assert_eq!(table.retain(&other, &HashSet::new(), 9), (Vec::new(), false));
    assert!(is_seen(&there));
}

#[test]
fn unchanged_record_is_reported_once_per_round() {
    let table = Table::default();
    table.begin_round();
    let ours = target("a", "u");
    let key = table.set_desired(ours.clone(), desired(1));
    assert_eq!(table.changed_record(&key, &|_| None, &|_| None), None, "nothing was observed yet");
    table.observe(&key, PLANE, &found(&ours, 1, "b", 5));
    assert!(
        table
            .changed_record(&key, &|_| None, &|_| None)
            .is_some_and(|record| record.state == State::Applied && record.generation == 1)
    );
    table.observe(&key, PLANE, &found(&ours, 1, "b", 6));
    assert_eq!(table.changed_record(&key, &|_| None, &|_| None), None, "the record has not changed");
    table.set_failure(&key, Some((State::Refused, "no".into())));
    assert!(
        table.changed_record(&key, &|_| None, &|_| None).is_some_and(|record| record.state == State::Refused)
    );
    table.begin_round();
    table.set_desired(ours, desired(1));
    table.end_round();
    assert!(table.changed_record(&key, &|_| None, &|_| None).is_some(), "a new round reports again");
}

#[tokio::test(start_paused = true)]
async fn repeated_corrections_are_delayed() {
    let table = Table::default();
    let key = table.set_desired(target("a", "u"), desired(1));
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let pause = table.correction_delay(&key);
        pauses.push(pause);
        tokio::time::advance(pause).await;
        if !pause.is_zero() {
            assert_eq!(table.correction_delay(&key), Duration::ZERO, "the delay has passed");
        }
    }
    assert_eq!(pauses[..4], [0, 1, 2, 4].map(Duration::from_secs));
    assert_eq!(pauses[11], LAST_CORRECTION);
    tokio::time::advance(CORRECTION_RESET + LAST_CORRECTION).await;
    assert_eq!(table.correction_delay(&key), Duration::ZERO, "the delays restart");
}

/// A write that was sent before the pause may take effect after the check.
#[test]
fn object_that_appears_after_a_failure_is_reconciled() {
    let table = Table::default();
    let ours = target("a", "u");
    let key = table.set_desired(ours.clone(), desired(1));
    table.set_failure(&key, Some((State::Refused, "not created yet".into())));
    assert_eq!(table.observe(&key, PLANE, &found(&ours, 1, "b", 5)), Effect::Reconcile);
    table.set_failure(&key, None);
    assert_eq!(table.observe(&key, PLANE, &found(&ours, 1, "b", 6)), Effect::Report);
}

#[test]
fn keep_annotation_survives_recreation() {
    let table = Table::default();
    let ours = target("a", "u");
    let key = table.set_desired(ours.clone(), desired(1));
    let keep = || table.task(&key).map(|task| task.keep).unwrap_or_default();
    let mut kept = found(&ours, 1, "b", 5);
    object::set_annotation(&mut kept, "atoll.dev/keep", "deployments.apps/web");
    table.observe(&key, PLANE, &kept);
    assert!(table.record_deleted(&key, "b"));
    assert_eq!(keep(), "deployments.apps/web");
    // Another writer has removed the annotation.
    table.observe(&key, PLANE, &found(&ours, 1, "c", 7));
    assert_eq!(keep(), "");
}

#[test]
fn messages_are_charged_to_the_cluster() {
    let budget = Budget::new(100_000);
    let table = Table::new(Some(budget.clone()));
    let keys: Vec<Key> =
        (0..100).map(|n| table.set_desired(target(&n.to_string(), "u"), desired(1))).collect();
    let failure = || Some((State::Refused, format!("\u{1b}[2J{}", "x".repeat(1 << 20))));
    for key in &keys {
        table.set_failure(key, failure());
        let message = table.changed_record(key, &|_| None, &|_| None).expect("there is a failure").message;
        assert!(!message.contains('\u{1b}') && message.len() <= 4096, "{}", message.len());
    }
    assert!(budget.used() > 90_000, "{}", budget.used());
    assert_eq!(table.changed_record(&keys[99], &|_| None, &|_| None), None);
    table.set_failure(&keys[99], failure());
    let kept: usize =
        keys.iter().filter_map(|key| table.state().entries[key].failure.clone()).map(|(_, m)| m.len()).sum();
    assert!(kept < 100_000 + 100 * SHORTEST, "{kept}");
    for key in &keys {
        table.set_failure(key, None);
    }
    assert_eq!(budget.used(), 0);
}
