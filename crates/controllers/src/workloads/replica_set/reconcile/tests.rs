use atoll_meta::time;

use super::*;

fn set(replicas: i64, status: Value) -> Value {
    json!({
        "metadata": {"name": "web", "generation": 3},
        "spec": {
            "replicas": replicas, "minReadySeconds": 10,
            "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}},
        },
        "status": status,
    })
}

fn pod(labels: Value, ready: Option<&str>) -> Arc<Value> {
    let conditions = match ready {
        Some(since) => json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]),
        None => json!([]),
    };
    Arc::new(json!({"metadata": {"labels": labels}, "status": {"conditions": conditions}}))
}

fn now() -> Timestamp {
    time::parse("2026-11-15T08:00:10Z").unwrap()
}

#[test]
fn missing_pods_are_created_and_surplus_ones_deleted() {
    let mut surplus = set(3, json!({}));
    object::set_deletion_timestamp(&mut surplus, "2026-11-15T08:00:00Z");
    let without_replicas = json!({"spec": {}});
    for (set, active, wanted) in [
        (&set(3, json!({})), 0, ReplicaAction::Create(3)),
        (&set(3, json!({})), 2, ReplicaAction::Create(1)),
        (&set(3, json!({})), 3, ReplicaAction::None),
        (&set(3, json!({})), 5, ReplicaAction::Delete(2)),
        (&set(0, json!({})), 5, ReplicaAction::Delete(5)),
        (&surplus, 0, ReplicaAction::None),
        (&surplus, 5, ReplicaAction::None),
        (&without_replicas, 0, ReplicaAction::Create(1)),
    ] {
        assert_eq!(next_action(set, active), wanted, "{set} {active}");
    }
}

#[test]
fn status_counts_pods() {
    let full = json!({"app": "web", "tier": "front", "more": "x"});
    let pods = [
        pod(full.clone(), Some("2026-11-15T08:00:00Z")),
        pod(full.clone(), Some("2026-11-15T08:00:05Z")),
        pod(full, None),
        pod(json!({"app": "web"}), None),
    ];
    let wanted = json!({
        "replicas": 4, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 1,
        "terminatingReplicas": 2, "observedGeneration": 3,
    });
    let found = status(&set(4, json!({"replicas": 0})), &pods, Some(2), None, now());
    assert_eq!(found, Some(wanted.clone()));
    assert_eq!(status(&set(4, wanted), &pods, Some(2), None, now()), None, "no change");
    let empty = json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 3});
    assert_eq!(status(&set(0, json!({})), &[], Some(0), None, now()), Some(empty.clone()));
    assert_eq!(status(&set(0, empty.clone()), &[], Some(0), None, now()), None);
    let with_zeros = json!({
        "replicas": 0, "terminatingReplicas": 0, "observedGeneration": 3, "readyReplicas": 0, "conditions": null,
    });
    assert_eq!(status(&set(0, with_zeros), &[], Some(0), None, now()), None, "zeros are zeros");
    let plain = json!({"replicas": 0, "observedGeneration": 3});
    assert_eq!(status(&set(0, json!({})), &[], None, None, now()), Some(plain));
}

#[test]
fn failures_are_conditions_until_resolved() {
    let other = json!({"type": "Other", "status": "True"});
    let failed = |reason: &str| {
        json!({
            "type": "ReplicaFailure", "status": "True", "lastTransitionTime": "2026-11-15T08:00:10Z",
            "reason": reason, "message": "no",
        })
    };
    let cases = [
        (1, json!([other]), Some("no"), json!([other, failed("FailedCreate")])),
        (0, json!([]), Some("no"), json!([failed("FailedDelete")])),
        (1, json!([other, failed("FailedDelete")]), None, json!([other])),
        (1, json!([failed("FailedCreate")]), Some("another"), json!([failed("FailedCreate")])),
    ];
    for (replicas, before, failure, after) in cases {
        let set = set(replicas, json!({"conditions": before}));
        let active = [pod(json!({}), None)];
        let active = if replicas == 0 { &active[..] } else { &[] };
        let status = status(&set, active, None, failure, now()).expect("a changed generation");
        assert_eq!(status["conditions"], after, "{failure:?}");
    }
    let failing = set(1, json!({"conditions": [failed("FailedCreate")]}));
    let status = status(&failing, &[], None, None, now()).expect("the failure is resolved");
    assert_eq!(status.get("conditions"), None);
}
