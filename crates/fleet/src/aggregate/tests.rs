use serde_json::json;

use super::*;

fn record(generation: i64, observed: bool, status: Value) -> Record {
    Record { generation, observed, status, ..Record::default() }
}

/// Records of clusters that have applied and observed generation 4.
fn all(statuses: &[(&str, Value)]) -> Vec<(String, Record)> {
    statuses.iter().map(|(name, status)| ((*name).to_owned(), record(4, true, status.clone()))).collect()
}

const DEPLOYMENTS: (&str, &str) = ("apps", "deployments");

fn condition(kind: &str, status: &str, reason: &str, message: &str, time: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time })
}

#[test]
fn status_of_one_cluster_is_kept_except_the_generation() {
    let below = json!({ "observedGeneration": 17, "replicas": 3, "collisionCount": 1, "custom": [1] });
    let cases = [
        (record(4, true, below.clone()), Some(json!(4))),
        (record(4, false, below.clone()), Some(json!(3))),
        (record(3, true, below.clone()), Some(json!(3))),
        (record(9, true, below.clone()), Some(json!(4))),
        (record(1, false, below.clone()), None),
        (record(i64::MIN, false, below.clone()), None),
        (Record { state: State::Conflict, ..record(2, true, below.clone()) }, Some(json!(2))),
        (Record { state: State::Conflict, ..record(4, true, below.clone()) }, Some(json!(3))),
    ];
    for (record, observed) in cases {
        let status = aggregate(("example.com", "things"), 4, &[("east".to_owned(), record)]).unwrap();
        let mut expected = below.clone();
        match observed {
            Some(observed) => expected["observedGeneration"] = observed,
            None => drop(expected.as_object_mut().unwrap().remove("observedGeneration")),
        }
        assert_eq!(status, expected);
    }
    let texts = all(&[("east", json!({ "observedGeneration": "17", "phase": "Fine" }))]);
    assert_eq!(
        aggregate(("argoproj.io", "rollouts"), 4, &texts),
        Some(json!({ "observedGeneration": "4", "phase": "Fine" }))
    );
    let silent = all(&[("east", json!({ "phase": "Fine" }))]);
    assert_eq!(aggregate(("", "pods"), 4, &silent), Some(json!({ "phase": "Fine" })));
}

#[test]
fn no_status_without_records() {
    let gone = Record { state: State::Gone, ..record(4, true, json!({ "replicas": 1 })) };
    let refused = Record { state: State::Refused, ..record(0, false, Value::Null) };
    assert_eq!(aggregate(DEPLOYMENTS, 4, &[]), None);
    assert_eq!(aggregate(DEPLOYMENTS, 4, &[("a".into(), gone.clone()), ("b".into(), refused)]), None);
    // A cluster without the object does not count.
    let records = [("a".to_owned(), gone), ("b".to_owned(), record(4, true, json!({ "replicas": 2 })))];
    assert_eq!(aggregate(DEPLOYMENTS, 4, &records), Some(json!({ "replicas": 2 })));
}

#[test]
fn numbers_are_added() {
    let cases = [
        (
            DEPLOYMENTS,
            json!({ "observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "collisionCount": 1 }),
            json!({ "observedGeneration": 8, "replicas": 2, "unavailableReplicas": 1, "collisionCount": 2 }),
            json!({ "observedGeneration": 4, "replicas": 5, "readyReplicas": 3, "unavailableReplicas": 1, "collisionCount": 2 }),
        ),
        (
            ("apps", "statefulsets"),
            json!({ "replicas": 1, "currentRevision": "a-1", "updateRevision": "a-1" }),
            json!({ "replicas": 1, "currentRevision": "a-0", "updateRevision": "a-2" }),
            json!({ "replicas": 2, "currentRevision": "a-0", "updateRevision": "a-2" }),
        ),
        (
            ("apps", "statefulsets"),
            json!({ "replicas": 1, "currentRevision": "a-1", "updateRevision": "a-1" }),
            json!({ "replicas": 1, "currentRevision": "a-2", "updateRevision": "a-2" }),
            json!({ "replicas": 2, "currentRevision": "a-1", "updateRevision": "a-1" }),
        ),
        // A partition keeps the Pods of one cluster, and those of the other are updated.
        (
            ("apps", "statefulsets"),
            json!({ "currentReplicas": 2, "updatedReplicas": 0, "currentRevision": "a-1", "updateRevision": "a-2" }),
            json!({ "currentReplicas": 3, "updatedReplicas": 3, "currentRevision": "a-2", "updateRevision": "a-2" }),
            json!({ "currentReplicas": 2, "updatedReplicas": 3, "currentRevision": "a-1", "updateRevision": "a-2" }),
        ),
        (
            ("apps", "daemonsets"),
            json!({ "desiredNumberScheduled": 3, "numberReady": 1, "numberMisscheduled": 0 }),
            json!({ "desiredNumberScheduled": 2, "numberReady": 2, "numberMisscheduled": 0 }),
            json!({ "desiredNumberScheduled": 5, "numberReady": 3, "numberMisscheduled": 0 }),
        ),
        (
            ("policy", "poddisruptionbudgets"),
            json!({ "currentHealthy": 2, "disruptionsAllowed": 1, "disruptedPods": { "a": "t" } }),
            json!({ "currentHealthy": 3, "disruptionsAllowed": 0, "disruptedPods": { "b": "u" } }),
            json!({ "currentHealthy": 5, "disruptionsAllowed": 1, "disruptedPods": { "a": "t", "b": "u" } }),
        ),
        (
            ("autoscaling", "horizontalpodautoscalers"),
            json!({ "currentReplicas": 2, "desiredReplicas": 3, "lastScaleTime": "2026-01-02T00:00:00Z" }),
            json!({ "currentReplicas": 1, "desiredReplicas": 1, "lastScaleTime": "2026-01-01T00:00:00Z" }),
            json!({ "currentReplicas": 3, "desiredReplicas": 4, "lastScaleTime": "2026-01-02T00:00:00Z" }),
        ),
        (
            ("batch", "jobs"),
            json!({ "active": 1, "succeeded": 2, "startTime": "2026-01-02T00:00:00Z",
                "uncountedTerminatedPods": { "succeeded": ["u"] }, "completedIndexes": "0" }),
            json!({ "succeeded": 1, "failed": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-03T00:00:00Z" }),
            json!({ "active": 1, "succeeded": 3, "failed": 1, "startTime": "2026-01-01T00:00:00Z" }),
        ),
        (
            ("", "services"),
            json!({ "loadBalancer": { "ingress": [{ "ip": "1.1.1.1" }, { "ip": "2.2.2.2" }] } }),
            json!({ "loadBalancer": { "ingress": [{ "ip": "2.2.2.2" }, { "hostname": "x" }] } }),
            json!({ "loadBalancer": { "ingress": [{ "ip": "1.1.1.1" }, { "ip": "2.2.2.2" }, { "hostname": "x" }] } }),
        ),
        (
            ("", "services"),
            json!({ "loadBalancer": {} }),
            json!({ "loadBalancer": {} }),
            json!({ "loadBalancer": {} }),
        ),
        (
            ("networking.k8s.io", "ingresses"),
            json!({ "loadBalancer": {} }),
            json!({ "loadBalancer": { "ingress": [{ "ip": "1.1.1.1" }] } }),
            json!({ "loadBalancer": { "ingress": [{ "ip": "1.1.1.1" }] } }),
        ),
        (
            ("", "persistentvolumeclaims"),
            json!({ "phase": "Bound", "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"] }),
            json!({ "phase": "Bound", "capacity": { "storage": "1500Mi" }, "accessModes": ["ReadWriteOnce"] }),
            json!({ "phase": "Bound", "capacity": { "storage": "1500Mi" }, "accessModes": ["ReadWriteOnce"] }),
        ),
        (
            ("", "persistentvolumeclaims"),
            json!({ "phase": "Bound" }),
            json!({ "phase": "Pending" }),
            json!({ "phase": "Pending" }),
        ),
        (
            ("", "persistentvolumeclaims"),
            json!({ "phase": "Pending" }),
            json!({ "phase": "Lost" }),
            json!({ "phase": "Lost" }),
        ),
        (
            ("", "persistentvolumeclaims"),
            json!({ "phase": "Bound" }),
            json!(null),
            json!({ "phase": "Pending" }),
        ),
        (
            ("example.com", "things"),
            json!({ "size": 1 }),
            json!({ "size": 2, "more": 3 }),
            json!({ "size": 1 }),
        ),
    ];
    for (resource, east, west, expected) in cases {
        let records = all(&[("east", east), ("west", west)]);
        let status = aggregate(resource, 4, &records);
        assert_eq!(status.as_ref(), Some(&expected), "{resource:?}");
        let turned: Vec<_> = records.into_iter().rev().collect();
        assert_eq!(aggregate(resource, 4, &turned), status, "the order of records must not matter");
    }
}

#[test]
fn observed_generation_is_the_minimum() {
    let status = || json!({ "observedGeneration": 30 });
    let refused = Record { state: State::Refused, ..record(4, true, Value::Null) };
    let cases = [
        (record(4, true, status()), json!(4)),
        (record(4, false, status()), json!(3)),
        (record(2, true, status()), json!(2)),
        (record(2, false, Value::Null), json!(1)),
        (refused, json!(3)),
        (Record { state: State::Gone, ..record(1, true, status()) }, json!(4)),
    ];
    for (other, expected) in cases {
        let records = [("a".to_owned(), record(4, true, status())), ("b".to_owned(), other)];
        assert_eq!(aggregate(DEPLOYMENTS, 4, &records).unwrap()["observedGeneration"], expected);
    }
}

#[test]
fn conditions_are_true_everywhere_or_name_clusters() {
    let good = condition("Available", "True", "MinimumReplicasAvailable", "Fine.", "2026-01-01T00:00:00Z");
    let later = condition("Available", "True", "MinimumReplicasAvailable", "Fine.", "2026-01-03T00:00:00Z");
    let bad = condition("Available", "False", "MinimumReplicasUnavailable", "Poor.", "2026-01-02T00:00:00Z");
    let done = condition("Progressing", "True", "NewReplicaSetAvailable", "Done.", "2026-01-01T00:00:00Z");
    let moving = condition("Progressing", "True", "ReplicaSetUpdated", "Moving.", "2026-01-01T00:00:00Z");
    let late = condition("Progressing", "False", "ProgressDeadlineExceeded", "Late.", "2026-01-02T00:00:00Z");
    let quota = condition("ReplicaFailure", "True", "FailedCreate", "quota", "2026-01-02T00:00:00Z");
    let with = |mut one: Value, field: &str, value: &str| {
        one[field] = value.into();
        one
    };
    let unreported = with(
        with(with(good.clone(), "status", "False"), "reason", "MinimumReplicasUnavailable"),
        "message",
        "west: nothing reported yet",
    );
    let cases = [
        (vec![good.clone()], Some(vec![later.clone()]), vec![later.clone()]),
        (vec![good.clone()], Some(vec![bad.clone()]), vec![with(bad.clone(), "message", "west: Poor.")]),
        (vec![bad.clone()], Some(vec![bad.clone()]), vec![bad.clone()]),
        (vec![good.clone()], None, vec![unreported]),
        (vec![done.clone()], Some(vec![done.clone()]), vec![done.clone()]),
        (vec![done.clone()], Some(vec![moving.clone()]), vec![with(moving, "message", "west: Moving.")]),
        (vec![done.clone()], Some(vec![late.clone()]), vec![with(late, "message", "west: Late.")]),
        (vec![done.clone()], None, vec![with(done.clone(), "message", "east: Done.")]),
        (
            vec![done.clone()],
            Some(vec![done.clone(), quota.clone()]),
            vec![done, with(quota, "message", "west: quota")],
        ),
    ];
    for (east, west, expected) in cases {
        let west = west.map_or(Value::Null, |west| json!({ "conditions": west }));
        let records = all(&[("east", json!({ "conditions": east })), ("west", west)]);
        assert_eq!(aggregate(DEPLOYMENTS, 4, &records).unwrap()["conditions"], Value::from(expected));
    }
}

#[test]
fn refusing_cluster_is_named() {
    let done = condition("Progressing", "True", "NewReplicaSetAvailable", "Done.", "2026-01-01T00:00:00Z");
    let status = json!({ "observedGeneration": 2, "conditions": [done] });
    let refused =
        Record { state: State::Refused, message: "no room".into(), ..record(3, true, status.clone()) };
    let records = [("east".to_owned(), record(4, true, status)), ("west".to_owned(), refused)];
    let expected = json!({
        "observedGeneration": 3,
        "conditions": [condition("Progressing", "False", "Refused", "west: no room", "2026-01-01T00:00:00Z")],
    });
    assert_eq!(aggregate(DEPLOYMENTS, 4, &records), Some(expected.clone()));
    assert_eq!(aggregate(DEPLOYMENTS, 4, &records[1..]), Some(expected));
}

#[test]
fn job_is_complete_everywhere_or_failed_anywhere() {
    let complete = json!({ "type": "Complete", "status": "True", "message": "Done." });
    let failed = json!({ "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Too many." });
    let target = json!({ "type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "Too many." });
    let cases = [
        (
            json!({ "conditions": [complete] }),
            json!({ "conditions": [complete] }),
            vec!["Complete=True Done."],
        ),
        (json!({ "conditions": [complete] }), json!({ "active": 1 }), vec![]),
        (
            json!({ "conditions": [complete] }),
            json!({ "conditions": [failed] }),
            vec!["Failed=True west: Too many."],
        ),
        (
            json!({ "active": 1 }),
            json!({ "conditions": [failed] }),
            vec!["FailureTarget=True west: Too many."],
        ),
        (
            json!({ "active": 1 }),
            json!({ "conditions": [target, failed] }),
            vec!["FailureTarget=True west: Too many."],
        ),
        (
            json!({ "active": 0 }),
            json!({ "conditions": [target, failed] }),
            vec!["FailureTarget=True west: Too many.", "Failed=True west: Too many."],
        ),
    ];
    for (east, west, expected) in cases {
        let status =
            aggregate(("batch", "jobs"), 4, &all(&[("east", east.clone()), ("west", west.clone())])).unwrap();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let shown: Vec<String> = conditions
            .iter()
            .map(|one| format!("{}={} {}", text(one, "type"), text(one, "status"), text(one, "message")))
            .collect();
        assert_eq!(shown, expected, "{east} {west}");
    }
}

#[test]
fn conditions_of_other_kinds_are_aggregated() {
    let ready = |status: &str, generation: i64| json!({ "type": "Ready", "status": status, "reason": "R", "message": "m", "observedGeneration": generation });
    let things = ("example.com", "things");
    let of =
        |east: Value, west: Value| aggregate(things, 4, &all(&[("east", east), ("west", west)])).unwrap();
    let both = of(json!({ "conditions": [ready("True", 7)] }), json!({ "conditions": [ready("True", 9)] }));
    assert_eq!(both["conditions"], json!([ready("True", 4)]));
    let one = of(json!({ "conditions": [ready("True", 7)] }), json!({ "phase": "New" }));
    assert_eq!(one["conditions"][0]["status"], "Unknown");
    assert_eq!(one["conditions"][0]["message"], "west: nothing reported yet");
    // A condition that is older than its status.
    let old = of(
        json!({ "observedGeneration": 8, "conditions": [ready("True", 7)] }),
        json!({ "conditions": [ready("True", 9)] }),
    );
    assert_eq!((&old["observedGeneration"], &old["conditions"]), (&json!(4), &json!([ready("True", 3)])));
    let single = all(&[("east", json!({ "observedGeneration": 8, "conditions": [ready("True", 8)] }))]);
    assert_eq!(aggregate(things, 4, &single).unwrap()["conditions"], json!([ready("True", 4)]));
    // The number of clusters in a message is limited.
    let many: Vec<(String, Value)> = (0..8)
        .map(|index| {
            (
                format!("c{index}"),
                json!({ "conditions": [ready(if index == 0 { "True" } else { "False" }, 1)] }),
            )
        })
        .collect();
    let many: Vec<(&str, Value)> =
        many.iter().map(|(name, status)| (name.as_str(), status.clone())).collect();
    let message = aggregate(things, 4, &all(&many)).unwrap()["conditions"][0]["message"].clone();
    assert_eq!(message, "c1: m; c2: m; c3: m; c4: m; c5: m; and 2 more");
}
