use serde_json::json;

use super::*;

#[test]
fn ports_are_found_by_name_and_protocol() {
    let pod = json!({"spec": {
        "containers": [{"ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}],
        "initContainers": [
            {"ports": [{"name": "once", "containerPort": 1, "protocol": "TCP"}]},
            {"restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 9, "protocol": "UDP"}]},
        ],
    }});
    for (target, protocol, expected) in [
        (json!(80), "TCP", Some(80)),
        (json!("web"), "TCP", Some(8080)),
        (json!("web"), "UDP", None),
        (json!("once"), "TCP", None),
        (json!("side"), "UDP", Some(9)),
        (json!("other"), "TCP", None),
    ] {
        let service = json!({"spec": {"ports": [{"targetPort": target, "protocol": protocol}]}});
        let targets = Targets::of(&service);
        let resolution = targets.resolve(&pod);
        let numbers: Vec<i64> = targets.ports(&resolution).map(|port| port.number).collect();
        assert_eq!(numbers, expected.into_iter().collect::<Vec<i64>>(), "{service}");
        assert_eq!(targets.count(&resolution), numbers.len(), "{service}");
    }
}

#[test]
fn addresses_are_canonical_and_of_one_family() {
    let pod = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "FD00:0::0001"}, {"ip": "no"}]}});
    assert_eq!(addresses(&pod, false), ["10.0.0.1"]);
    assert_eq!(addresses(&pod, true), ["fd00::1"]);
}

#[test]
fn pods_with_an_address_are_endpoints_until_they_finish() {
    let terminating = "2026-01-01T00:00:00Z";
    for (status, deleted, include_terminating, expected) in [
        (json!({"podIP": "10.0.0.1"}), None, false, true),
        (json!({"podIPs": [{"ip": "10.0.0.1"}]}), None, false, true),
        (json!({}), None, true, false),
        (json!({"podIP": "10.0.0.1", "phase": "Failed"}), None, true, false),
        (json!({"podIP": "10.0.0.1", "phase": "Succeeded"}), None, true, false),
        (json!({"podIP": "10.0.0.1"}), Some(terminating), true, true),
        (json!({"podIP": "10.0.0.1"}), Some(terminating), false, false),
    ] {
        let mut pod = json!({"metadata": {"name": "p"}, "status": status});
        if let Some(time) = deleted {
            object::set_deletion_timestamp(&mut pod, time);
        }
        assert_eq!(should_be_in_endpoints(&pod, include_terminating), expected, "{pod}");
    }
}

#[test]
fn changes_affect_services_that_select_the_pod_before_or_after() {
    let service = |value: &str| json!({"metadata": {"name": value}, "spec": {"selector": {"app": value}}});
    let pod = |app: &str, ready: &str, image: &str| {
        Some(Arc::new(json!({
            "metadata": {"name": "p", "labels": {"app": app}},
            "spec": {"image": image},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })))
    };
    for (what, old, new, a, b) in [
        ("created", None, pod("a", "False", "1"), true, false),
        ("deleted", pod("a", "False", "1"), None, true, false),
        ("becomes ready", pod("a", "False", "1"), pod("a", "True", "1"), true, false),
        ("changes its labels", pod("a", "True", "1"), pod("b", "True", "1"), true, true),
        ("something else", pod("a", "True", "1"), pod("a", "True", "2"), false, false),
    ] {
        let change = Change { key: Key::new("", "n", "p"), old, new };
        let affects = |name: &str| PodChange::of(&change).is_some_and(|it| it.affects(&service(name)));
        assert_eq!((affects("a"), affects("b")), (a, b), "{what}");
    }
}

#[test]
fn the_earliest_change_since_the_last_call_counts() {
    let triggers = TriggerTimeTracker::default();
    let key = Key::new("", "n", "s");
    let service = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
    let pod = |name: &str, time: &str| {
        let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": time});
        Arc::new(json!({"metadata": {"name": name}, "status": {"conditions": [condition]}}))
    };
    let (three, five, six) = ("2026-01-01T00:00:03Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:06Z");
    let call = |pods: &[Arc<Value>]| triggers.compute_trigger_time(&key, &service, pods);
    assert_eq!(call(&[pod("a", three)]).as_deref(), Some("2026-01-01T00:00:00Z"), "the first time");
    assert_eq!(call(&[pod("a", three)]), None, "no change");
    let both = [pod("a", six), pod("b", five)];
    assert_eq!(call(&both).as_deref(), Some(five));
    assert_eq!(call(&[pod("b", five)]), None, "deleted pods do not count");
}
