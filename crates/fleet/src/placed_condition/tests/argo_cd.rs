//! Argo CD judges the health of objects by their status alone, with rules of its own for each kind: those of
//! gitops-engine, pkg/health. The status above must lead it to the same answer as that of one cluster.

use atoll_meta::views::condition;

use super::*;

/// The health of an object by Argo CD's rules.
fn judge(resource: &str, object: &Value) -> &'static str {
    let (spec, status) = (&object["spec"], &object["status"]);
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let wanted = spec["replicas"].as_i64();
    let is_observed = number("observedGeneration") >= object::generation(object);
    let is = |kind: &str| condition(object, kind).is_some_and(|one| one.is_true());
    match resource {
        "jobs" if is("Failed") => "Degraded",
        "jobs" if is("Complete") => "Healthy",
        "jobs" => "Progressing",
        _ if !is_observed => "Progressing",
        "deployments" => {
            let reason = condition(object, "Progressing").map(|one| one.reason().to_string());
            let updated = number("updatedReplicas");
            if reason.as_deref() == Some("ProgressDeadlineExceeded") {
                "Degraded"
            } else if wanted.is_some_and(|wanted| updated < wanted)
                || number("replicas") > updated
                || number("availableReplicas") < updated
            {
                "Progressing"
            } else {
                "Healthy"
            }
        }
        "statefulsets" => {
            let partition = spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
            let is_short = wanted.is_some_and(|wanted| {
                number("readyReplicas") < wanted || number("updatedReplicas") < wanted - partition
            });
            if is_short { "Progressing" } else { "Healthy" }
        }
        _ => {
            let desired = number("desiredNumberScheduled");
            let is_short = number("updatedNumberScheduled") < desired || number("numberAvailable") < desired;
            if is_short { "Progressing" } else { "Healthy" }
        }
    }
}

/// The health of an object of six replicas, two to one, with the status that reports of its clusters lead to.
fn health_of(resource: &str, clusters: &[&str], reports: &[(&str, i64, Value)]) -> &'static str {
    let records: Vec<(String, Record)> = reports
        .iter()
        .map(|(cluster, generation, status)| {
            let record = record(State::Applied, "", status.clone());
            (cluster.to_string(), Record { generation: *generation, ..record })
        })
        .collect();
    let group = if resource == "jobs" { "batch" } else { "apps" };
    let mut object = placed(clusters, &[], Value::Null);
    object["spec"]["replicas"] = 6.into();
    let status = of((group, resource), &object, &records, &health).status(NOW);
    object["status"] = status.expect("there is a status");
    judge(resource, &object)
}

#[test]
fn deployments_are_judged_as_in_one_cluster() {
    let pods = |replicas: i64, updated: i64, available: i64| {
        json!({
            "replicas": replicas, "updatedReplicas": updated, "readyReplicas": available, "availableReplicas": available,
            "observedGeneration": 1,
            "conditions": [{ "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable" }],
        })
    };
    let mut halted = pods(4, 1, 3);
    halted["conditions"] =
        json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
    let both = ["east", "west"];
    for (clusters, reports, expected) in [
        (&both[..], vec![("east", 4, pods(4, 4, 4)), ("west", 4, pods(2, 2, 2))], "Healthy"),
        (&both, vec![("east", 4, pods(4, 4, 4)), ("west", 4, pods(2, 2, 1))], "Progressing"),
        (&both, vec![("east", 4, pods(4, 4, 4)), ("west", 4, pods(2, 1, 2))], "Progressing"),
        // One cluster has not reported, or reports about an earlier generation.
        (&both, vec![("east", 4, pods(4, 4, 4))], "Progressing"),
        (&both, vec![("east", 4, pods(4, 4, 4)), ("west", 3, pods(2, 2, 2))], "Progressing"),
        (&both, vec![("east", 4, halted), ("west", 4, pods(2, 2, 2))], "Degraded"),
        // The replicas of a cluster that is not Ready are unavailable.
        (&["east", "lost"], vec![("east", 4, pods(4, 4, 4)), ("lost", 4, pods(2, 2, 2))], "Progressing"),
        // Nothing runs.
        (&[], vec![], "Degraded"),
    ] {
        assert_eq!(health_of("deployments", clusters, &reports), expected, "{clusters:?} {reports:?}");
    }
}

#[test]
fn other_workloads_are_judged_as_in_one_cluster() {
    let set = |replicas: i64, updated: i64, ready: i64| {
        let revision = "web-1";
        json!({
            "replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": ready,
            "currentRevision": revision, "updateRevision": revision, "observedGeneration": 1,
        })
    };
    let agents = |desired: i64, updated: i64, available: i64| {
        json!({
            "desiredNumberScheduled": desired, "currentNumberScheduled": desired, "numberReady": available,
            "updatedNumberScheduled": updated, "numberAvailable": available, "observedGeneration": 1,
        })
    };
    let job = |kind: &str| json!({ "succeeded": 3, "conditions": [{ "type": kind, "status": "True" }] });
    for (resource, east, west, expected) in [
        ("statefulsets", set(4, 4, 4), set(2, 2, 2), "Healthy"),
        ("statefulsets", set(4, 4, 4), set(2, 2, 1), "Progressing"),
        ("statefulsets", set(4, 1, 4), set(2, 2, 2), "Progressing"),
        ("daemonsets", agents(3, 3, 3), agents(2, 2, 2), "Healthy"),
        ("daemonsets", agents(3, 3, 3), agents(2, 2, 1), "Progressing"),
        ("jobs", job("Complete"), job("Complete"), "Healthy"),
        ("jobs", job("Complete"), json!({ "active": 1 }), "Progressing"),
        ("jobs", job("Complete"), job("Failed"), "Degraded"),
    ] {
        let reports = [("east", 4, east), ("west", 4, west)];
        assert_eq!(health_of(resource, &["east", "west"], &reports), expected, "{resource} {reports:?}");
    }
}
