//! Changes after all autoscalers have settled, and their expected results.

use serde_json::{Value, json};

use crate::cases::{AUTOSCALERS, NAMESPACE, WIDGETS, by, cpu, with};

/// Changes of one object each, so that they are atomic: path and merge patch.
pub fn changes() -> Vec<(String, Value)> {
    let widget =
        |name: &str, replicas: i64| (format!("{WIDGETS}/{name}"), json!({"spec": {"replicas": replicas}}));
    let selects = |name: &str, selector: Value| {
        (format!("{WIDGETS}/{name}/status"), json!({"status": { "selector": selector }}))
    };
    let autoscaler = |name: &str, spec: Value| (format!("{AUTOSCALERS}/{name}"), json!({ "spec": spec }));
    let uses = |pod: &str, usage: &str| {
        let annotations = json!({"sim.atoll.dev/usage": usage});
        (
            format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}"),
            json!({"metadata": {"annotations": annotations}}),
        )
    };
    vec![
        // A user scales manually.
        widget("zero", 3),
        widget("part-same", 0),
        widget("up-never", 9),
        widget("refused", 50),
        // Earlier recommendations still count.
        widget("stabilized", 1),
        selects("value-down", Value::Null),
        selects("part-uneven", "a in (".into()),
        selects("memory-odd", "=,".into()),
        selects("two-containers", "app!=x".into()),
        selects("containers-beside", "app>1".into()),
        selects("whole-pods", "app == whole-pods, app in (whole-pods, x)".into()),
        selects("several", "app=nobody".into()),
        autoscaler("too-many", json!({"maxReplicas": 2})),
        autoscaler("too-few", json!({"minReplicas": 7})),
        autoscaler("stabilized-up", json!({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 0}}})),
        uses("part-default-0", "cpu=20%"),
        uses("one-container-0", "main/cpu=1m,proxy/cpu=60m"),
    ]
}

/// Expected results after the changes: autoscaler, JSON pointer in its status, value.
pub fn changed() -> Vec<(&'static str, &'static str, Value)> {
    let (current, able, active) = ("/currentReplicas", "/conditions/0/reason", "/conditions/1/reason");
    vec![
        ("zero", current, 2.into()),
        ("zero", able, "ReadyForNewScale".into()),
        ("part-same", active, "ScalingDisabled".into()),
        ("up-never", current, 8.into()),
        ("up-never", able, "ReadyForNewScale".into()),
        ("refused", current, 50.into()),
        ("stabilized", "/lastScaleTime", "sometime".into()),
        ("stabilized", current, 4.into()),
        ("stabilized", able, "ScaleDownStabilized".into()),
        ("value-down", active, "InvalidSelector".into()),
        ("part-uneven", able, "FailedGetScale".into()),
        ("memory-odd", able, "FailedGetScale".into()),
        ("two-containers", able, "FailedGetScale".into()),
        ("containers-beside", able, "FailedGetScale".into()),
        ("several", active, "FailedGetResourceMetric".into()),
        ("too-many", current, 2.into()),
        ("too-many", able, "ReadyForNewScale".into()),
        ("too-few", current, 7.into()),
        ("too-few", able, "ReadyForNewScale".into()),
        ("stabilized-up", current, 8.into()),
        ("stabilized-up", able, "ReadyForNewScale".into()),
        ("part-default", able, "ScaleDownStabilized".into()),
        ("one-container", current, 6.into()),
        ("one-container", able, "ReadyForNewScale".into()),
        ("part-up", active, "AmbiguousSelector".into()),
        ("value-up", active, "AmbiguousSelector".into()),
        ("whole-pods", active, "AmbiguousSelector".into()),
    ]
}

/// Autoscalers of targets that already have one: name and spec.
pub fn rivals() -> Vec<(String, Value)> {
    let rival = |name: &str| {
        let widget = json!({"kind": "Widget", "apiVersion": "example.com/v1", "name": name});
        (format!("rival-of-{name}"), with(by(json!([cpu(50)])), "/scaleTargetRef", widget))
    };
    ["part-up", "value-up", "whole-pods"].map(rival).into()
}
