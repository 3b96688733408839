use serde_json::json;

use super::*;

const START: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::new(START + second, 0)
}

/// Returns a pod that has been ready for an hour, with changes.
fn pod(number: usize, changes: &Value) -> Arc<Value> {
    let mut pod = json!({
        "metadata": {"name": format!("p{number}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {
            "phase": "Running",
            "startTime": at(-3600).to_time(),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(-3500).to_time()}],
        },
    });
    for (path, value) in changes.as_object().into_iter().flatten() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    Arc::new(pod)
}

fn pods(count: usize) -> Vec<Arc<Value>> {
    (0..count).map(|number| pod(number, &json!({}))).collect()
}

fn samples(values: &[i64]) -> Samples {
    let sample = |value: &i64| Sample { value: *value, at: at(-10), window: Duration::from_secs(30) };
    values.iter().enumerate().map(|(number, value)| (format!("p{number}"), sample(value))).collect()
}

fn calculator(pods: &[Arc<Value>], current: i64) -> ReplicaCalculator<'_> {
    ReplicaCalculator {
        pods,
        current,
        tolerance: Tolerance { down: 0.1, up: 0.1 },
        start: StartupDelays {
            initialization: Duration::from_secs(300),
            readiness_delay: Duration::from_secs(30),
        },
        now: at(0),
    }
}

#[test]
fn replicas_follow_utilization() {
    let unready = json!({"/status/conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": at(-3590).to_time()}]});
    let pending = json!({"/status/phase": "Pending"});
    let terminating = json!({"/metadata/deletionTimestamp": at(-5).to_time()});
    let with = |count: usize, changes: &Value| {
        let mut all = pods(count);
        all.push(pod(count, changes));
        all
    };
    // Usage of each pod, target utilization, and result.
    for (what, pods, used, target, expected) in [
        ("more", pods(3), vec![300, 500, 700], 30, Ok((5, 50, 500))),
        ("as wanted", pods(3), vec![300, 300, 310], 30, Ok((3, 30, 303))),
        ("less", pods(5), vec![100, 300, 500, 250, 250], 50, Ok((3, 28, 280))),
        ("more, one starting", with(2, &unready), vec![600, 600, 0], 30, Ok((4, 60, 600))),
        ("more, one pending", with(2, &pending), vec![600, 600], 30, Ok((4, 60, 600))),
        ("less, one pending", with(3, &pending), vec![100, 100, 100], 50, Ok((1, 10, 100))),
        ("more, one going", with(2, &terminating), vec![600, 600, 900], 30, Ok((4, 60, 600))),
        ("more, one missing", pods(4), vec![600, 600, 600], 30, Ok((6, 60, 600))),
        ("less, one missing", pods(4), vec![200, 200, 200], 40, Ok((4, 20, 200))),
        ("much less, many missing", pods(10), vec![10; 7], 90, Ok((4, 1, 10))),
        ("nothing", pods(2), vec![], 30, Err(NO_SAMPLES)),
        ("no pods", vec![], vec![100], 30, Err(NO_PODS)),
    ] {
        let current = i64::try_from(pods.len()).unwrap();
        let found = calculator(&pods, current).by_utilization(samples(&used), target, "cpu", "");
        assert_eq!(found, expected.map_err(String::from), "{what}");
    }
}

#[test]
fn replicas_follow_average_values() {
    for (what, used, target, expected) in [
        ("more", vec![10_000, 20_000, 30_000], 10_000, (6, 20_000)),
        ("less", vec![5_000, 5_000, 5_000], 10_000, (2, 5_000)),
        ("as wanted", vec![10_000, 10_500, 10_200], 10_000, (3, 10_233)),
        ("more, one missing", vec![30_000, 30_000], 10_000, (6, 30_000)),
        ("less, one missing", vec![1_000, 1_000], 10_000, (2, 1_000)),
    ] {
        let pods = pods(3);
        assert_eq!(calculator(&pods, 3).by_average(samples(&used), target, "").unwrap(), expected, "{what}");
    }
}

#[test]
fn replicas_follow_object_and_external_values() {
    let pods = pods(3);
    let three = calculator(&pods, 3);
    assert_eq!(three.by_value(20_000, 10_000), Ok(6));
    assert_eq!(three.by_value(10_500, 10_000), Ok(3), "within tolerance");
    assert_eq!(
        calculator(&[], 3).by_value(20_000, 10_000),
        Err(format!("unable to calculate ready pods: {NO_PODS}"))
    );
    assert_eq!(calculator(&[], 0).by_value(20_500, 10_000), Ok(3), "from zero");
    assert_eq!(three.by_average_of_total(9_000, 2_000, 3), (5, 3_000));
    assert_eq!(three.by_average_of_total(6_100, 2_000, 3), (3, 2_034), "within tolerance");
}

#[test]
fn missing_requests_are_errors() {
    let two = json!([{"name": "a", "resources": {"requests": {"cpu": "500m"}}}, {"name": "b"}]);
    let both = [pod(0, &json!({"/spec/containers": two}))];
    let pod_level =
        [pod(0, &json!({"/spec/containers": two, "/spec/resources": {"requests": {"cpu": "2"}}}))];
    for (pods, container, expected) in [
        (&both, "", Err("missing request for cpu in container b of Pod p0")),
        (&both, "a", Ok(500)),
        (&both, "x", Err("container x not found in Pod p0")),
        (&pod_level, "", Ok(2000)),
        (&pod_level, "a", Ok(500)),
    ] {
        let found = requests(pods, container, "cpu").map(|found| found["p0"]);
        assert_eq!(found, expected.map_err(String::from), "{container}");
    }
}

#[test]
fn cpu_of_starting_pods_is_ignored() {
    let state = |started: i64, status: &str, changed: i64| {
        pod(
            0,
            &json!({
                "/status/startTime": at(started).to_time(),
                "/status/conditions": [{"type": "Ready", "status": status, "lastTransitionTime": at(changed).to_time()}],
            }),
        )
    };
    // Samples are 10 seconds old, over a window of 30 seconds.
    for (what, pod, expected) in [
        ("ready for long", state(-3600, "True", -3500), false),
        ("just started, ready", state(-60, "True", -50), false),
        ("just started, ready just now", state(-60, "True", -30), true),
        ("just started, not ready", state(-60, "False", -50), true),
        ("never ready", state(-3600, "False", -3590), true),
        ("no longer ready", state(-3600, "False", -100), false),
    ] {
        let pods = [pod];
        let groups = calculator(&pods, 1).groups(&samples(&[100]), "cpu");
        assert_eq!(groups.unready.len(), usize::from(expected), "{what}");
        let groups = calculator(&pods, 1).groups(&samples(&[100]), "memory");
        assert_eq!(groups.ready, 1, "{what}: memory always counts");
    }
}
