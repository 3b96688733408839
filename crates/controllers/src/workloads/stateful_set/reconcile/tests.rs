//! Cases with their plans; and a random simulation in which the order is always kept.

mod simulation;

use std::collections::BTreeMap;

use atoll_informer::resources;
use serde_json::json;

use super::*;
use crate::workloads::history::{self, HASH_LABEL};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanos: 0 };

fn set(replicas: i64) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "set", "generation": 1},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "podManagementPolicy": "OrderedReady",
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "one"}]},
            },
        },
    })
}

fn revision(set: &Value) -> Value {
    let data = history::snapshot(set);
    let hash = history::hash(&data, Some(0));
    history::revision(set, &resources::STATEFUL_SETS, data, 1, HASH_LABEL, &hash)
}

/// Returns a pod in a state: the letter of its phase, `*` ready, `!` being deleted.
fn pod(set: &Value, revision: &Value, ordinal: i64, state: &str) -> Arc<Value> {
    let mut pod = new_pod(set, &template_of(revision), object::name(revision), ordinal);
    object::set_uid(&mut pod, &format!("pod-{ordinal}"));
    let phase = match state.chars().next() {
        Some('R') => "Running",
        Some('F') => "Failed",
        Some('S') => "Succeeded",
        _ => "Pending",
    };
    let ready = if state.contains('*') { "True" } else { "False" };
    let since = Timestamp::new(NOW.seconds - 10, 0).to_time();
    pod["status"] = json!({
        "phase": phase,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}],
    });
    if state.contains('!') {
        object::set_deletion_timestamp(&mut pod, &NOW.to_time());
    }
    Arc::new(pod)
}

/// Describes a plan: `+2` creates a pod, `-2` deletes it, `~2` replaces it, `=2` repairs it, `c2` creates its
/// claims, `o2` changes their owners. Phases are separated by `|`.
fn describe(plan: &Plan) -> String {
    let number = |pod: &Value| ordinal(pod).map_or("?".into(), |ordinal| ordinal.to_string());
    let step = |step: &PodStep| match step {
        PodStep::Create(pod, _) => format!("+{}", number(pod)),
        PodStep::CreateClaims(pod, _) => format!("c{}", number(pod)),
        PodStep::Update(pod, _) => format!("={}", number(pod)),
        PodStep::UpdateClaimOwners(pod, _) => format!("o{}", number(pod)),
        PodStep::Delete(pod) => format!("-{}", number(pod)),
    };
    let phases =
        plan.phases.iter().map(|phase| phase.iter().flatten().map(step).collect::<Vec<_>>().join(" "));
    let outdated = plan.outdated.as_ref().map(|pod| format!("~{}", number(pod)));
    phases.chain(outdated).collect::<Vec<_>>().join(" | ")
}

fn plan(set: &Value, pods: &[Arc<Value>], current: &Value, update: &Value) -> Plan {
    plan_with(set, pods, current, update, &BTreeMap::new())
}

fn plan_with(
    set: &Value,
    pods: &[Arc<Value>],
    current: &Value,
    update: &Value,
    claims: &BTreeMap<String, Arc<Value>>,
) -> Plan {
    let claims = |name: &str| claims.get(name).cloned();
    reconcile(&Observed { set, pods, current, update, collisions: 0, claims: &claims, now: NOW })
}

/// `states` are those of the pods from ordinal 0; `-` is none.
fn next(set: &Value, states: &str) -> String {
    let revision = revision(set);
    let pods: Vec<_> = states
        .split_whitespace()
        .zip(0..)
        .filter(|(state, _)| *state != "-")
        .map(|(state, ordinal)| pod(set, &revision, ordinal, state))
        .collect();
    describe(&plan(set, &pods, &revision, &revision))
}

#[test]
fn ordered_pod_management() {
    // replicas, states, expected plan
    for (replicas, states, expected) in [
        (3, "", "+0"),
        (3, "P", ""),
        (3, "R", ""),
        (3, "R*", "+1"),
        (3, "R* P", ""),
        (3, "R* R*", "+2"),
        (3, "R* R* R*", ""),
        (3, "R* - R*", "+1"),
        (3, "- R* R*", "+0"),
        (3, "R*! R* R*", ""),
        (3, "F R* R*", "-0"),
        (3, "S R* R*", "-0"),
        (3, "F! R* R*", ""),
        (3, "R* F R*", "-1"),
        (2, "R* R* R* R*", "-3"),
        (2, "R* R* R* R*!", ""),
        (2, "R* P R* R*", ""),
        (2, "R* R* P R*", "-3"),
        (2, "R* R* R* P", "-3"),
        (2, "R* R* P P", ""),
        (2, "R* R* R*! P", ""),
        (0, "R* R*", "-1"),
        (0, "P", "-0"),
        (0, "", ""),
    ] {
        assert_eq!(next(&set(replicas), states), expected, "{replicas} of {states:?}");
    }
}

#[test]
fn parallel_pod_management() {
    for (replicas, states, expected) in [
        (3, "", "+0 +1 +2"),
        (3, "P", "+1 +2"),
        (3, "R* F", "-1 +2"),
        (3, "R* R*! P", ""),
        (1, "P R* P", "-2 -1"),
        (1, "R* R*! R*", "-2"),
        (0, "R* F S", "-2 -1 -0"),
    ] {
        let mut set = set(replicas);
        set["spec"]["podManagementPolicy"] = "Parallel".into();
        assert_eq!(next(&set, states), expected, "{replicas} of {states:?}");
    }
}

#[test]
fn deleted_sets_are_not_changed() {
    let mut terminating = set(3);
    object::set_deletion_timestamp(&mut terminating, &NOW.to_time());
    assert_eq!(next(&terminating, "R* P"), "");
}

#[test]
fn pods_wait_for_their_predecessors() {
    let mut set = set(2);
    set["spec"]["minReadySeconds"] = 10.into();
    assert_eq!(next(&set, "R*"), "+1", "ready for ten seconds");
    set["spec"]["minReadySeconds"] = 11.into();
    assert_eq!(next(&set, "R*"), "");
}

#[test]
fn ordinals_start_as_specified() {
    let mut set = set(2);
    set["spec"]["ordinals"] = json!({"start": 1});
    assert_eq!(next(&set, ""), "+1");
    assert_eq!(next(&set, "- R*"), "+2");
    assert_eq!(next(&set, "R* R* R*"), "-0", "lower ordinals are deleted, too");
    assert_eq!(next(&set, "R* R* R* R*"), "-3", "the highest first");
}

/// `states` with an `n` have the new template.
fn updating(set: &Value, states: &str) -> Plan {
    let mut newer = set.clone();
    newer["spec"]["template"]["spec"]["containers"][0]["image"] = "two".into();
    let (current, update) = (revision(set), revision(&newer));
    let pods: Vec<_> = states
        .split_whitespace()
        .zip(0..)
        .filter(|(state, _)| *state != "-")
        .map(|(state, ordinal)| {
            let of = if state.contains('n') { &update } else { &current };
            pod(&newer, of, ordinal, state)
        })
        .collect();
    plan(&newer, &pods, &current, &update)
}

#[test]
fn updates_go_from_the_last_to_the_first() {
    for (partition, states, expected) in [
        (0, "R* R* R*", "~2"),
        (0, "R* R* R*!", ""),
        (0, "R* R* -", "+2"),
        (0, "R* R* Pn", ""),
        (0, "R* R* R*n", "~1"),
        (0, "R*n R*n R*n", ""),
        (0, "R* P R*n", ""),
        (1, "R* R*n R*n", ""),
        (1, "R* R* R*n", "~1"),
        (9, "R* R* R*", ""),
    ] {
        let mut set = set(3);
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = partition.into();
        assert_eq!(describe(&updating(&set, states)), expected, "from {partition}: {states:?}");
    }
    let mut manual = set(3);
    manual["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    assert_eq!(describe(&updating(&manual, "R* R* R*")), "", "OnDelete replaces only deleted pods");
    let mut parallel = set(3);
    parallel["spec"]["podManagementPolicy"] = "Parallel".into();
    assert_eq!(describe(&updating(&parallel, "P R* R*")), "~2", "regardless of the other pods");
    assert_eq!(describe(&updating(&parallel, "R* R* Pn")), "");
}

#[test]
fn new_pods_have_the_revision_of_their_ordinal() {
    let mut set = set(3);
    set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 2.into();
    let image = |states: &str| match &updating(&set, states).phases[0][0][0] {
        PodStep::Create(pod, _) => pod["spec"]["containers"][0]["image"].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(image("- R* R*n"), "one");
    assert_eq!(image("R* R* -"), "two");
}

#[test]
fn identities_are_repaired() {
    let set = set(1);
    let revision = revision(&set);
    let mut lost = pod(&set, &revision, 0, "R*").as_ref().clone();
    object::remove_label(&mut lost, "statefulset.kubernetes.io/pod-name");
    let plan = plan(&set, &[Arc::new(lost)], &revision, &revision);
    assert_eq!(describe(&plan), "=0");
}

#[test]
fn claims_are_created_with_their_pods() {
    let mut set = set(1);
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let revision = revision(&set);
    let made = |claims: &BTreeMap<String, Arc<Value>>| {
        plan_with(&set, &[], &revision, &revision, claims).phases[0][0][0].clone()
    };
    let PodStep::Create(_, claims) = made(&BTreeMap::new()) else { panic!("a pod") };
    assert_eq!(claims.create.iter().map(object::name).collect::<Vec<_>>(), ["data-web-0"]);
    let existing = json!({"metadata": {"name": "data-web-0", "uid": "c"}});
    let there = BTreeMap::from([("data-web-0".to_owned(), Arc::new(existing.clone()))]);
    let PodStep::Create(_, claims) = made(&there) else { panic!("a pod") };
    assert!(claims.is_empty());
    let mut terminating = existing;
    object::set_deletion_timestamp(&mut terminating, &NOW.to_time());
    let terminating = BTreeMap::from([("data-web-0".to_owned(), Arc::new(terminating))]);
    let PodStep::Create(_, claims) = made(&terminating) else { panic!("a pod") };
    assert_eq!(claims.terminating, ["data-web-0"]);
    let pending = [pod(&set, &revision, 0, "P")];
    assert_eq!(describe(&plan(&set, &pending, &revision, &revision)), "c0", "missing claims");
    let there = plan_with(&set, &pending, &revision, &revision, &there);
    assert_eq!(describe(&there), "");
}

#[test]
fn claims_of_surplus_pods_are_owned_by_them() {
    let mut set = set(1);
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    let revision = revision(&set);
    let pods = [pod(&set, &revision, 0, "R*"), pod(&set, &revision, 1, "R*")];
    let claim = |ordinal: i64| {
        let name = format!("data-web-{ordinal}");
        (name.clone(), Arc::new(json!({"metadata": {"name": name}})))
    };
    let claims = BTreeMap::from([claim(0), claim(1)]);
    let plan = plan_with(&set, &pods, &revision, &revision, &claims);
    assert_eq!(describe(&plan), "o1 | -1");
}

#[test]
fn counts_for_the_status() {
    let observed = |states: &str| {
        let plan = updating(&set(3), states);
        let c = plan.status;
        (c.replicas, c.ready, c.available, c.current, c.updated)
    };
    assert_eq!(observed("R* R* R*"), (3, 3, 3, 3, 0));
    assert_eq!(observed("R* P R*n"), (3, 2, 2, 2, 1));
    assert_eq!(observed("R* R*! R*n"), (3, 3, 3, 1, 1), "terminating pods have no revision");
    assert_eq!(observed("R* R* R* R*"), (4, 4, 4, 4, 0));
}

#[test]
fn updates_end_when_all_are_new_and_ready() {
    let (set, counts) = (set(2), Counts { replicas: 2, ready: 2, available: 2, current: 0, updated: 2 });
    let mut newer = set.clone();
    newer["spec"]["template"]["spec"]["containers"][0]["image"] = "two".into();
    let (current, update) = (revision(&set), revision(&newer));
    let claims = |_: &str| None;
    let observed = Observed {
        set: &newer,
        pods: &[],
        current: &current,
        update: &update,
        collisions: 0,
        claims: &claims,
        now: NOW,
    };
    let done = status(&observed, counts);
    assert_eq!((&done["currentRevision"], &done["currentReplicas"]), (&done["updateRevision"], &json!(2)));
    let waiting = status(&observed, Counts { ready: 1, ..counts });
    assert_eq!(waiting["currentRevision"], *object::name(&current));
    assert_eq!(waiting.get("currentReplicas"), None, "zero is omitted");
    assert_eq!(waiting["collisionCount"], 0);
}

#[test]
fn unchanged_statuses_are_not_written() {
    let status = json!({"observedGeneration": 2, "replicas": 1, "updateRevision": "r"});
    let with = |status: Value| json!({"status": status});
    assert!(!differs(&with(status.clone()), &status));
    assert!(differs(&with(json!({"observedGeneration": 1, "replicas": 1, "updateRevision": "r"})), &status));
    assert!(differs(&with(json!({"observedGeneration": 2, "replicas": 2, "updateRevision": "r"})), &status));
    assert!(differs(&with(json!({"observedGeneration": 2, "replicas": 1, "updateRevision": "q"})), &status));
    assert!(differs(&with(Value::Null), &status));
}

#[test]
fn the_number_of_replicas_does_not_determine_the_size_of_a_plan() {
    let mut huge = set(i64::from(i32::MAX));
    let current = revision(&huge);
    assert_eq!(describe(&plan(&huge, &[], &current, &current)), "+0");
    let existing = [0, 2, i64::from(i32::MAX) - 1].map(|ordinal| pod(&huge, &current, ordinal, "R*"));
    assert_eq!(describe(&plan(&huge, &existing, &current, &current)), "+1");
    huge["spec"]["podManagementPolicy"] = "Parallel".into();
    let created = |existing: &[Arc<Value>]| {
        let plan = plan(&huge, existing, &current, &current);
        let steps = plan.phases.into_iter().flatten().flatten();
        let ordinals = steps.map(|step| match step {
            PodStep::Create(pod, _) => ordinal(&pod).unwrap(),
            other => panic!("{other:?}"),
        });
        ordinals.collect::<Vec<_>>()
    };
    assert!(created(&[]).into_iter().eq(0..500));
    assert!(created(&existing).into_iter().eq([1].into_iter().chain(3..502)));
}

#[test]
fn an_update_waits_for_pods_that_are_not_planned_yet() {
    let mut large = set(1000);
    let current = revision(&large);
    large["spec"]["podManagementPolicy"] = "Parallel".into();
    large["spec"]["template"]["spec"]["containers"][0]["image"] = "two".into();
    let update = revision(&large);
    let highest = [pod(&large, &current, 999, "R*")];
    assert_eq!(plan(&large, &highest, &current, &update).outdated, None);
}
