//! HorizontalPodAutoscalers.

// upstream: pkg/apis/autoscaling/v2/defaults.go
// upstream: pkg/apis/autoscaling/v2/conversion.go

use serde_json::{Value, json};

use crate::object::{ObjectMap, child_mut, drop_annotations, entry, is_absent, set, set_absent};

/// Annotations that stand for fields that older versions do not have.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const TOLERANCES: [&str; 2] = [
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Percentage of the requests.
const UTILIZATION: i64 = 80;

pub fn version_2(autoscaler: &mut ObjectMap) {
    drop_annotations(autoscaler, &[METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS]);
    drop_annotations(autoscaler, &TOLERANCES);
    let Some(spec) = child_mut(autoscaler, "spec") else { return };
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        set(
            spec,
            "metrics",
            json!([{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": UTILIZATION}},
            }]),
        );
    }
    if let Some(behavior) = child_mut(spec, "behavior") {
        rules(behavior, "scaleUp", || {
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ])
        });
        rules(behavior, "scaleDown", || json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
        // The default for scaling down is a setting of the controller.
        if let Some(up) = child_mut(behavior, "scaleUp") {
            set_absent(up, "stabilizationWindowSeconds", 0);
        }
    }
}

fn rules(behavior: &mut ObjectMap, direction: &str, policies: fn() -> Value) {
    let Some(rules) = entry(behavior, direction) else { return };
    set_absent(rules, "selectPolicy", "Max");
    if is_absent(rules, "policies") {
        set(rules, "policies", policies());
    }
}
