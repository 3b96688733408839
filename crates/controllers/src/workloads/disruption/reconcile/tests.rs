use super::*;

const NOW: &str = "2026-01-01T00:10:00Z";

fn pod(name: &str, ready: bool) -> Arc<Value> {
    let state = if ready { "True" } else { "False" };
    Arc::new(json!({
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": state}]},
    }))
}

fn now() -> Timestamp {
    time::parse(NOW).unwrap()
}

fn budget(disrupted: &Value) -> Value {
    json!({"metadata": {"name": "b", "generation": 3}, "status": {"disruptedPods": disrupted}})
}

#[test]
fn surplus_healthy_pods_may_be_disrupted() {
    let pods = [pod("a", true), pod("b", true), pod("c", false)];
    for (expected, desired, allowed, reason) in [
        (3, 1, 1, "SufficientPods"),
        (3, 2, 0, "InsufficientPods"),
        (3, 3, 0, "InsufficientPods"),
        (0, 0, 0, "InsufficientPods"),
    ] {
        let outcome = reconcile(&budget(&json!({})), &pods, expected, desired, now());
        let updated = outcome.updated.unwrap();
        assert_eq!(
            updated["status"],
            json!({
                "observedGeneration": 3,
                "currentHealthy": 2,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "disruptionsAllowed": allowed,
                "conditions": [{
                    "type": "DisruptionAllowed",
                    "status": if allowed > 0 { "True" } else { "False" },
                    "reason": reason,
                    "message": "",
                    "observedGeneration": 3,
                    "lastTransitionTime": NOW,
                }],
            })
        );
        assert!(reconcile(&updated, &pods, expected, desired, now()).updated.is_none(), "no change");
    }
}

#[test]
fn disrupted_pods_are_not_healthy() {
    let mut terminating = pod("d", true).as_ref().clone();
    object::set_deletion_timestamp(&mut terminating, NOW);
    let pods = [pod("a", true), pod("b", true), pod("c", true), Arc::new(terminating)];
    let disrupted = json!({
        "a": "2026-01-01T00:09:00Z",
        "b": "2026-01-01T00:07:59Z",
        "d": "2026-01-01T00:09:00Z",
        "gone": "2026-01-01T00:09:00Z",
    });
    let outcome = reconcile(&budget(&disrupted), &pods, 4, 1, now());
    let status = &outcome.updated.unwrap()["status"];
    assert_eq!(status["disruptedPods"], json!({"a": "2026-01-01T00:09:00Z"}));
    assert_eq!((&status["currentHealthy"], &status["disruptionsAllowed"]), (&json!(2), &json!(1)));
    assert_eq!(outcome.recheck, Some(Duration::from_millis(60_001)));
    let late: Vec<&str> = outcome.not_deleted.iter().map(|pod| object::name(pod)).collect();
    assert_eq!(late, ["b"]);
}

#[test]
fn failed_syncs_allow_no_disruptions() {
    let counted = reconcile(&budget(&json!({})), &[pod("a", true)], 1, 0, now()).updated.unwrap();
    let failed_one = failed(&counted, "found no controllers for pod \"a\"", "2026-01-01T00:11:00Z").unwrap();
    let status = &failed_one["status"];
    assert_eq!((&status["disruptionsAllowed"], &status["currentHealthy"]), (&json!(0), &json!(1)));
    let condition = conditions::find(&failed_one, CONDITION).unwrap();
    assert_eq!((condition.status(), condition.reason()), ("False", "SyncFailed"));
    assert_eq!(condition.message(), "found no controllers for pod \"a\"");
    assert_eq!(condition.last_transition_time(), Some("2026-01-01T00:11:00Z"));
    assert!(failed(&failed_one, "found no controllers for pod \"a\"", "2026-01-01T00:12:00Z").is_none());
}
