use super::*;

const GRACE_PERIODS: GracePeriods =
    GracePeriods { monitor: Duration::from_secs(50), startup: Duration::from_secs(60) };
const START: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::new(START + second, 0)
}

fn node(ready: Option<(&str, i64)>) -> Value {
    let mut node = json!({"metadata": {"name": "n", "creationTimestamp": at(0).to_time()}, "status": {}});
    if let Some((status, heartbeat)) = ready {
        node["status"]["conditions"] = json!([
            {"type": "Ready", "status": status, "reason": "KubeletReady", "message": "ok",
             "lastHeartbeatTime": at(heartbeat).to_time(), "lastTransitionTime": at(0).to_time()},
            {"type": "NetworkUnavailable", "status": "False"},
        ]);
    }
    node
}

fn lease(second: i64) -> Value {
    json!({"spec": {"renewTime": at(second).to_micro_time()}})
}

#[test]
fn nodes_without_heartbeats_become_unknown() {
    // Each step: the second, the node's Ready status and heartbeat, its lease; then the resulting Ready
    // status.
    type Step = (i64, Option<(&'static str, i64)>, Option<i64>, Option<&'static str>);
    let cases: [(&str, &[Step]); 6] = [
        ("no heartbeat from the start", &[(59, None, None, None), (61, None, None, Some("Unknown"))]),
        ("old heartbeat at the start", &[(500, Some(("True", 0)), None, Some("True"))]),
        (
            "heartbeats",
            &[
                (0, Some(("True", 0)), None, Some("True")),
                (40, Some(("True", 40)), None, Some("True")),
                (90, Some(("True", 40)), None, Some("True")),
                (91, Some(("True", 40)), None, Some("Unknown")),
            ],
        ),
        (
            "leases alone",
            &[
                (0, Some(("True", 0)), Some(0), Some("True")),
                (40, Some(("True", 0)), Some(39), Some("True")),
                (80, Some(("True", 0)), Some(39), Some("True")),
                (91, Some(("True", 0)), Some(39), Some("Unknown")),
                (92, Some(("True", 92)), Some(39), Some("True")),
            ],
        ),
        ("leases before any status", &[(59, None, Some(59), None), (100, None, Some(99), None)]),
        (
            "not ready, then no heartbeats",
            &[(0, Some(("False", 0)), None, Some("False")), (51, Some(("False", 0)), None, Some("Unknown"))],
        ),
    ];
    for (what, steps) in cases {
        let mut health = None;
        for (second, state, renewed, expected) in steps {
            let lease = renewed.map(lease);
            let observation =
                observe(health.as_ref(), &node(*state), lease.as_ref(), at(*second), GRACE_PERIODS);
            assert_eq!(observation.ready.as_deref(), *expected, "{what} at {second}");
            assert_eq!(observation.unknown.is_some(), *expected == Some("Unknown"), "{what} at {second}");
            health = Some(observation.health);
        }
    }
}

#[test]
fn unknown_conditions_are_written() {
    let first = observe(None, &node(Some(("True", 0))), None, at(0), GRACE_PERIODS);
    let observation = observe(Some(&first.health), &node(Some(("True", 0))), None, at(60), GRACE_PERIODS);
    assert!(observation.was_ready);
    let unknown = observation.unknown.unwrap();
    let ready = conditions::find(&unknown, "Ready").unwrap();
    assert_eq!(
        *ready.json(),
        json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastHeartbeatTime": at(0).to_time(), "lastTransitionTime": at(60).to_time()})
    );
    let memory = conditions::find(&unknown, "MemoryPressure").unwrap();
    assert_eq!(
        *memory.json(),
        json!({"type": "MemoryPressure", "status": "Unknown", "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": at(0).to_time(), "lastTransitionTime": at(60).to_time()})
    );
    assert_eq!(conditions::find(&unknown, "NetworkUnavailable").unwrap().status(), "False");
    let again = observe(Some(&observation.health), &unknown, None, at(70), GRACE_PERIODS);
    assert!(again.unknown.is_none() && !again.was_ready, "they are written once");
}
