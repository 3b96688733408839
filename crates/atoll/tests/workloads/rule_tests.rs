//! Tests of the rules: violations are found.

use serde_json::{Value, json};

use crate::history::{Event, History};
use crate::{cron_job, daemon_set, deployment, drain, job, stateful_set};

type Rules = fn(&History<'_>, bool) -> Vec<String>;
/// Rules, events, and a part of the expected violation. Empty if there is none.
type Case = (Rules, Vec<(&'static str, Value)>, &'static str);

/// Returns a Pod of an application in the state that `state` describes.
fn pod(app: &str, name: &str, state: &str) -> (&'static str, Value) {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": app, "pod-template-hash": "1"}}});
    for word in state.split(' ') {
        match word.split_once('=').unwrap_or((word, "")) {
            ("ready", _) => pod["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            ("going", _) => pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into(),
            ("gone", _) => pod["gone"] = true.into(),
            ("succeeded", _) => pod["status"]["phase"] = "Succeeded".into(),
            ("hash", hash) => pod["metadata"]["labels"]["pod-template-hash"] = hash.into(),
            ("revision", hash) => pod["metadata"]["labels"]["controller-revision-hash"] = hash.into(),
            ("bound", node) => pod["spec"]["nodeName"] = node.into(),
            ("index", index) => {
                pod["metadata"]["annotations"] = json!({"batch.kubernetes.io/job-completion-index": index});
            }
            ("job", name) => {
                pod["metadata"]["ownerReferences"] =
                    json!([{"kind": "Job", "name": name, "uid": name, "controller": true}]);
            }
            ("for", node) => {
                let fields =
                    json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
                pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!({"nodeSelectorTerms": fields});
            }
            other => panic!("{other:?}"),
        }
    }
    ("pods", pod)
}

/// Returns a complete Deployment.
fn rolling(replicas: i64) -> (&'static str, Value) {
    let counts = json!({
        "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
    });
    let metadata = json!({"name": "rolling", "generation": 1});
    ("deployments", json!({"metadata": metadata, "spec": {"replicas": replicas}, "status": counts}))
}

fn set(name: &str, replicas: i64) -> (&'static str, Value) {
    let owners = json!([{"kind": "Deployment", "name": "rolling", "uid": "r", "controller": true}]);
    let metadata = json!({"name": name, "ownerReferences": owners});
    ("replicasets", json!({"metadata": metadata, "spec": {"replicas": replicas}}))
}

fn db(replicas: i64, partition: i64) -> (&'static str, Value) {
    let strategy = json!({"rollingUpdate": {"partition": partition}});
    let spec = json!({"replicas": replicas, "updateStrategy": strategy});
    ("statefulsets", json!({"metadata": {"name": "db"}, "spec": spec, "status": {"updateRevision": "new"}}))
}

fn claim(name: &str) -> (&'static str, Value) {
    ("persistentvolumeclaims", json!({"metadata": {"name": name}}))
}

fn named(resource: &'static str, name: &str, rest: Value) -> (&'static str, Value) {
    let mut object = rest;
    object["metadata"]["name"] = name.into();
    (resource, object)
}

#[test]
fn rules_report_violations() {
    let with = |more: Vec<(&'static str, Value)>| {
        let pods = (0..4).map(|number| pod("rolling", &format!("p{number}"), "ready"));
        pods.chain([set("a", 4), rolling(4)]).chain(more).collect::<Vec<_>>()
    };
    let jobs = |parallelism: i64| {
        named("jobs", "j", json!({"spec": {"parallelism": parallelism, "completions": 1}}))
    };
    let agents = json!({"metadata": {"generation": 1}, "status": {
        "observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
        "updatedNumberScheduled": 1, "numberAvailable": 1,
    }});
    let budget = || named("poddisruptionbudgets", "kept", json!({"status": {"currentHealthy": 3}}));
    let kept = |names: &[&str]| names.iter().map(|name| pod("kept", name, "ready")).collect::<Vec<_>>();
    let cases: Vec<Case> = vec![
        (deployment::rules, with(vec![pod("rolling", "p4", "ready")]), ""),
        (
            deployment::rules,
            with(vec![pod("rolling", "p4", "ready"), pod("rolling", "p5", "ready")]),
            "there were 6 pods",
        ),
        (deployment::rules, with(vec![set("b", 2)]), "were to have 6"),
        (deployment::rules, with(vec![pod("rolling", "p0", "going")]), ""),
        (
            deployment::rules,
            with(vec![pod("rolling", "p0", "going"), pod("rolling", "p1", "going")]),
            "2 pods were available",
        ),
        (deployment::rules, vec![pod("anew", "a", "hash=1"), pod("anew", "b", "hash=2")], "another version"),
        (
            deployment::rules,
            vec![pod("anew", "a", "hash=1"), pod("anew", "a", "gone"), pod("anew", "b", "hash=2")],
            "",
        ),
        (
            stateful_set::rules,
            vec![
                db(2, 0),
                claim("data-db-0"),
                pod("db", "db-0", "ready"),
                claim("data-db-1"),
                pod("db", "db-1", "ready"),
            ],
            "",
        ),
        (
            stateful_set::rules,
            vec![
                db(2, 0),
                claim("data-db-0"),
                pod("db", "db-0", "hash=1"),
                claim("data-db-1"),
                pod("db", "db-1", "hash=1"),
            ],
            "db-0 was not ready",
        ),
        (stateful_set::rules, vec![db(2, 0), pod("db", "db-0", "ready")], "there was no data-db-0"),
        (
            stateful_set::rules,
            vec![
                pod("db", "db-0", "ready"),
                pod("db", "db-1", "ready"),
                db(0, 0),
                pod("db", "db-0", "going"),
            ],
            "still there",
        ),
        (
            stateful_set::rules,
            vec![pod("db", "db-0", "ready"), db(1, 1), pod("db", "db-0", "going")],
            "before the partition",
        ),
        (
            stateful_set::rules,
            vec![
                pod("db", "db-0", "ready"),
                pod("db", "db-1", "ready revision=old"),
                db(2, 0),
                pod("db", "db-0", "going"),
            ],
            "0 of 1",
        ),
        (
            stateful_set::rules,
            vec![
                pod("db", "db-0", "ready"),
                pod("db", "db-1", "ready revision=new"),
                db(2, 0),
                pod("db", "db-0", "going"),
            ],
            "",
        ),
        (
            daemon_set::rules,
            vec![
                pod("agent", "a", "ready for=n"),
                named("daemonsets", "agent", agents.clone()),
                pod("agent", "b", "for=n"),
            ],
            "there were 2 on",
        ),
        (
            daemon_set::rules,
            vec![
                pod("agent", "a", "ready for=n"),
                named("daemonsets", "agent", agents.clone()),
                pod("agent", "b", "for=m"),
            ],
            "",
        ),
        (job::rules, vec![jobs(1), pod("j", "a", "job=j"), pod("j", "b", "job=j")], "2 were active"),
        (job::rules, vec![jobs(1), pod("j", "a", "job=j going"), pod("j", "b", "job=j")], ""),
        (
            job::rules,
            vec![jobs(2), pod("j", "a", "job=j index=1"), pod("j", "b", "job=j index=1")],
            "with index 1",
        ),
        (
            job::rules,
            vec![jobs(2), pod("j", "a", "job=j succeeded"), pod("j", "b", "job=j succeeded")],
            "2 succeeded",
        ),
        (
            cron_job::rules,
            vec![named("jobs", "tick-1", json!({})), named("jobs", "tick-2", json!({}))],
            "were active at once",
        ),
        (drain::rules, [kept(&["a", "b", "c"]), vec![budget(), pod("kept", "a", "going")]].concat(), ""),
        (
            drain::rules,
            [kept(&["a", "b", "c"]), vec![budget(), pod("kept", "a", "going"), pod("kept", "b", "gone")]]
                .concat(),
            "1 were available",
        ),
        (
            drain::rules,
            [
                kept(&["a", "b", "c"]),
                vec![
                    budget(),
                    named("nodes", "drain-1", json!({"spec": {"unschedulable": true}})),
                    pod("kept", "d", "bound=drain-1"),
                ],
            ]
            .concat(),
            "was bound to a node",
        ),
    ];
    for (number, (rules, events, expected)) in cases.into_iter().enumerate() {
        let events: Vec<Event> = (1..)
            .zip(events)
            .map(|(revision, (resource, object))| Event {
                revision,
                resource,
                is_gone: object["gone"] == true,
                object,
            })
            .collect();
        let found = rules(&History(events.iter().collect()), false);
        match expected {
            "" => assert!(found.is_empty(), "{number}: {found:?}"),
            expected => assert!(found.iter().any(|found| found.contains(expected)), "{number}: {found:?}"),
        }
    }
}
