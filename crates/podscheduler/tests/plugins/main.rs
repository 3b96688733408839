//! Tests of filters with their messages, and of scores.

mod pods;
mod preemption;
mod scores;
mod volumes;

use std::sync::Arc;

use atoll_podscheduler::{Compiler, Node, NodeIndex, Pod, Unschedulable};
use serde_json::{Value, json};

/// A cluster under construction.
#[derive(Default)]
pub struct TestCluster {
    pub node_index: NodeIndex,
    pub compiler: Compiler,
    made: usize,
}

impl TestCluster {
    /// Creates nodes with names and special fields.
    pub fn of(nodes: &[(&str, Value)]) -> Self {
        let mut cluster = TestCluster::default();
        for (name, special) in nodes {
            let mut node = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {},
                "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
            });
            merge(&mut node, special);
            cluster.node_index.set_node(Node::of(&node));
        }
        cluster
    }

    pub fn pod(&mut self, special: &Value) -> Pod {
        self.made += 1;
        let name = format!("pod-{}", self.made);
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}]},
        });
        merge(&mut pod, special);
        self.compiler.compile(&pod)
    }

    /// Assigns a Pod to a node.
    pub fn place(&mut self, node: &str, special: &Value) -> Arc<Pod> {
        let mut pod = self.pod(special);
        pod.node = Some(node.into());
        let pod = Arc::new(pod);
        self.node_index.set_pod(pod.clone());
        pod
    }

    /// Returns the feasible nodes by name, or the message.
    pub fn nodes_for(&mut self, special: &Value) -> Result<String, String> {
        let pod = self.pod(special);
        match self.node_index.choose(&pod, &mut || 0) {
            Ok(_) => {
                let mut names: Vec<String> =
                    self.node_index.rank(&pod).iter().map(|(node, _)| node.to_string()).collect();
                names.sort();
                Ok(names.join(" "))
            }
            Err(refusal) => Err(reasons(&refusal)),
        }
    }
}

/// Returns the message without the preemption part.
fn reasons(refusal: &Unschedulable) -> String {
    let message = refusal.message.split(" no new claims").next().unwrap_or_default();
    message.split_once(": ").map_or(message, |(_, rest)| rest).to_owned()
}

/// Merges special fields.
pub fn merge(into: &mut Value, special: &Value) {
    match (into, special) {
        (Value::Object(into), Value::Object(special)) => {
            for (key, value) in special {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, special) => *into = special.clone(),
    }
}

pub fn requests(amounts: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": amounts}}]}})
}

/// Nodes with their Pods.
pub type Placed<'a> = &'a [(&'a str, Value)];
/// The feasible nodes, or the message.
pub type Outcome<'a> = Result<&'a str, &'a str>;

/// Checks a table of existing Pods, the Pod to schedule, and the outcome.
pub fn check(cluster: impl Fn() -> TestCluster, table: &[(Placed<'_>, Value, Outcome<'_>)]) {
    for (placed, pod, wanted) in table {
        let mut cluster = cluster();
        for (node, special) in *placed {
            cluster.place(node, special);
        }
        let outcome = cluster.nodes_for(pod);
        assert_eq!(outcome.as_deref().map_err(String::as_str), *wanted, "placed {placed:?}, {pod}");
    }
}

#[test]
fn unschedulable_nodes() {
    let cluster = || TestCluster::of(&[("a", json!({"spec": {"unschedulable": true}})), ("b", json!({}))]);
    let tolerant =
        json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}});
    check(cluster, &[(&[], json!({}), Ok("b")), (&[], tolerant, Ok("a b"))]);
    check(
        || TestCluster::of(&[("a", json!({"spec": {"unschedulable": true}}))]),
        &[(&[], json!({}), Err("1 node(s) were unschedulable."))],
    );
}

#[test]
fn taints() {
    let tainted = |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    let tolerating = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
    let cluster = || {
        TestCluster::of(&[
            ("a", tainted("NoSchedule")),
            ("b", tainted("NoExecute")),
            ("c", tainted("PreferNoSchedule")),
        ])
    };
    check(
        cluster,
        &[
            (&[], json!({}), Ok("c")),
            (&[], tolerating(json!({"operator": "Exists"})), Ok("a b c")),
            (&[], tolerating(json!({"key": "k", "value": "v"})), Ok("a b c")),
            (&[], tolerating(json!({"key": "k", "value": "w"})), Ok("c")),
            (&[], tolerating(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})), Ok("a c")),
            // Numeric comparisons are behind a disabled feature gate.
            (&[], tolerating(json!({"key": "k", "operator": "Lt", "value": "5"})), Ok("c")),
        ],
    );
    check(
        || TestCluster::of(&[("a", tainted("NoSchedule"))]),
        &[(&[], json!({}), Err("1 node(s) had untolerated taint(s)."))],
    );
}

#[test]
fn node_affinity_and_node_names() {
    let labelled = |labels: Value| json!({"metadata": {"labels": labels}});
    let cluster = || {
        TestCluster::of(&[
            ("a", labelled(json!({"disk": "ssd", "size": "3"}))),
            ("b", labelled(json!({"disk": "hdd"}))),
        ])
    };
    let required = |terms: Value| {
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        json!({"spec": {"affinity": {"nodeAffinity": required}}})
    };
    let expression = |operator: &str, key: &str, values: Value| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
    let named =
        |name: &str| json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]);
    check(
        cluster,
        &[
            (&[], json!({"spec": {"nodeSelector": {"disk": "ssd"}}}), Ok("a")),
            (
                &[],
                json!({"spec": {"nodeSelector": {"disk": "tape"}}}),
                Err("2 node(s) didn't match Pod's node affinity/selector."),
            ),
            (&[], required(expression("In", "disk", json!(["hdd", "tape"]))), Ok("b")),
            (&[], required(expression("NotIn", "disk", json!(["hdd"]))), Ok("a")),
            (&[], required(expression("Exists", "size", json!([]))), Ok("a")),
            (&[], required(expression("DoesNotExist", "size", json!([]))), Ok("b")),
            (&[], required(expression("Gt", "size", json!(["2"]))), Ok("a")),
            (
                &[],
                required(expression("Lt", "size", json!(["3"]))),
                Err("2 node(s) didn't match Pod's node affinity/selector."),
            ),
            (&[], required(named("b")), Ok("b")),
            (&[], required(named("c")), Err("2 node(s) didn't satisfy plugin(s) [NodeAffinity].")),
            // One matching term is enough; an empty term matches no node.
            (
                &[],
                required(json!([{}, {"matchExpressions": [{"key": "size", "operator": "Exists"}]}])),
                Ok("a"),
            ),
            (&[], required(json!([{}])), Err("2 node(s) didn't match Pod's node affinity/selector.")),
            (
                &[],
                required(json!([{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["a"]},
                    {"key": "metadata.name", "operator": "In", "values": ["b"]},
                ]}])),
                Err("pod affinity terms conflict. not found"),
            ),
        ],
    );
}

#[test]
fn host_ports() {
    let port = |number: u16, address: &str, protocol: &str| {
        let port = json!({"hostPort": number, "hostIP": address, "protocol": protocol});
        json!({"spec": {"containers": [{"name": "c", "ports": [port]}]}})
    };
    let cluster = || TestCluster::of(&[("a", json!({}))]);
    let taken = Err("1 node(s) didn't have free ports for the requested pod ports.");
    let any = &[("a", port(80, "", "TCP"))][..];
    let one = &[("a", port(80, "127.0.0.1", "TCP"))][..];
    check(
        cluster,
        &[
            (any, port(80, "", "TCP"), taken),
            (any, port(80, "127.0.0.1", "TCP"), taken),
            (any, port(80, "", "UDP"), Ok("a")),
            (any, port(81, "", "TCP"), Ok("a")),
            (any, port(0, "", "TCP"), Ok("a")),
            (one, port(80, "127.0.0.1", "TCP"), taken),
            (one, port(80, "127.0.0.2", "TCP"), Ok("a")),
            (one, port(80, "0.0.0.0", "TCP"), taken),
        ],
    );
}

#[test]
fn resources() {
    let cluster = || {
        let status = json!({"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi",
            "pods": "2", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"}}});
        TestCluster::of(&[("a", status)])
    };
    let half = &[("a", requests(json!({"cpu": "500m", "memory": "512Mi", "example.com/gpu": "1"})))][..];
    let full = &[("a", json!({})), ("a", json!({}))][..];
    let first = |amounts: Value, policy: Value| {
        json!({"spec": {
            "initContainers": [{"name": "i", "restartPolicy": policy, "resources": {"requests": amounts}}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "600m"}}}],
        }})
    };
    check(
        cluster,
        &[
            (&[], requests(json!({"cpu": "1", "memory": "1Gi"})), Ok("a")),
            (&[], requests(json!({"cpu": "1001m"})), Err("1 Insufficient cpu.")),
            (half, requests(json!({"cpu": "500m"})), Ok("a")),
            (
                half,
                requests(json!({"cpu": "501m", "memory": "513Mi"})),
                Err("1 Insufficient cpu, 1 Insufficient memory."),
            ),
            (half, requests(json!({"example.com/gpu": "1"})), Err("1 Insufficient example.com/gpu.")),
            (&[], requests(json!({"example.com/fpga": "1"})), Err("1 Insufficient example.com/fpga.")),
            (&[], requests(json!({"example.com/fpga": "0"})), Ok("a")),
            (&[], requests(json!({"hugepages-2Mi": "6Mi"})), Err("1 Insufficient hugepages-2Mi.")),
            (&[], requests(json!({"ephemeral-storage": "2Gi"})), Err("1 Insufficient ephemeral-storage.")),
            (full, json!({}), Err("1 Too many pods.")),
            (full, requests(json!({"cpu": "2"})), Err("1 Insufficient cpu, 1 Too many pods.")),
            // Init containers run alone, sidecar containers run beside others.
            (&[], first(json!({"cpu": "1"}), json!(null)), Ok("a")),
            (&[], first(json!({"cpu": "500m"}), json!("Always")), Err("1 Insufficient cpu.")),
            (&[], json!({"spec": {"overhead": {"cpu": "2"}}}), Err("1 Insufficient cpu.")),
            (&[], json!({"spec": {"resources": {"requests": {"cpu": "2"}}}}), Err("1 Insufficient cpu.")),
        ],
    );
}

#[test]
fn removed_pods_free_their_resources() {
    let mut cluster = TestCluster::of(&[("a", json!({}))]);
    let all = requests(json!({"cpu": "2"}));
    let pod = cluster.place("a", &all);
    assert_eq!(cluster.nodes_for(&all), Err("1 Insufficient cpu.".to_owned()));
    // Setting the same Pod again uses no more resources.
    cluster.node_index.set_pod(pod.clone());
    cluster.node_index.remove_pod(pod.namespace(), &pod.name);
    assert_eq!(cluster.nodes_for(&all), Ok("a".to_owned()));
}

#[test]
fn no_nodes() {
    let mut cluster = TestCluster::default();
    let pod = cluster.pod(&json!({}));
    let refusal = cluster.node_index.choose(&pod, &mut || 0).unwrap_err();
    assert_eq!(refusal.message, "no nodes available to schedule pods");
    // Pods may be known before their node.
    cluster.place("a", &json!({}));
    assert!(cluster.node_index.choose(&pod, &mut || 0).is_err());
}
