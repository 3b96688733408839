use super::*;

fn set(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

fn node(labels: Value, taints: Value) -> Value {
    json!({"metadata": {"name": "one", "labels": labels}, "spec": {"taints": taints}})
}

fn fit(spec: Value, node: &Value) -> (bool, bool) {
    let set = set(spec);
    let fit = NodeRequirements::of(&set).fit(node);
    (fit.should_run, fit.should_continue)
}

#[test]
fn selectors_and_affinity_restrict_nodes() {
    let affinity = |key: &str, operator: &str, values: &[&str]| {
        let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}})
    };
    let named = |values: &[&str]| {
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]});
        json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}})
    };
    let plain = node(json!({"zone": "a", "size": "5"}), json!([]));
    for (spec, suits) in [
        (json!({}), true),
        (json!({"nodeName": "one"}), true),
        (json!({"nodeName": "two"}), false),
        (json!({"nodeSelector": {"zone": "a"}}), true),
        (json!({"nodeSelector": {"zone": "b"}}), false),
        (json!({"nodeSelector": {"color": "red"}}), false),
        (affinity("zone", "In", &["a", "b"]), true),
        (affinity("zone", "NotIn", &["a", "b"]), false),
        (affinity("color", "NotIn", &["red"]), true),
        (affinity("color", "Exists", &[]), false),
        (affinity("color", "DoesNotExist", &[]), true),
        (affinity("size", "Gt", &["4"]), true),
        (affinity("size", "Lt", &["5"]), false),
        (affinity("zone", "Gt", &["4"]), false),
        (named(&["one"]), true),
        (named(&["two"]), false),
        (json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}), false),
        (json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}}), false),
    ] {
        assert_eq!(fit(spec.clone(), &plain), (suits, suits), "{spec}");
    }
}

#[test]
fn taints_exclude_nodes() {
    let tolerating = |toleration: Value| json!({"tolerations": [toleration]});
    for (taint, spec, expected) in [
        (json!({"key": "k", "value": "v", "effect": "NoSchedule"}), json!({}), (false, true)),
        (json!({"key": "k", "value": "v", "effect": "NoExecute"}), json!({}), (false, false)),
        (json!({"key": "k", "value": "v", "effect": "PreferNoSchedule"}), json!({}), (true, true)),
        (json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}), json!({}), (true, true)),
        (json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}), json!({}), (false, true)),
        (json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}), json!({}), (true, true)),
        (
            json!({"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}),
            json!({}),
            (false, true),
        ),
        (
            json!({"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}),
            json!({"hostNetwork": true}),
            (true, true),
        ),
        (
            json!({"key": "k", "value": "v", "effect": "NoExecute"}),
            tolerating(json!({"key": "k", "operator": "Equal", "value": "v"})),
            (true, true),
        ),
        (
            json!({"key": "k", "value": "v", "effect": "NoExecute"}),
            tolerating(json!({"key": "k", "value": "w"})),
            (false, false),
        ),
        (
            json!({"key": "k", "effect": "NoSchedule"}),
            tolerating(json!({"operator": "Exists"})),
            (true, true),
        ),
        (
            json!({"key": "k", "effect": "NoSchedule"}),
            tolerating(json!({"operator": "Exists", "effect": "NoExecute"})),
            (false, true),
        ),
    ] {
        assert_eq!(fit(spec.clone(), &node(json!({}), json!([taint]))), expected, "{taint} {spec}");
    }
}

#[test]
fn pods_are_bound_to_their_node() {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
    let mut pod = json!({"spec": {
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}, "podAffinity": {"x": 1}},
        "tolerations": [
            {"key": "own", "operator": "Exists"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        ],
    }});
    bind_to_node(&mut pod, "one");
    assert_eq!(target(&pod), Some("one"));
    assert_eq!(pod["spec"]["affinity"]["podAffinity"], json!({"x": 1}));
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    assert_eq!(tolerations.len(), 7);
    assert_eq!(tolerations[1].get("tolerationSeconds"), None, "unlimited");
    pod["spec"]["nodeName"] = "two".into();
    assert_eq!(target(&pod), Some("two"));
    assert_eq!(target(&json!({})), None);
}
