use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::view::{PodRequests, PodUsage};
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

use super::super::usage::{ReplicaCalculator, Sample, Samples, StartupDelays};
use super::*;

const TOLERANCE: Tolerance = Tolerance { down: 0.1, up: 0.1 };

fn current(replicas: i64) -> CurrentReplicas {
    CurrentReplicas { replicas, copies: 1, is_moving: false, tolerance: TOLERANCE }
}

/// A share whose ready pods request 200m and use some millicores each, as far as they were measured.
fn share(cluster: &str, total: i64, ready: i64, measured: i64, millicores: i64) -> SharePods {
    let usage = PodUsage {
        cpu: format!("{}m", millicores * measured),
        memory: "0".into(),
        pods: measured,
        requests: PodRequests { cpu: Some(format!("{}m", 200 * measured)), memory: None },
    };
    let reported = PodCounts { total, ready, usage: (measured > 0).then_some(usage), ..PodCounts::default() };
    SharePods { cluster: cluster.into(), replicas: total, reported: Ok(reported) }
}

fn lost(cluster: &str, replicas: i64) -> SharePods {
    SharePods { cluster: cluster.into(), replicas, reported: Err("is not ready".into()) }
}

fn needed(shares: &[SharePods], current: CurrentReplicas) -> Result<(i64, i64), String> {
    let (replicas, part, _) = MergedPods::of(shares, "cpu").by_utilization(80, "cpu", current)?;
    Ok((replicas, part))
}

#[test]
fn utilization_is_that_of_all_clusters() {
    for (shares, replicas, expected) in [
        // 80% of 200m is 160m.
        (vec![share("a", 2, 2, 2, 160), share("b", 2, 2, 2, 160)], 4, (4, 80)),
        (vec![share("a", 2, 2, 2, 320), share("b", 2, 2, 2, 160)], 4, (6, 120)),
        (vec![share("a", 2, 2, 2, 320), share("b", 2, 2, 2, 320)], 4, (8, 160)),
        (vec![share("a", 2, 2, 2, 40), share("b", 2, 2, 2, 40)], 4, (1, 20)),
        // Within the tolerance.
        (vec![share("a", 2, 2, 2, 172), share("b", 2, 2, 2, 160)], 4, (4, 83)),
        // Pods without a measurement use nothing if more are needed, and their full request if fewer are.
        (vec![share("a", 2, 2, 2, 320), share("b", 2, 2, 0, 0)], 4, (4, 160)),
        (vec![share("a", 2, 2, 2, 40), share("b", 2, 2, 0, 0)], 4, (3, 20)),
        (vec![share("a", 2, 2, 2, 400), lost("b", 2)], 4, (5, 200)),
        (vec![share("a", 2, 2, 2, 40), lost("b", 2)], 4, (3, 20)),
        // Pods that start do not count twice.
        (vec![share("a", 4, 2, 2, 320)], 4, (4, 160)),
        (vec![share("a", 4, 2, 2, 40)], 4, (1, 20)),
    ] {
        assert_eq!(needed(&shares, current(replicas)), Ok(expected), "{shares:?}");
    }
}

#[test]
fn moves_and_copies_do_not_multiply_replicas() {
    let both = |millicores| vec![share("a", 4, 4, 4, millicores), share("b", 4, 4, 4, millicores)];
    let moving = CurrentReplicas { is_moving: true, ..current(4) };
    let copied = CurrentReplicas { copies: 2, ..current(4) };
    for (shares, current, expected) in [
        (both(80), moving, 4),
        (both(320), moving, 8),
        (both(160), moving, 4),
        (both(160), copied, 4),
        (both(320), copied, 8),
        (both(80), copied, 2),
    ] {
        assert_eq!(needed(&shares, current).map(|(replicas, _)| replicas), Ok(expected), "{current:?}");
    }
}

#[test]
fn averages_need_no_requests() {
    let shares = [share("a", 2, 2, 2, 300), share("b", 1, 1, 1, 300)];
    assert_eq!(MergedPods::of(&shares, "cpu").by_average(100, current(3)), Ok((9, 300)));
}

#[test]
fn missing_metrics_are_errors() {
    let mut without_requests = share("a", 2, 2, 2, 100);
    if let Ok(PodCounts { usage: Some(usage), .. }) = &mut without_requests.reported {
        usage.requests = PodRequests::default();
    }
    let nothing = "no cluster reports usage of the target's pods";
    for (shares, expected) in [
        (
            vec![lost("a", 2), share("b", 1, 1, 0, 0)],
            format!("{nothing}: a is not ready, b reports no usage of pods"),
        ),
        (vec![share("b", 1, 0, 0, 0)], format!("{nothing}: b has no ready pods")),
        (Vec::new(), nothing.to_string()),
        (
            vec![without_requests, share("b", 1, 1, 1, 100)],
            "missing request for cpu in the target's pods".to_string(),
        ),
    ] {
        assert_eq!(needed(&shares, current(3)), Err(expected));
    }
    let memory = MergedPods::of(&[share("a", 2, 2, 2, 100)], "memory");
    assert_eq!(memory.by_utilization(80, "memory", current(2)).map_err(|_| ()), Err(()));
    assert_eq!(MergedPods::of(&[share("a", 2, 2, 2, 100)], "disk").measured, 0);
}

/// The calculation for single pods, which is compared with upstream.
fn by_pods(ready: i64, unready: i64, missing: i64, millicores: i64, replicas: i64) -> Option<i64> {
    let now = Timestamp::new(10_000, 0);
    let pod = |name: String, phase: &str| -> Arc<Value> {
        Arc::new(json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "name": "main", "resources": { "requests": { "cpu": "200m" } } }] },
            "status": {
                "phase": phase, "startTime": "1970-01-01T00:00:00Z",
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z" }],
            },
        }))
    };
    let mut pods: Vec<Arc<Value>> = (0..ready + missing).map(|n| pod(format!("r{n}"), "Running")).collect();
    pods.extend((0..unready).map(|n| pod(format!("u{n}"), "Pending")));
    let sample = Sample { value: millicores, at: now, window: Duration::from_secs(60) };
    let samples: Samples = (0..ready).map(|n| (format!("r{n}"), sample)).collect();
    let calculator = ReplicaCalculator {
        pods: &pods,
        current: replicas,
        tolerance: TOLERANCE,
        start: StartupDelays {
            initialization: Duration::from_secs(300),
            readiness_delay: Duration::from_secs(30),
        },
        now,
    };
    calculator.by_utilization(samples, 80, "cpu", "").ok().map(|(replicas, _, _)| replicas)
}

#[test]
fn equal_pods_need_as_many_replicas_as_in_one_cluster() {
    let mut compared = 0;
    for ready in 1..5 {
        for unready in 0..4 {
            for missing in 0..4 {
                for millicores in [0, 20, 100, 144, 150, 160, 175, 177, 240, 500, 900] {
                    let replicas = ready + unready + missing;
                    let shares = [
                        share("a", ready + unready, ready, ready, millicores),
                        share("b", missing, missing, 0, 0),
                    ];
                    let merged = needed(&shares, current(replicas)).map(|(replicas, _)| replicas).ok();
                    let single = by_pods(ready, unready, missing, millicores, replicas);
                    assert_eq!(merged, single, "{ready} {unready} {missing} {millicores}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 4 * 4 * 4 * 11);
}
