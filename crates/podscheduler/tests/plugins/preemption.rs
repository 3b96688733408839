//! Tests of preemption.

use serde_json::{Value, json};

use super::{TestCluster, requests};

fn pod(priority: i64, cpu: &str) -> Value {
    let mut pod = requests(json!({"cpu": cpu}));
    pod["spec"]["priority"] = priority.into();
    pod
}

type Outcome = Result<(String, Vec<String>), String>;

/// Returns the nominated node and the victims, or the message.
fn preempt(cluster: &mut TestCluster, special: &Value) -> Outcome {
    let pod = cluster.pod(special);
    let refusal = cluster.node_index.choose(&pod, &mut || 0).expect_err("there is no room");
    match refusal.preemption {
        Some(preemption) => {
            let mut victims: Vec<String> =
                preemption.victims.iter().map(|pod| pod.name.to_string()).collect();
            victims.sort();
            Ok((preemption.node.to_string(), victims))
        }
        None => Err(refusal.message.split("preemption: ").nth(1).unwrap_or_default().to_owned()),
    }
}

#[test]
fn fewest_and_least_important_victims_are_selected() {
    let nodes = [("a", json!({})), ("b", json!({}))];
    let none = || Err("0/2 nodes are available: 2 No preemption victims found for incoming pod.".to_owned());
    let gone = |node: &str, pods: &[usize]| {
        Ok((node.to_owned(), pods.iter().map(|pod| format!("pod-{pod}")).collect()))
    };
    // Existing Pods with node, priority and cpu; the Pod; the outcome.
    type Case<'a> = (&'a [(&'a str, i64, &'a str)], Value, Outcome);
    let table: [Case<'_>; 7] = [
        (&[("a", 5, "2"), ("b", 1, "2")], pod(10, "1"), gone("b", &[2])),
        (&[("a", 5, "2"), ("b", 10, "2")], pod(10, "1"), gone("a", &[1])),
        (&[("a", 10, "2"), ("b", 10, "2")], pod(10, "1"), none()),
        // One victim is enough, the less important one.
        (&[("a", 1, "1"), ("a", 2, "1"), ("b", 10, "2")], pod(10, "1"), gone("a", &[1])),
        (&[("a", 1, "1"), ("a", 2, "1"), ("b", 3, "2")], pod(10, "2"), gone("a", &[1, 2])),
        // Equal priorities: fewer victims.
        (&[("a", 1, "1"), ("a", 1, "1"), ("b", 1, "2")], pod(10, "2"), gone("b", &[3])),
        (
            &[("a", 1, "1"), ("b", 1, "1")],
            pod(10, "3"),
            Err("0/2 nodes are available: 2 Preemption is not helpful for scheduling.".to_owned()),
        ),
    ];
    for (placed, special, wanted) in table {
        let mut cluster = TestCluster::of(&nodes);
        for (node, priority, cpu) in placed {
            cluster.place(node, &pod(*priority, cpu));
        }
        assert_eq!(preempt(&mut cluster, &special), wanted, "{placed:?} {special}");
    }
}

#[test]
fn pods_that_must_not_preempt() {
    let mut cluster = TestCluster::of(&[("a", json!({}))]);
    cluster.place("a", &pod(1, "2"));
    let mut polite = pod(10, "1");
    polite["spec"]["preemptionPolicy"] = "Never".into();
    let refused = Err("not eligible due to preemptionPolicy=Never.".to_owned());
    assert_eq!(preempt(&mut cluster, &polite), refused);
    let mut patient = pod(10, "1");
    patient["status"]["nominatedNodeName"] = "a".into();
    assert!(preempt(&mut cluster, &patient).is_ok());
    let mut leaving = pod(1, "0");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    leaving["status"]["conditions"] =
        json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]);
    cluster.place("a", &leaving);
    let refused = Err("not eligible due to a terminating pod on the nominated node.".to_owned());
    assert_eq!(preempt(&mut cluster, &patient), refused);
}

#[test]
fn budgets_are_respected_where_possible() {
    let mut cluster = TestCluster::of(&[("a", json!({})), ("b", json!({}))]);
    let mut guarded = pod(1, "2");
    guarded["metadata"]["labels"] = json!({"app": "guarded"});
    cluster.place("a", &guarded);
    // More important, but without a budget.
    cluster.place("b", &pod(5, "2"));
    let budget = |allowed: i64| {
        json!({
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "guarded"}}},
            "status": {"disruptionsAllowed": allowed},
        })
    };
    cluster.node_index.budgets.set(&budget(0));
    assert_eq!(preempt(&mut cluster, &pod(10, "1")), Ok(("b".to_owned(), vec!["pod-2".to_owned()])));
    cluster.node_index.budgets.set(&budget(1));
    assert_eq!(preempt(&mut cluster, &pod(10, "1")), Ok(("a".to_owned(), vec!["pod-1".to_owned()])));
}

#[test]
fn room_for_nominated_pods_is_not_taken() {
    let mut cluster = TestCluster::of(&[("a", json!({}))]);
    let nominated = std::sync::Arc::new(cluster.pod(&pod(10, "2")));
    cluster.node_index.nominate(&nominated, Some(&"a".into()));
    assert_eq!(cluster.nodes_for(&pod(5, "1")), Err("1 Insufficient cpu.".to_owned()));
    assert_eq!(
        cluster.nodes_for(&pod(11, "1")),
        Ok("a".to_owned()),
        "a Pod of higher priority ignores the nomination"
    );
    assert!(
        cluster.node_index.choose(&nominated, &mut || 0).is_ok(),
        "a nominated Pod does not block itself"
    );
    cluster.node_index.nominate(&nominated, None);
    assert_eq!(cluster.nodes_for(&pod(5, "1")), Ok("a".to_owned()));
}

#[test]
fn anti_affinity_is_resolved_by_preemption() {
    let mut cluster = TestCluster::of(&[("a", json!({})), ("b", json!({}))]);
    let mut enemy = pod(1, "100m");
    enemy["metadata"]["labels"] = json!({"app": "enemy"});
    for node in ["a", "b"] {
        cluster.place(node, &enemy);
        cluster.place(node, &pod(1, "100m"));
    }
    let mut proud = pod(10, "100m");
    proud["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "enemy"}}}]);
    assert_eq!(preempt(&mut cluster, &proud), Ok(("a".to_owned(), vec!["pod-1".to_owned()])));
}
