use serde_json::json;

use super::*;

fn with(faults: &[Fault]) -> Arc<FaultSet> {
    let all = Faults::default();
    for fault in faults {
        all.add(fault.clone()).expect("there is room");
    }
    all.now()
}

#[test]
fn faults_add_up() {
    let millis = Duration::from_millis;
    let slow = |latency, jitter| Fault::Slow { latency: millis(latency), jitter: millis(jitter) };
    let set = with(&[slow(200, 0), slow(50, 20), Fault::Lossy { rate: 0.5 }, Fault::Lossy { rate: 0.5 }]);
    assert_eq!((set.latency(), set.jitter()), (millis(250), millis(20)));
    assert!((set.loss() - 0.75).abs() < 1e-9);
    let skewed = with(&[Fault::ClockSkew { seconds: 300 }, Fault::ClockSkew { seconds: -60 }]);
    assert_eq!(skewed.skew(), 240);
    let without_faults = FaultSet::default();
    assert_eq!(
        (without_faults.latency(), without_faults.loss(), without_faults.skew(), without_faults.is_down()),
        (Duration::ZERO, 0.0, 0, false)
    );
}

#[test]
fn faults_apply_to_nodes_and_images() {
    let set = with(&[
        Fault::PartitionNodes { nodes: vec!["a".into(), "b".into()] },
        Fault::DeadNode { node: "c".into() },
        Fault::FullNode { node: "d".into() },
        Fault::CrashLoop { image: "*nginx*".into() },
        Fault::MissingApi { group: "batch".into(), version: "v1".into() },
        Fault::MissingApi { group: "apps".into(), version: "v1".into() },
    ]);
    for (node, cut, dead, full) in [
        ("a", true, false, false),
        ("c", false, true, false),
        ("d", false, false, true),
        ("e", false, false, false),
    ] {
        assert_eq!((set.cuts_node(node), set.is_dead(node), set.is_full(node)), (cut, dead, full), "{node}");
    }
    assert!(set.crashes("docker.io/nginx:1") && !set.crashes("redis"));
    assert!(!set.cuts_clients());
    let missing = set.missing();
    assert_eq!(missing.iter().map(|(group, _)| group.as_str()).collect::<Vec<_>>(), ["apps", "batch"]);
    assert!(with(&[Fault::DeadCluster]).is_dead("any"), "all nodes of a stopped cluster are stopped");
}

#[test]
fn changes_are_sent_to_subscribers() {
    let faults = Faults::default();
    let mut subscriber = faults.subscribe();
    let first = faults.add(Fault::DeadCluster).expect("there is room");
    let second = faults.add(Fault::PartitionClients).expect("there is room");
    assert!(subscriber.has_changed().expect("the sender exists"));
    assert!(subscriber.borrow_and_update().is_down());
    assert!(faults.remove(first) && !faults.remove(first));
    assert!(!subscriber.borrow_and_update().is_down());
    assert_eq!(faults.now().list(), [(second, Fault::PartitionClients)]);
    assert_eq!((faults.clear(), faults.clear()), (1, 0));
    assert!(faults.add(Fault::DeadCluster).expect("there is room") > second, "numbers are not reused");
    for _ in 1..MAX_FAULTS {
        faults.add(Fault::DeadCluster).expect("there is room");
    }
    assert_eq!(faults.add(Fault::DeadCluster), Err(TooMany));
}

#[test]
fn faults_round_trip_as_json() {
    for (text, shown) in [
        (json!({ "kind": "slow", "latency": "200ms" }), "slow by 200ms"),
        (json!({ "kind": "slow", "latency": "1s", "jitter": "500ms" }), "slow by 1s to 1.5s"),
        (json!({ "kind": "lossy", "rate": 0.2 }), "lossy: 20 of 100 connections, responses and events"),
        (json!({ "kind": "partition" }), "partition: clients disconnected"),
        (json!({ "kind": "partition", "nodes": ["a", "b"] }), "partition: a, b disconnected"),
        (json!({ "kind": "crash-loop", "image": "nginx*" }), "crash-loop of images like nginx*"),
        (json!({ "kind": "full-node", "node": "a" }), "full-node a"),
        (json!({ "kind": "dead-node", "node": "a" }), "dead-node a"),
        (json!({ "kind": "dead-cluster" }), "dead-cluster"),
        (json!({ "kind": "missing-api", "api": "batch/v1" }), "missing-api batch/v1"),
        (json!({ "kind": "missing-api", "api": "v1" }), "missing-api v1"),
        (json!({ "kind": "clock-skew", "skew": "+5m0s" }), "clock-skew +5m0s"),
        (json!({ "kind": "clock-skew", "skew": "-1m30s" }), "clock-skew -1m30s"),
    ] {
        let fault = Fault::from_json(&text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!(fault.to_json(), text);
        assert_eq!(fault.to_string(), shown);
    }
    for (text, problem) in [
        (json!({}), "kind: "),
        (json!({ "kind": "late" }), "kind: unknown fault \"late\""),
        (json!({ "kind": "slow" }), "latency: "),
        (json!({ "kind": "slow", "latency": "-1s" }), "latency: "),
        (json!({ "kind": "slow", "latency": "1h" }), "latency: "),
        (json!({ "kind": "slow", "latency": "1s", "jitter": "soon" }), "jitter: "),
        (json!({ "kind": "lossy" }), "rate: "),
        (json!({ "kind": "lossy", "rate": 0 }), "rate: "),
        (json!({ "kind": "lossy", "rate": 1.5 }), "rate: "),
        (json!({ "kind": "partition", "nodes": [] }), "nodes: "),
        (json!({ "kind": "crash-loop" }), "image: "),
        (json!({ "kind": "dead-node", "node": "" }), "node: "),
        (json!({ "kind": "missing-api" }), "api: "),
        (json!({ "kind": "clock-skew", "skew": "0s" }), "skew: "),
        (json!({ "kind": "clock-skew", "skew": "2562047h" }), "skew: "),
    ] {
        let error = Fault::from_json(&text).expect_err("an invalid fault");
        assert!(error.starts_with(problem), "{text}: {error}");
    }
}
