use super::*;

const WINDOW: Duration = Duration::from_secs(300);

fn at(second: i64) -> Timestamp {
    Timestamp::new(1_800_000_000 + second, 0)
}

fn request(current: i64, desired: i64) -> ScaleRequest {
    ScaleRequest { current, desired, least: 2, most: 100 }
}

#[test]
fn default_limits_apply_without_rules() {
    // Each case has its own history, which started with the current count long ago.
    for (current, desired, expected, limited) in [
        (10, 15, 15, "DesiredWithinRange"),
        (10, 25, 20, "ScaleUpLimit"),
        (1, 9, 4, "ScaleUpLimit"),
        (60, 110, 100, "TooManyReplicas"),
        (10, 1, 2, "TooFewReplicas"),
        (10, 5, 5, "DesiredWithinRange"),
    ] {
        let mut history = History::default();
        history.record_initial_recommendation(current, at(-1000));
        let decision = history.normalize(request(current, desired), &Value::Null, WINDOW, at(0));
        assert_eq!((decision.replicas, decision.limited.1), (expected, limited), "{current} to {desired}");
        assert_eq!(decision.limited.0, expected != desired);
        assert_eq!(decision.able.0, "ReadyForNewScale");
    }
}

#[test]
fn the_highest_recent_recommendation_counts() {
    let mut history = History::default();
    history.record_initial_recommendation(5, at(0));
    for (second, desired, expected, able) in [
        (10, 3, 5, "ScaleDownStabilized"),
        (20, 8, 8, "ReadyForNewScale"),
        (30, 2, 8, "ScaleDownStabilized"),
        (319, 2, 8, "ScaleDownStabilized"),
        (321, 2, 2, "ReadyForNewScale"),
    ] {
        let decision = history.normalize(request(5, desired), &Value::Null, WINDOW, at(second));
        assert_eq!((decision.replicas, decision.able.0), (expected, able), "at {second}");
    }
}

#[test]
fn policies_limit_the_rate() {
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 60});
    let rules = |select: &str, policies: &[Value]| json!({"selectPolicy": select, "policies": policies, "stabilizationWindowSeconds": 0});
    let both = [policy("Pods", 4), policy("Percent", 50)];
    for (what, select, current, desired, done, expected, limited) in [
        ("the most", "Max", 20, 60, 0, 30, "ScaleUpLimit"),
        ("the least", "Min", 20, 60, 0, 24, "ScaleUpLimit"),
        ("not at all", "Disabled", 20, 60, 0, 20, "ScaleUpLimit"),
        ("some was done already", "Max", 20, 60, 5, 23, "ScaleUpLimit"),
        ("enough was done already", "Min", 20, 60, 5, 20, "ScaleUpLimit"),
        ("within", "Max", 20, 25, 0, 25, "DesiredWithinRange"),
        ("down the most", "Max", 20, 2, 0, 10, "ScaleDownLimit"),
        ("down the least", "Min", 20, 2, 0, 16, "ScaleDownLimit"),
        ("down not at all", "Disabled", 20, 2, 0, 20, "ScaleDownLimit"),
        ("down to the least of all", "Max", 4, 1, 0, 2, "TooFewReplicas"),
    ] {
        let behaviour = json!({"scaleUp": rules(select, &both), "scaleDown": rules(select, &both)});
        let mut history = History::default();
        if done > 0 {
            history.store_scale_event(&behaviour, current - done, current, at(-30));
        }
        let decision = history.normalize(request(current, desired), &behaviour, WINDOW, at(0));
        assert_eq!((decision.replicas, decision.limited.1), (expected, limited), "{what}");
    }
}

#[test]
fn stabilization_windows_apply() {
    let behaviour = json!({"scaleUp": {"stabilizationWindowSeconds": 60}, "scaleDown": {"stabilizationWindowSeconds": 120}});
    let mut history = History::default();
    history.record_initial_recommendation(10, at(0));
    for (second, desired, expected, able) in [
        (30, 14, 10, "ScaleUpStabilized"),
        (61, 16, 14, "ScaleUpStabilized"),
        (62, 6, 10, "ScaleDownStabilized"),
        (200, 6, 6, "ReadyForNewScale"),
    ] {
        let decision = history.normalize(request(10, desired), &behaviour, WINDOW, at(second));
        assert_eq!((decision.replicas, decision.able.0), (expected, able), "at {second}");
    }
}

#[test]
fn missing_rules_have_defaults() {
    let behaviour = json!({"scaleDown": {"selectPolicy": "Max"}});
    let mut history = History::default();
    assert_eq!(history.normalize(request(10, 90), &behaviour, WINDOW, at(0)).replicas, 20);
    assert_eq!(history.normalize(request(1, 90), &behaviour, WINDOW, at(0)).replicas, 5);
}
