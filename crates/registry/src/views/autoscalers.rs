//! `autoscaling/v1` HorizontalPodAutoscalers have one metric, CPU utilization. The rest of the stored
//! `autoscaling/v2` object is in annotations.

// upstream: pkg/apis/autoscaling/v1/conversion.go
// upstream: pkg/apis/autoscaling/v1/defaults.go

mod annotations;
mod metrics;

use atoll_meta::object;
use atoll_schema::Types;
use serde_json::{Map, Value, json};

use super::View;
use metrics::{SPEC, STATUS};

pub static VIEW: View =
    View { group: "autoscaling", api_version: "autoscaling/v2", to_stored, to_view, labels: &[] };

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// Legacy annotations that are no longer written.
const TOLERANCES: [&str; 2] = [
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Default utilization in percent of the requests.
const UTILIZATION: i64 = 80;

fn to_stored(autoscaler: &mut Value) {
    let [specs, behavior, statuses, conditions] =
        [METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS].map(|name| take_annotation(autoscaler, name));
    drop_tolerances(autoscaler);
    let types = Types::get();
    if let Some(spec) = part(autoscaler, "spec") {
        let mut wanted = specs.and_then(|text| metrics::read(types, &SPEC, &text)).unwrap_or_default();
        let utilization = spec.remove("targetCPUUtilizationPercentage").filter(|value| !value.is_null());
        if utilization.is_some() || wanted.is_empty() {
            wanted.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": {
                "type": "Utilization",
                "averageUtilization": utilization.unwrap_or(UTILIZATION.into()),
            }}}));
        }
        spec.insert("metrics".into(), wanted.into());
        if let Some(behavior) = behavior.and_then(|text| annotations::read_behavior(types, &text)) {
            spec.insert("behavior".into(), behavior);
        }
    }
    if let Some(status) = part(autoscaler, "status") {
        let utilization = status.remove("currentCPUUtilizationPercentage").filter(|value| !value.is_null());
        let one = |utilization| {
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {
                "averageUtilization": utilization,
            }}}])
        };
        let annotated = statuses.and_then(|text| metrics::read(types, &STATUS, &text)).map(Value::from);
        if let Some(metrics) = annotated.or_else(|| utilization.map(one)) {
            status.insert("currentMetrics".into(), metrics);
        }
        if let Some(conditions) = conditions.and_then(|text| annotations::read_conditions(types, &text)) {
            status.insert("conditions".into(), conditions.into());
        }
    }
}

fn to_view(autoscaler: &mut Value) {
    for name in [METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS] {
        take_annotation(autoscaler, name);
    }
    drop_tolerances(autoscaler);
    let types = Types::get();
    let mut annotations_to_set: Vec<(&str, String)> = Vec::new();
    if let Some(spec) = part(autoscaler, "spec") {
        let mut others = list(spec.remove("metrics"));
        if let Some(first) = others.iter().find_map(|metric| utilization(metric, "target")) {
            spec.insert("targetCPUUtilizationPercentage".into(), first.into());
        }
        others.retain(|metric| utilization(metric, "target").is_none());
        if !others.is_empty() {
            annotations_to_set.push((METRICS, metrics::write(types, &SPEC, &others)));
        }
        if let Some(behavior) = spec.remove("behavior") {
            annotations_to_set.push((BEHAVIOR, annotations::write_behavior(types, &behavior)));
        }
    }
    if let Some(status) = part(autoscaler, "status") {
        let current = list(status.remove("currentMetrics"));
        if let Some(last) = current.iter().rev().find_map(|metric| utilization(metric, "current")) {
            status.insert("currentCPUUtilizationPercentage".into(), last.into());
        }
        if !current.is_empty() {
            annotations_to_set.push((CURRENT_METRICS, metrics::write(types, &STATUS, &current)));
        }
        let conditions = list(status.remove("conditions"));
        if !conditions.is_empty() {
            annotations_to_set.push((CONDITIONS, annotations::write_conditions(types, &conditions)));
        }
    }
    for (name, text) in annotations_to_set {
        object::set_annotation(autoscaler, name, &text);
    }
}

/// The CPU utilization of a metric, as target or as current value.
fn utilization(metric: &Value, side: &str) -> Option<i64> {
    let resource = metric
        .get("resource")
        .filter(|resource| metric["type"] == "Resource" && resource["name"] == "cpu")?;
    resource[side]["averageUtilization"].as_i64()
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn part<'a>(autoscaler: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    let fields = autoscaler.as_object_mut()?;
    fields.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

fn take_annotation(autoscaler: &mut Value, name: &str) -> Option<String> {
    let text = object::annotation(autoscaler, name)?.to_string();
    object::remove_annotation(autoscaler, name);
    Some(text)
}

fn drop_tolerances(autoscaler: &mut Value) {
    TOLERANCES.iter().for_each(|name| object::remove_annotation(autoscaler, name));
}

#[cfg(test)]
mod tests;
