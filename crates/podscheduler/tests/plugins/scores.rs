//! Tests of scores.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{TestCluster, requests};

/// Returns the scores of all nodes.
fn points(cluster: &mut TestCluster, special: &Value) -> BTreeMap<String, i64> {
    let pod = cluster.pod(special);
    cluster.node_index.rank(&pod).into_iter().map(|(node, points)| (node.to_string(), points)).collect()
}

/// Returns the nodes with the highest score.
fn best(cluster: &mut TestCluster, special: &Value) -> String {
    let points = points(cluster, special);
    let most = points.values().max().copied().unwrap_or_default();
    let best: Vec<&str> =
        points.iter().filter(|(_, own)| **own == most).map(|(node, _)| node.as_str()).collect();
    best.join(" ")
}

fn zones() -> TestCluster {
    let zone = |zone: &str| json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
    TestCluster::of(&[("a1", zone("a")), ("a2", zone("a")), ("b1", zone("b"))])
}

fn app(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}})
}

#[test]
fn free_nodes_score_higher() {
    let mut cluster = zones();
    cluster.place("a1", &requests(json!({"cpu": "1"})));
    assert_eq!(best(&mut cluster, &json!({})), "a2 b1");
    // A Pod without requests counts with default requests.
    cluster.place("a2", &json!({}));
    assert_eq!(best(&mut cluster, &json!({})), "b1");
}

#[test]
fn scores_equal_those_of_kube_scheduler() {
    let mut cluster = TestCluster::of(&[("a", json!({})), ("b", json!({}))]);
    cluster.place("a", &requests(json!({"cpu": "1", "memory": "1Gi"})));
    // Least allocated: (25 + 50) / 2 and (75 + 75) / 2. Balanced allocation: it stays at 87, or at 100, which
    // is 75 both times. No taints: three times 100.
    let pod = requests(json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(
        points(&mut cluster, &pod),
        BTreeMap::from([("a".into(), 37 + 75 + 300), ("b".into(), 75 + 75 + 300)])
    );
}

#[test]
fn prefer_no_schedule_taints_lower_the_score() {
    let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}});
    let mut cluster = TestCluster::of(&[("a", tainted), ("b", json!({}))]);
    assert_eq!(best(&mut cluster, &json!({})), "b");
    assert_eq!(best(&mut cluster, &json!({"spec": {"tolerations": [{"operator": "Exists"}]}})), "a b");
}

#[test]
fn preferred_node_affinity_raises_the_score() {
    let mut cluster = zones();
    let preference = |zone: &str, weight: i64| {
        let expressions = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]);
        json!({"weight": weight, "preference": {"matchExpressions": expressions}})
    };
    let list = json!([preference("a", 10), preference("b", 11)]);
    let pod = json!({"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list}}}});
    assert_eq!(best(&mut cluster, &pod), "b1");
}

#[test]
fn default_spread_constraints() {
    let mut cluster = zones();
    let mut member = app("web");
    member["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
    cluster.place("a1", &app("web"));
    cluster.place("b1", &app("other"));
    cluster.place("a2", &app("other"));
    assert_eq!(best(&mut cluster, &member), "a1 a2 b1", "there is no selector yet");
    let set = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    cluster.node_index.workloads.set_workload("ReplicaSet", &set);
    assert_eq!(best(&mut cluster, &member), "b1");
    cluster.node_index.workloads.remove_workload("ReplicaSet", "default", "web");
    assert_eq!(best(&mut cluster, &member), "a1 a2 b1");
    let service =
        json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}});
    cluster.node_index.workloads.set_service(&service);
    assert_eq!(best(&mut cluster, &app("web")), "b1", "a Service says so, too");
    cluster.node_index.workloads.remove_service("default", "web");
    assert_eq!(best(&mut cluster, &app("web")), "a1 a2 b1");
}

#[test]
fn soft_spread_constraints() {
    let mut cluster = zones();
    cluster.place("a1", &app("web"));
    for node in ["a2", "b1"] {
        cluster.place(node, &app("other"));
    }
    let rule = json!({
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    assert_eq!(best(&mut cluster, &json!({"spec": {"topologySpreadConstraints": [rule]}})), "a2 b1");
}

#[test]
fn preferred_pod_affinity_and_anti_affinity() {
    let term = |name: &str| json!({"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": name}}});
    let wish = |kind: &str, name: &str| {
        let weighted = json!([{"weight": 100, "podAffinityTerm": term(name)}]);
        json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}})
    };
    let must = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("db")]}}});
    let with = |name: &str, spec: Value| json!({"metadata": {"labels": {"app": name}}, "spec": spec});
    // The Pod on a1 while others are on a2 and b1; the Pod; the best nodes.
    let table = [
        (app("db"), with("web", wish("podAffinity", "db")), "a1 a2"),
        (app("db"), with("web", wish("podAntiAffinity", "db")), "b1"),
        (with("db", wish("podAffinity", "web")), app("web"), "a1 a2"),
        (with("db", wish("podAntiAffinity", "web")), app("web"), "b1"),
        (with("db", must), app("db"), "a1 a2"),
    ];
    for (placed, pod, wanted) in table {
        let mut cluster = zones();
        cluster.place("a1", &placed);
        for node in ["a2", "b1"] {
            cluster.place(node, &app("other"));
        }
        assert_eq!(best(&mut cluster, &pod), wanted, "{placed} {pod}");
    }
}

#[test]
fn ties_are_broken_randomly() {
    let mut cluster = zones();
    let pod = cluster.pod(&json!({}));
    let mut chosen: Vec<String> = (0..3)
        .map(|number| cluster.node_index.choose(&pod, &mut || number).unwrap().node.to_string())
        .collect();
    chosen.sort();
    assert_eq!(chosen, ["a1", "a2", "b1"]);
}
