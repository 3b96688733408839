mod argo_cd;

use serde_json::json;

use super::*;

const DEPLOYMENTS: (&str, &str) = ("apps", "deployments");
const NOW: &str = "2026-01-02T00:00:00Z";
const BEFORE: &str = "2026-01-01T00:00:00Z";

fn placed(clusters: &[&str], leaving: &[&str], status: Value) -> Value {
    let shares: Vec<Value> = clusters.iter().map(|name| json!({ "name": name })).collect();
    let placement = json!({ "clusters": shares, "leaving": leaving, "by": "hand" }).to_string();
    json!({
        "metadata": { "name": "web", "generation": 4, "annotations": { "atoll.dev/placement": placement } },
        "spec": { "replicas": 3 },
        "status": status,
    })
}

fn record(state: State, message: &str, status: Value) -> Record {
    Record { generation: 4, observed: true, state, message: message.into(), status, ..Record::default() }
}

fn of<'a>(
    resource: (&'a str, &'a str),
    object: &'a Value,
    records: &'a [(String, Record)],
    health: &'a dyn Fn(&str) -> Health,
) -> PlacedObject<'a> {
    PlacedObject { resource, object, records, health, advice: Some("place it") }
}

fn health(name: &str) -> Health {
    match name {
        "lost" => Health::NotReady("no heartbeats".into()),
        "absent" => Health::Missing,
        _ => Health::Ready,
    }
}

#[test]
fn condition_names_clusters_without_the_object() {
    let applied = |name: &str| (name.to_owned(), record(State::Applied, "", json!({ "replicas": 3 })));
    let refused = |name: &str| (name.to_owned(), record(State::Refused, "no room", Value::Null));
    let conflict = |name: &str| (name.to_owned(), record(State::Conflict, "theirs", Value::Null));
    for (clusters, leaving, records, expected) in [
        (
            vec![],
            vec![],
            vec![],
            "False NotPlaced the object is placed on no cluster, so nothing runs; place it",
        ),
        (
            vec![],
            vec!["east", "west"],
            vec![],
            "False NotPlaced the object is being removed from east and west; place it",
        ),
        (vec!["east"], vec![], vec![applied("east")], "True Applied the object is on east"),
        (
            vec!["east", "west"],
            vec![],
            vec![applied("east")],
            "Unknown NotReported nothing reported yet by west",
        ),
        (vec!["east", "west"], vec![], vec![applied("east"), refused("west")], "False Refused west: no room"),
        (
            vec!["east", "west"],
            vec![],
            vec![conflict("east"), refused("west")],
            "False Conflict east: theirs; west: no room",
        ),
        (vec!["lost"], vec![], vec![applied("lost")], "Unknown ClusterNotReady lost: no heartbeats"),
        (vec!["lost"], vec![], vec![], "Unknown ClusterNotReady lost: no heartbeats"),
        (
            vec!["absent", "east"],
            vec![],
            vec![applied("east")],
            "False ClusterNotFound there is no cluster absent; place it",
        ),
    ] {
        let object = placed(&clusters, &leaving, Value::Null);
        let verdict = of(DEPLOYMENTS, &object, &records, &health).condition();
        assert_eq!(format!("{} {} {}", verdict.status, verdict.reason, verdict.message), expected);
    }
    let long = "é".repeat(2000);
    assert!(short(long).len() <= LONGEST);
}

#[test]
fn reason_of_the_scheduler_is_kept() {
    let told = |reason: &str| {
        let condition =
            json!({ "type": "Placed", "status": "False", "reason": reason, "message": "east is full" });
        placed(&[], &[], json!({ "conditions": [condition] }))
    };
    for (reason, advice, expected) in [
        ("Unschedulable", None, "Unschedulable east is full"),
        ("NotPlaced", None, "NotPlaced east is full"),
        ("Applied", None, "NotPlaced the object is placed on no cluster, so nothing runs"),
        (
            "Unschedulable",
            Some("place it"),
            "NotPlaced the object is placed on no cluster, so nothing runs; place it",
        ),
    ] {
        let object = told(reason);
        let known = PlacedObject { advice, ..of(DEPLOYMENTS, &object, &[], &health) };
        let verdict = known.condition();
        assert_eq!(format!("{} {}", verdict.reason, verdict.message), expected);
        let mut status = known.status(NOW).unwrap();
        let progressing = match advice.is_none() && reason == "Unschedulable" {
            true => "Unschedulable",
            false => "ProgressDeadlineExceeded",
        };
        assert_eq!(status["conditions"][1]["reason"], progressing, "{status}");
        clear_unplaced(&mut status);
        assert_eq!(status.get("conditions"), None, "{status}");
    }
}

#[test]
fn waiting_deployments_progress_until_their_deadline() {
    let day = 24 * 3600;
    for (reason, limit, expected) in [
        ("Unschedulable", json!(day + 1), "True"),
        ("Unschedulable", json!(day), "False"),
        ("Unschedulable", json!(null), "False"),
        ("Unschedulable", json!(i32::MAX), "True"),
        ("BeyondPolicy", json!(day + 1), "True"),
        ("NotPlaced", json!(day + 1), "False"),
    ] {
        let condition = json!({
            "type": "Placed", "status": "False", "reason": reason, "message": "east is full",
            "lastTransitionTime": BEFORE,
        });
        let mut object = placed(&[], &[], json!({ "conditions": [condition] }));
        object["spec"]["progressDeadlineSeconds"] = limit.clone();
        let known = PlacedObject { advice: None, ..of(DEPLOYMENTS, &object, &[], &health) };
        let status = known.status(NOW).unwrap();
        let found = status["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Progressing");
        assert_eq!(found.unwrap()["status"], expected, "{reason} {limit}");
        let has_deadline = reason != "NotPlaced" && limit != i32::MAX;
        assert_eq!(deadline(&object).is_some(), has_deadline, "{reason} {limit}");
    }
}

#[test]
fn replication_controllers_have_the_condition() {
    let resource = ("", "replicationcontrollers");
    let conditions = |status: &Value| -> String {
        let all = status["conditions"].as_array().unwrap().iter();
        all.map(|one| format!("{} {} {}", one["type"], one["status"], one["reason"])).collect()
    };
    let nowhere = placed(&[], &[], json!({ "replicas": 3, "readyReplicas": 3 }));
    let status = of(resource, &nowhere, &[], &health).status(NOW).unwrap();
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(0), &Value::Null));
    assert_eq!(
        (&status["observedGeneration"], conditions(&status)),
        (&json!(4), r#""Placed" "False" "NotPlaced""#.into())
    );
    let records = [("east".to_string(), record(State::Applied, "", json!({ "replicas": 3 })))];
    let status = of(resource, &placed(&["east"], &[], json!({})), &records, &health).status(NOW).unwrap();
    assert_eq!(
        (&status["replicas"], conditions(&status)),
        (&json!(3), r#""Placed" "True" "Applied""#.into())
    );
}

#[test]
fn unplaced_object_has_zero_counts() {
    let running = json!({
        "observedGeneration": 3, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "collisionCount": 1,
        "conditions": [
            { "type": "Available", "status": "True", "reason": "R", "lastTransitionTime": BEFORE, "lastUpdateTime": BEFORE },
            { "type": "Placed", "status": "True", "reason": "Applied", "lastTransitionTime": BEFORE },
        ],
    });
    let object = placed(&[], &[], running);
    let status = of(DEPLOYMENTS, &object, &[], &health).status(NOW).unwrap();
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "False", "reason": reason, "lastTransitionTime": NOW, "lastUpdateTime": NOW,
            "message": "the object is placed on no cluster, so nothing runs; place it",
        })
    };
    let expected = json!({
        "observedGeneration": 4, "collisionCount": 1,
        "conditions": [
            condition("Available", "MinimumReplicasUnavailable"),
            condition("Progressing", "ProgressDeadlineExceeded"),
            condition("Placed", "NotPlaced"),
        ],
    });
    assert_eq!(status, expected);
    let mut placed_again = status.clone();
    clear_unplaced(&mut placed_again);
    assert_eq!(placed_again, json!({ "observedGeneration": 4, "collisionCount": 1 }));
    let minimum = json!({
        "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
        "message": "Deployment does not have minimum availability.",
    });
    let mut partly_running = json!({ "conditions": [minimum, condition("Placed", "Unschedulable")] });
    clear_unplaced(&mut partly_running);
    assert_eq!(partly_running, json!({ "conditions": [minimum] }));
    clear_unplaced(&mut json!(null));
    // The same condition later keeps its times.
    let again = placed(&[], &[], status.clone());
    assert_eq!(of(DEPLOYMENTS, &again, &[], &health).status("2027-01-01T00:00:00Z"), Some(status));

    for (resource, before, expected) in [
        (
            ("apps", "statefulsets"),
            json!({ "replicas": 2, "readyReplicas": 2 }),
            json!({ "replicas": 0, "observedGeneration": 4 }),
        ),
        (
            ("apps", "daemonsets"),
            json!({ "numberReady": 2 }),
            json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
                "observedGeneration": 4,
            }),
        ),
        // Finished Pods stay counted.
        (("batch", "jobs"), json!({ "active": 1, "succeeded": 2 }), json!({ "succeeded": 2 })),
    ] {
        let object = placed(&[], &[], before);
        let mut status = of(resource, &object, &[], &health).status(NOW).unwrap();
        let conditions = status.as_object_mut().unwrap().remove("conditions").unwrap();
        assert_eq!(status, expected, "{resource:?}");
        assert_eq!((&conditions[0]["type"], &conditions[0]["status"]), (&json!("Placed"), &json!("False")));
        assert!(conditions[0].get("lastUpdateTime").is_none());
    }
    // A finished Job is not changed.
    let ended = json!({ "succeeded": 1, "conditions": [{ "type": "Complete", "status": "True" }] });
    let object = placed(&[], &[], ended.clone());
    assert_eq!(of(("batch", "jobs"), &object, &[], &health).status(NOW), Some(ended));
    // Other kinds are not changed until there is a record.
    assert_eq!(of(("", "services"), &object, &[], &health).status(NOW), None);
}

#[test]
fn rollout_without_records_is_not_failed() {
    let object =
        placed(&["east"], &[], json!({ "observedGeneration": 3, "replicas": 3, "availableReplicas": 3 }));
    let status = of(DEPLOYMENTS, &object, &[], &health).status(NOW).unwrap();
    let types: Vec<&str> =
        status["conditions"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["Available", "Placed"]);
    assert_eq!((&status["observedGeneration"], status.get("availableReplicas")), (&json!(3), None));
    // A rollout that every cluster refuses has failed.
    let records = [("east".to_owned(), record(State::Refused, "no room", Value::Null))];
    let status = of(DEPLOYMENTS, &object, &records, &health).status(NOW).unwrap();
    let progressing = &status["conditions"][1];
    assert_eq!(
        (&progressing["reason"], &progressing["message"]),
        (&json!("ProgressDeadlineExceeded"), &json!("east: no room"))
    );
    assert_eq!(status["observedGeneration"], 4);
}

#[test]
fn replicas_of_a_lost_cluster_are_unavailable() {
    let there = |count: i64| {
        json!({
            "observedGeneration": 9, "replicas": count, "readyReplicas": count, "availableReplicas": count,
            "conditions": [{ "type": "Available", "status": "True", "lastTransitionTime": BEFORE }],
        })
    };
    let object = placed(&["east", "lost"], &[], json!({}));
    let records = [
        ("east".to_owned(), record(State::Applied, "", there(2))),
        ("lost".to_owned(), record(State::Applied, "", there(1))),
    ];
    let status = of(DEPLOYMENTS, &object, &records, &health).status(NOW).unwrap();
    for (field, expected) in
        [("replicas", 3), ("readyReplicas", 2), ("availableReplicas", 2), ("unavailableReplicas", 1)]
    {
        assert_eq!(status[field], expected, "{field}");
    }
    let available = &status["conditions"][0];
    assert_eq!(
        (&available["status"], &available["message"]),
        (&json!("False"), &json!("lost: no heartbeats"))
    );
    assert_eq!(status["observedGeneration"], 4);
    let daemons = json!({ "desiredNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2 });
    let records = [("lost".to_owned(), record(State::Applied, "", daemons))];
    let object = placed(&["lost"], &[], json!({}));
    let status = of(("apps", "daemonsets"), &object, &records, &health).status(NOW).unwrap();
    assert_eq!((&status["numberReady"], &status["numberUnavailable"]), (&json!(0), &json!(2)));
    assert_eq!(status.get("numberAvailable"), None);
}

#[test]
fn other_kinds_lose_values_from_clusters() {
    let bound = json!({ "phase": "Bound", "capacity": { "storage": "1Gi" } });
    assert_eq!(
        status_without_clusters(("", "persistentvolumeclaims"), &bound),
        Some(json!({ "phase": "Pending" }))
    );
    let balanced = json!({ "loadBalancer": { "ingress": [{ "ip": "10.0.0.1" }] } });
    assert_eq!(status_without_clusters(("", "services"), &balanced), Some(json!({ "loadBalancer": {} })));
    assert_eq!(status_without_clusters(("", "services"), &json!({ "loadBalancer": {} })), None);
    assert_eq!(
        status_without_clusters(
            ("batch", "cronjobs"),
            &json!({ "active": [{}], "lastScheduleTime": BEFORE })
        ),
        Some(json!({ "lastScheduleTime": BEFORE }))
    );
    assert_eq!(status_without_clusters(("example.com", "things"), &bound), None);
    assert_eq!(
        command("Deployment", "shop", "web", "east"),
        "atoll place deployment/web --namespace shop --on east"
    );
}

fn divided_job(parts: &[(&str, i64)]) -> Value {
    let shares: Vec<Value> =
        parts.iter().map(|(name, part)| json!({ "name": name, "completions": part })).collect();
    let placement = json!({ "clusters": shares, "by": "hand" }).to_string();
    json!({
        "metadata": { "name": "sum", "generation": 4, "annotations": { "atoll.dev/placement": placement } },
        "spec": { "completions": 10 },
    })
}

#[test]
fn divided_job_is_complete_when_all_parts_are() {
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": BEFORE });
    let complete = |name: &str, succeeded: i64| {
        let conditions = [condition("SuccessCriteriaMet"), condition("Complete")];
        let status = json!({ "succeeded": succeeded, "completionTime": BEFORE, "conditions": conditions });
        (name.to_owned(), record(State::Applied, "", status))
    };
    let at_work = |name: &str, succeeded: i64| {
        let status = json!({ "succeeded": succeeded, "active": 1 });
        (name.to_owned(), record(State::Applied, "", status))
    };
    let failed = |name: &str, active: i64| {
        let conditions = [condition("FailureTarget"), condition("Failed")];
        let status = json!({ "failed": 1, "active": active, "conditions": conditions });
        (name.to_owned(), record(State::Applied, "", status))
    };
    let parts = [("a", 4), ("b", 3), ("c", 3)];
    for (parts, records, succeeded, expected) in [
        (&parts[..], vec![complete("a", 4), complete("b", 3), complete("c", 3)], 10, Some("Complete")),
        (&parts, vec![complete("a", 4), complete("b", 3), at_work("c", 2)], 9, None),
        // One cluster has not reported yet.
        (&parts, vec![complete("a", 4), complete("b", 3)], 7, None),
        // A part has no cluster yet.
        (&parts[..2], vec![complete("a", 4), complete("b", 3)], 7, None),
        (&parts, vec![complete("a", 4), failed("b", 0), complete("c", 3)], 7, Some("Failed")),
        (&parts, vec![complete("a", 4), failed("b", 0), at_work("c", 1)], 5, None),
        (&parts, vec![complete("a", 4), failed("b", 0)], 4, Some("Failed")),
    ] {
        let job = divided_job(parts);
        let status = of(("batch", "jobs"), &job, &records, &health).status(NOW).unwrap();
        let conditions = status["conditions"].as_array().unwrap();
        let ends = |one: &&Value| one["type"] == "Complete" || one["type"] == "Failed";
        let end = conditions.iter().find(ends).and_then(|one| one["type"].as_str());
        assert_eq!((status["succeeded"].as_i64(), end), (Some(succeeded), expected), "{status}");
        assert_eq!(status["completionTime"].is_string(), expected == Some("Complete"), "{status}");
    }
}

#[test]
fn held_clusters_have_no_updated_pods() {
    let object = placed(&["east", "west"], &[], json!({}));
    let records = |is_held: bool, status: Value| {
        let west = Record { held: is_held, ..record(State::Applied, "", status.clone()) };
        [("east".to_owned(), record(State::Applied, "", status)), ("west".to_owned(), west)]
    };
    let deployment =
        json!({ "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "observedGeneration": 4 });
    for (is_held, updated) in [(false, 4), (true, 2)] {
        let records = records(is_held, deployment.clone());
        let status = of(DEPLOYMENTS, &object, &records, &health).status(NOW).unwrap();
        assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(4), &json!(updated)));
        assert_eq!(status["observedGeneration"], 4);
    }
    let mut records = records(
        true,
        json!({ "replicas": 2, "updatedReplicas": 2, "currentRevision": "new", "updateRevision": "new" }),
    );
    let resource = ("apps", "statefulsets");
    records[1].1.status["currentRevision"] = "old".into();
    let status = of(resource, &object, &records, &health).status(NOW).unwrap();
    let revisions = (&status["currentRevision"], &status["updateRevision"]);
    assert_eq!(revisions, (&json!("old"), &json!("new")), "the rollout is not complete");
    assert_eq!(status["updatedReplicas"], 2);
}

#[test]
fn replicas_without_a_place_are_counted() {
    let web = |missing: i64, before: Value| {
        let placement =
            json!({ "clusters": [{ "name": "east", "replicas": 4 }], "by": "default", "missing": missing })
                .to_string();
        json!({
            "kind": "Deployment",
            "metadata": { "name": "web", "generation": 4, "annotations": { "atoll.dev/placement": placement } },
            "spec": {
                "replicas": 10, "progressDeadlineSeconds": 600,
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "25%", "maxSurge": "25%" } },
            },
            "status": { "conditions": before },
        })
    };
    let told = |available: i64| {
        let condition =
            |kind: &str, reason: &str| json!({ "type": kind, "status": "True", "reason": reason });
        let conditions = [
            condition("Available", "MinimumReplicasAvailable"),
            condition("Progressing", "NewReplicaSetAvailable"),
        ];
        json!({ "replicas": available, "availableReplicas": available, "observedGeneration": 1, "conditions": conditions })
    };
    let unplaced = |since: &str| json!([{ "type": "Placed", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since }]);
    for (missing, available, before, expected) in [
        (0, 10, json!([]), "Available=True Placed=True Progressing=True"),
        (6, 4, json!([]), "Available=False Placed=False Progressing=True"),
        (2, 8, json!([]), "Available=True Placed=False Progressing=True"),
        // The deadline has passed.
        (6, 4, unplaced(BEFORE), "Available=False Placed=False Progressing=False"),
    ] {
        let object = web(missing, before);
        let records = [("east".to_string(), record(State::Applied, "", told(available)))];
        let status = of(DEPLOYMENTS, &object, &records, &health).status(NOW).unwrap();
        let conditions = status["conditions"].as_array().unwrap().iter();
        let mut found: Vec<String> = conditions
            .map(|one| format!("{}={}", one["type"].as_str().unwrap(), one["status"].as_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(found.join(" "), expected, "{missing} {available}");
        assert_eq!(status["observedGeneration"], 4);
    }
    let records = [("east".to_string(), record(State::Applied, "", told(4)))];
    let mut partial = web(6, json!([]));
    assert_eq!(
        of(DEPLOYMENTS, &partial, &records, &health).condition().message,
        "6 of 10 replicas have no place on east, where it is placed by default; for another cluster: kubectl annotate \
         deployment/web atoll.dev/clusters=NAME; to divide it: kubectl annotate deployment/web \
         atoll.dev/clusters=east=1,NAME=1; see where there is room with: atoll explain deployment/web"
    );
    // A policy may leave it no other clusters.
    let placement = Placement { by: "placementpolicy/a".into(), ..Placement::of(&partial) };
    object::set_annotation(&mut partial, "atoll.dev/placement", &placement.text().unwrap());
    assert_eq!(
        of(DEPLOYMENTS, &partial, &records, &health).condition().message,
        "6 of 10 replicas have no place on any cluster; see why with: atoll explain deployment/web"
    );
}

#[test]
fn objects_that_cannot_leave_say_why() {
    for (blocked, missing, health_of, expected) in [
        ("", 0, "east", "True Applied"),
        ("MoveBlocked", 0, "east", "False MoveBlocked no other cluster takes all of its replicas"),
        ("VolumesStay", 0, "east", "False VolumesStay its volumes would stay behind"),
        ("SomethingNew", 0, "east", "False MoveBlocked no other cluster takes all of its replicas"),
        // Replicas that do not run are worse.
        ("MoveBlocked", 1, "east", "False Unschedulable"),
        ("MoveBlocked", 0, "lost", "Unknown ClusterNotReady"),
    ] {
        let placement =
            json!({ "clusters": [{ "name": health_of }], "by": "p", "blocked": blocked, "missing": missing });
        let mut object = placed(&[], &[], json!({}));
        object["metadata"]["annotations"]["atoll.dev/placement"] = placement.to_string().into();
        let records = [(health_of.to_owned(), record(State::Applied, "", json!({ "replicas": 3 })))];
        let found = of(DEPLOYMENTS, &object, &records, &health).condition();
        let said = format!("{} {} {}", found.status, found.reason, found.message);
        let (head, cause) =
            expected.split_at(expected.match_indices(' ').nth(1).map_or(expected.len(), |it| it.0));
        assert!(said.starts_with(head) && said.contains(cause.trim()), "{blocked}: {said}");
    }
}

#[test]
fn status_has_an_observed_generation_once_it_had_one() {
    for (before, generation, observed, expected) in [
        (json!({}), 1, false, json!(null)),
        (json!({ "observedGeneration": 1 }), 1, false, json!(1)),
        (json!({ "observedGeneration": 4 }), 1, false, json!(3)),
        (json!({ "observedGeneration": 3 }), 4, true, json!(4)),
        (json!({ "observedGeneration": 4 }), 3, true, json!(3)),
    ] {
        let object = placed(&["east"], &[], before);
        let status = json!({ "replicas": 3, "observedGeneration": 1 });
        let record = Record { generation, observed, ..record(State::Applied, "", status) };
        let records = [("east".to_string(), record)];
        let found = of(DEPLOYMENTS, &object, &records, &health).status(NOW).unwrap();
        assert_eq!(found.get("observedGeneration").cloned().unwrap_or_default(), expected, "{generation}");
    }
}
