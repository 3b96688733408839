use serde_json::json;

use super::super::placement::bind_to_node;
use super::*;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanos: 0 };

fn set(rolling: Value) -> Value {
    json!({
        "metadata": {"name": "d", "namespace": "n", "uid": "set", "generation": 1},
        "spec": {
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}},
        },
    })
}

fn nodes(names: &str) -> Vec<Arc<Value>> {
    names.split_whitespace().map(|name| Arc::new(json!({"metadata": {"name": name}}))).collect()
}

/// Parses a pod: `one:R*n` runs on node `one`, is ready (`*`) and has the new template (`n`); `!` is being
/// deleted, `?` is not scheduled yet, a number is its age.
fn pod(text: &str, place: usize) -> Arc<Value> {
    let (node, state) = text.split_once(':').expect("node:state");
    let phase = match state.chars().next() {
        Some('R') => "Running",
        Some('F') => "Failed",
        Some('S') => "Succeeded",
        _ => "Pending",
    };
    let age: i64 = state.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(1);
    let since = Timestamp::new(NOW.seconds - age * 10, 0).to_time();
    let ready = if state.contains('*') { "True" } else { "False" };
    let hash = if state.contains('n') { "new" } else { "old" };
    let mut pod = json!({
        "metadata": {
            "name": format!("{node}-{place}"), "namespace": "n", "labels": {REVISION_LABEL: hash},
            "creationTimestamp": since,
        },
        "spec": {},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]},
    });
    match state.contains('?') {
        true => bind_to_node(&mut pod, node),
        false => pod["spec"]["nodeName"] = node.into(),
    }
    if state.contains('!') {
        object::set_deletion_timestamp(&mut pod, &NOW.to_time());
    }
    Arc::new(pod)
}

fn pods(texts: &str) -> Vec<Arc<Value>> {
    texts.split_whitespace().enumerate().map(|(place, text)| pod(text, place)).collect()
}

fn describe(changes: &Changes) -> String {
    let create = changes.create.iter().map(|node| format!("+{node}"));
    let delete = changes.delete.iter().map(|pod| format!("-{}", object::name(pod)));
    let failed = changes.failed.iter().map(|(_, pod)| format!("failed {}", object::name(pod)));
    let succeeded = changes.succeeded.iter().map(|(_, pod)| format!("succeeded {}", object::name(pod)));
    let mut all: Vec<String> = create.chain(delete).chain(failed).chain(succeeded).collect();
    all.sort_unstable();
    all.join(" ")
}

fn observed<T>(set: &Value, on: &str, texts: &str, ask: impl Fn(&Observed<'_>) -> T) -> T {
    let (nodes, pods) = (nodes(on), pods(texts));
    ask(&Observed { set, nodes: &nodes, pods: &pods, hash: "new", now: NOW })
}

#[test]
fn each_node_has_one_pod() {
    for (on, texts, expected) in [
        ("one two", "", "+one +two"),
        ("one two", "one:R*", "+two"),
        ("one two", "one:P? two:R", ""),
        ("one", "one:R*1 one:R*5", "-one-0"),
        ("one", "one:P?9 one:R*1", "-one-0"),
        ("one", "one:F", "failed one-0"),
        ("one", "one:S", "succeeded one-0"),
        ("one", "one:F!", "+one"),
        ("one", "one:R!", ""),
        ("one", "one:R two:R*", ""),
        ("one", "one:R two:P?", "-two-1"),
    ] {
        let done = observed(&set(json!({"maxUnavailable": 1, "maxSurge": 0})), on, texts, |observed| {
            describe(&manage(observed))
        });
        assert_eq!(done, expected, "{on}: {texts}");
    }
}

#[test]
fn pods_on_unsuitable_nodes_are_deleted() {
    let mut restricted = set(json!({"maxUnavailable": 1}));
    restricted["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "a"});
    assert_eq!(observed(&restricted, "one", "one:R*", |observed| describe(&manage(observed))), "-one-0");
    assert_eq!(observed(&restricted, "one", "one:R*!", |observed| describe(&manage(observed))), "");
    assert_eq!(observed(&restricted, "one", "", |observed| describe(&manage(observed))), "");
}

#[test]
fn updates_keep_pods_available() {
    for (most, texts, expected) in [
        (json!(1), "a:R* b:R* c:R*", "-a-0"),
        (json!(2), "a:R* b:R* c:R*", "-a-0 -b-1"),
        (json!("50%"), "a:R* b:R* c:R*", "-a-0 -b-1"),
        (json!("1%"), "a:R* b:R* c:R*", "-a-0"),
        (json!(1), "a:R*n b:R* c:R*", "-b-1"),
        (json!(1), "a:Rn b:R* c:R*", ""),
        (json!(1), "b:R* c:R*", ""),
        (json!(1), "a:R b:R* c:R*", "-a-0"),
        (json!(1), "a:R b:R c:R*", "-a-0 -b-1"),
        (json!(1), "a:R*! b:R* c:R*", ""),
        (json!(1), "a:R*n b:R*n c:R*n", ""),
        (json!(0), "a:R* b:R* c:R*", "-a-0"),
    ] {
        let set = set(json!({"maxUnavailable": most, "maxSurge": 0}));
        let done = observed(&set, "a b c", texts, |observed| describe(&rolling_update(observed)));
        assert_eq!(done, expected, "{most}: {texts}");
    }
    let mut manual = set(json!({"maxUnavailable": 1}));
    manual["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    assert_eq!(observed(&manual, "a", "a:R*", |observed| describe(&rolling_update(observed))), "");
}

#[test]
fn updates_may_surge() {
    for (most, texts, rolled, managed) in [
        (json!(1), "a:R* b:R* c:R*", "+a", ""),
        (json!(2), "a:R* b:R* c:R*", "+a +b", ""),
        (json!(1), "a:R* a:Rn b:R* c:R*", "", ""),
        (json!(1), "a:R* a:R*n b:R* c:R*", "+b -a-0", "-a-0"),
        (json!(1), "a:R a:Rn b:R* c:R*", "", "-a-0"),
        (json!(1), "a:R b:R* c:R*", "+a +b", ""),
        (json!(1), "a:R*n b:R*n c:R*n", "", ""),
        (json!(1), "a:R*! b:R*n c:R*n", "", "+a"),
        (json!(1), "a:R*3 a:R*2 a:Rn b:R*n c:R*n", "", "-a-1"),
    ] {
        let set = set(json!({"maxUnavailable": 0, "maxSurge": most}));
        let done = observed(&set, "a b c", texts, |observed| {
            (describe(&rolling_update(observed)), describe(&manage(observed)))
        });
        assert_eq!(done, (rolled.to_owned(), managed.to_owned()), "{most}: {texts}");
    }
}

#[test]
fn counts_for_the_status() {
    let set = set(json!({"maxUnavailable": 1}));
    let counted = |texts: &str| {
        let c = observed(&set, "a b c", texts, counts);
        (c.desired, c.current, c.misscheduled, c.ready, c.updated, c.available)
    };
    assert_eq!(counted(""), (3, 0, 0, 0, 0, 0));
    assert_eq!(counted("a:R*n b:R c:P?n"), (3, 3, 0, 1, 2, 1));
    assert_eq!(counted("a:R*n9 a:R1"), (3, 1, 0, 1, 1, 1), "the oldest pod counts");
    let mut restricted = set.clone();
    restricted["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "a"});
    let c = observed(&restricted, "a b", "a:R*", counts);
    assert_eq!((c.desired, c.misscheduled), (0, 1));
    let mut slow = set.clone();
    slow["spec"]["minReadySeconds"] = 11.into();
    let c = observed(&slow, "a", "a:R*", counts);
    assert_eq!((c.ready, c.available), (1, 0));
}

#[test]
fn unchanged_statuses_are_not_written() {
    let mut set = set(json!({}));
    let counts = Counts { desired: 2, current: 2, ready: 1, available: 1, updated: 2, misscheduled: 0 };
    let written = status(&set, counts).unwrap();
    let expected = json!({
        "currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2, "numberReady": 1,
        "observedGeneration": 1, "updatedNumberScheduled": 2, "numberAvailable": 1, "numberUnavailable": 1,
    });
    assert_eq!(written, expected);
    set["status"] = written;
    assert_eq!(status(&set, counts), None);
    let done = status(&set, Counts { ready: 2, available: 2, ..counts }).unwrap();
    assert_eq!(done.get("numberUnavailable"), None);
}

/// Property: from any state, with pods that start after their creation, an update ends and never exceeds
/// maxUnavailable.
#[test]
fn updates_end() {
    for (rolling, fewest, most) in [
        (json!({"maxUnavailable": 1, "maxSurge": 0}), 4, 5),
        (json!({"maxUnavailable": 2, "maxSurge": 0}), 3, 5),
        (json!({"maxUnavailable": 0, "maxSurge": 1}), 5, 6),
        (json!({"maxUnavailable": 0, "maxSurge": 3}), 5, 8),
    ] {
        let set = set(rolling.clone());
        let on = nodes("a b c d e");
        let mut all = pods("a:R*9 b:R*9 c:R*9 d:R*9 e:R*9");
        let mut made = all.len();
        for round in 0.. {
            let observed = Observed { set: &set, nodes: &on, pods: &all, hash: "new", now: NOW };
            let ready = all.iter().filter(|pod| is_ready(pod) && !object::is_being_deleted(pod)).count();
            assert!(ready >= fewest && all.len() <= most, "{rolling}: {ready} of {}", all.len());
            let mut changes = manage(&observed);
            if changes == Changes::default() {
                changes = rolling_update(&observed);
            }
            // Created pods start in the next round, and deleted ones are gone then.
            if changes == Changes::default() && all.iter().all(|pod| is_ready(pod)) {
                assert_eq!((all.len(), counts(&observed).updated), (5, 5), "{rolling}");
                break;
            }
            assert!(round < 100, "{rolling}: it goes on and on");
            let gone: Vec<&str> = changes.delete.iter().map(|pod| object::name(pod)).collect();
            let mut left: Vec<Arc<Value>> =
                all.iter().filter(|pod| !gone.contains(&object::name(pod))).cloned().collect();
            for pod in &mut left {
                if !is_ready(pod) {
                    let mut started = pod.as_ref().clone();
                    started["status"]["conditions"][0]["status"] = "True".into();
                    *pod = Arc::new(started);
                }
            }
            for node in &changes.create {
                made += 1;
                left.push(pod(&format!("{node}:Rn1"), made));
            }
            all = left;
        }
    }
}
