use atoll_meta::time;
use serde_json::json;

use super::super::set::{DESIRED_REPLICAS, MAX_REPLICAS};
use super::*;

const NOW: &str = "2026-11-15T08:30:00Z";

fn deployment(strategy: &str, spec: Value) -> Value {
    let mut deployment = json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "d", "generation": 2},
        "spec": {
            "replicas": 4, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 1,
            "strategy": {"type": strategy},
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("new"),
        },
        "status": {},
    });
    if strategy == "RollingUpdate" {
        deployment["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 1, "maxUnavailable": 1});
    }
    for (field, value) in spec.as_object().into_iter().flatten() {
        deployment["spec"][field] = value.clone();
    }
    deployment
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

/// Returns a set of the Deployment with all its pods available.
fn set(image: &str, revision: i64, replicas: i64) -> Value {
    let annotations = json!({REVISION: revision.to_string(), DESIRED_REPLICAS: "4", MAX_REPLICAS: "5"});
    json!({
        "metadata": {
            "name": format!("web-{image}"), "uid": image, "generation": 1, "annotations": annotations,
            "creationTimestamp": format!("2026-11-15T08:{revision:02}:00Z"),
        },
        "spec": {"replicas": replicas, "template": template(image)},
        "status": {
            "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
            "terminatingReplicas": 0, "observedGeneration": 1,
        },
    })
}

fn plan(deployment: &Value, sets: &[Value], pods_remain: bool) -> Plan {
    reconcile(Observed {
        deployment,
        sets: sets.iter().cloned().map(Arc::new).collect(),
        pods_remain: &|_| pods_remain,
        now: time::parse(NOW).unwrap(),
    })
}

/// Describes the actions of a plan.
fn describe(plan: &Plan) -> Vec<String> {
    let mut describe = Vec::new();
    if let Some(set) = &plan.create {
        describe.push(format!("create {}", set["spec"]["replicas"]));
    }
    for set in &plan.change {
        describe.push(format!("{} {}", set.name(), set.replicas()));
    }
    describe.extend(plan.delete.iter().map(|set| format!("delete {}", object::name(set))));
    describe
}

fn reasons(plan: &Plan) -> Vec<String> {
    let status =
        plan.status_update.as_ref().map(|deployment| deployment["status"].clone()).unwrap_or_default();
    let mut reasons: Vec<String> = Conditions::of(WorkloadStatusView::of(&status))
        .0
        .iter()
        .map(|own| format!("{}={}", own["status"].as_str().unwrap(), own["reason"].as_str().unwrap()))
        .collect();
    reasons.sort();
    reasons
}

#[test]
fn rollouts_go_step_by_step() {
    let rolling = deployment("RollingUpdate", json!({}));
    let recreate = deployment("Recreate", json!({}));
    let paused = deployment("RollingUpdate", json!({"paused": true}));
    let mut going = rolling.clone();
    object::set_deletion_timestamp(&mut going, NOW);
    let larger = deployment("RollingUpdate", json!({"replicas": 8}));
    let cases = [
        ("the first", &rolling, vec![], false, vec!["create 4"]),
        ("the second", &rolling, vec![set("old", 1, 4)], false, vec!["create 1", "web-old 3"]),
        ("grows", &rolling, vec![set("old", 1, 3), set("new", 2, 1)], false, vec!["web-new 2"]),
        ("shrinks", &rolling, vec![set("old", 1, 3), set("new", 2, 2)], false, vec!["web-old 1"]),
        ("ends", &rolling, vec![set("old", 1, 0), set("new", 2, 4)], false, vec![]),
        ("rolls back", &rolling, vec![set("new", 1, 0), set("old", 2, 4)], false, vec!["web-new 1"]),
        ("recreates", &recreate, vec![set("old", 1, 4)], true, vec!["web-old 0"]),
        ("waits for pods to end", &recreate, vec![set("old", 1, 0)], true, vec![]),
        ("begins when all have", &recreate, vec![set("old", 1, 0)], false, vec!["create 4"]),
        ("does nothing while paused", &paused, vec![set("old", 1, 4)], false, vec![]),
        ("does nothing while it goes", &going, vec![set("old", 1, 4)], false, vec![]),
        (
            "grows as a whole",
            &larger,
            vec![set("old", 1, 3), set("new", 2, 2)],
            false,
            vec!["web-old 5", "web-new 4"],
        ),
    ];
    for (name, deployment, sets, pods_remain, wanted) in cases {
        let mut found = describe(&plan(deployment, &sets, pods_remain));
        found.sort();
        let mut wanted: Vec<String> = wanted.into_iter().map(String::from).collect();
        wanted.sort();
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn old_sets_are_deleted_after_the_rollout() {
    let mut done = deployment("RollingUpdate", json!({}));
    let sets = [set("a", 1, 0), set("b", 2, 0), set("c", 3, 0), set("new", 4, 4)];
    assert_eq!(describe(&plan(&done, &sets, false)), Vec::<String>::new(), "not before");
    done["status"] = json!({
        "observedGeneration": 2, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4,
    });
    assert_eq!(describe(&plan(&done, &sets, false)), ["delete web-a", "delete web-b"]);
    let mut unfinished = sets.clone();
    unfinished[0]["status"]["replicas"] = json!(1);
    assert_eq!(describe(&plan(&done, &unfinished, false)), ["delete web-b"], "one still has pods");
    done["spec"]["revisionHistoryLimit"] = json!(i32::MAX);
    assert!(describe(&plan(&done, &sets, false)).is_empty());
}

#[test]
fn conditions_report_progress() {
    let at = |time: &str, status: &str, reason: &str| {
        json!({"type": "Progressing", "status": status, "reason": reason, "lastUpdateTime": time,
            "lastTransitionTime": time})
    };
    let (recent, long_ago) = ("2026-11-15T08:29:00Z", "2026-11-15T08:00:00Z");
    let status = |condition: Value| {
        json!({
            "replicas": 4, "updatedReplicas": 2, "readyReplicas": 4, "availableReplicas": 4,
            "observedGeneration": 2, "conditions": [condition],
        })
    };
    // New pods never become available.
    let mut broken = set("new", 2, 2);
    broken["status"] = json!({"replicas": 2, "terminatingReplicas": 0, "observedGeneration": 1});
    let stuck = [set("old", 1, 3), broken];
    let cases = [
        ("a new one", Value::Null, vec![], "True=NewReplicaSetCreated"),
        ("found", Value::Null, vec![set("new", 1, 4)], "True=NewReplicaSetAvailable"),
        (
            "moves",
            status(at(recent, "True", "NewReplicaSetCreated")),
            vec![set("old", 1, 1), set("new", 2, 3)],
            "True=ReplicaSetUpdated",
        ),
        (
            "is over",
            status(at(recent, "True", "ReplicaSetUpdated")),
            vec![set("old", 1, 0), set("new", 2, 4)],
            "True=NewReplicaSetAvailable",
        ),
        (
            "takes its time",
            status(at(recent, "True", "ReplicaSetUpdated")),
            stuck.to_vec(),
            "True=ReplicaSetUpdated",
        ),
        (
            "takes too long",
            status(at(long_ago, "True", "ReplicaSetUpdated")),
            stuck.to_vec(),
            "False=ProgressDeadlineExceeded",
        ),
        (
            "still does",
            status(at(long_ago, "False", "ProgressDeadlineExceeded")),
            stuck.to_vec(),
            "False=ProgressDeadlineExceeded",
        ),
        (
            "was over",
            status(at(long_ago, "True", "NewReplicaSetAvailable")),
            stuck.to_vec(),
            "True=NewReplicaSetAvailable",
        ),
        (
            "goes on",
            status(at(long_ago, "Unknown", "DeploymentPaused")),
            stuck.to_vec(),
            "Unknown=DeploymentResumed",
        ),
    ];
    for (name, status, sets, wanted) in cases {
        let mut deployment = deployment("RollingUpdate", json!({}));
        deployment["status"] = status;
        let plan = plan(&deployment, &sets, false);
        assert!(reasons(&plan).contains(&wanted.to_string()), "{name}: {:?}", reasons(&plan));
    }
    let mut paused = deployment("RollingUpdate", json!({"paused": true}));
    assert!(reasons(&plan(&paused, &stuck, false)).contains(&"Unknown=DeploymentPaused".to_string()));
    paused["spec"]["progressDeadlineSeconds"] = json!(i32::MAX);
    let plan = plan(&paused, &stuck, false);
    assert_eq!(reasons(&plan), ["True=MinimumReplicasAvailable"], "no deadline");
}

#[test]
fn rollouts_are_requeued_for_the_progress_deadline() {
    let mut slow = deployment("RollingUpdate", json!({}));
    let mut broken = set("new", 2, 2);
    broken["status"] = json!({"replicas": 2, "terminatingReplicas": 0, "observedGeneration": 1});
    let sets = [set("old", 1, 3), broken];
    slow["status"]["conditions"] = json!([{
        "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
        "lastUpdateTime": "2026-11-15T08:25:00Z", "lastTransitionTime": "2026-11-15T08:25:00Z",
    }]);
    slow["status"]["replicas"] = json!(5);
    slow["status"]["updatedReplicas"] = json!(2);
    slow["status"]["readyReplicas"] = json!(3);
    slow["status"]["availableReplicas"] = json!(3);
    assert_eq!(plan(&slow, &sets, false).requeue_after, Some(Duration::from_secs(301)));
    assert_eq!(plan(&slow, &[set("new", 1, 4)], false).requeue_after, None, "the rollout is complete");
}

#[test]
fn status_sums_the_counts_of_the_sets() {
    let mut failing = set("old", 1, 2);
    failing["status"]["conditions"] = json!([{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no",
        "lastTransitionTime": "2026-11-15T08:01:00Z",
    }]);
    let plan = plan(&deployment("RollingUpdate", json!({})), &[failing, set("new", 2, 3)], false);
    let status = plan.status_update.expect("a status update")["status"].clone();
    for (field, count) in [
        ("observedGeneration", 2),
        ("replicas", 5),
        ("updatedReplicas", 3),
        ("readyReplicas", 5),
        ("availableReplicas", 5),
        ("terminatingReplicas", 0),
    ] {
        assert_eq!(status[field], count, "{field}");
    }
    assert_eq!(status.get("unavailableReplicas"), None, "nothing is missing");
    let failure = Conditions::of(WorkloadStatusView::of(&status))
        .get("ReplicaFailure")
        .cloned()
        .expect("the failure is copied");
    assert_eq!(failure["lastUpdateTime"], "2026-11-15T08:01:00Z");
}

#[test]
fn rollback_annotation_restores_a_revision() {
    let sets = [set("old", 1, 0), set("new", 2, 4)];
    for (to, reason, image) in [
        ("0", "DeploymentRollback", "old"),
        ("1", "DeploymentRollback", "old"),
        ("2", "DeploymentRollbackTemplateUnchanged", "new"),
        ("7", "DeploymentRollbackRevisionNotFound", "new"),
    ] {
        let mut asking = deployment("RollingUpdate", json!({}));
        object::set_annotation(&mut asking, revision::ROLLBACK_TO, to);
        let rollback = plan(&asking, &sets, false).rollback.expect("a rollback");
        assert_eq!(rollback.reason, reason);
        let spec = &rollback.deployment["spec"]["template"]["spec"];
        assert_eq!(spec["containers"][0]["image"], image, "{to}");
        assert_eq!(object::annotation(&rollback.deployment, revision::ROLLBACK_TO), None);
    }
}

#[test]
fn an_unchanged_status_is_not_written() {
    let before = deployment("RollingUpdate", json!({}));
    let sets = [set("old", 1, 0), set("new", 2, 4)];
    let updated = plan(&before, &sets, false).status_update.expect("a status update");
    let again = plan(&updated, &sets, false);
    assert!(again.status_update.is_none() && again.change.is_empty() && again.create.is_none());
}
