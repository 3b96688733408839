//! `autoscaling/v1` HorizontalPodAutoscalers know the processor only. Whatever else there is stands in annotations, as JSON.

use atoll_meta::{json, object};
use serde_json::{Map, Value, json};

use super::View;

pub static VIEW: View =
    View { group: "autoscaling", api_version: "autoscaling/v2", to_stored, to_view, labels: &[] };

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const TARGET: &str = "targetCPUUtilizationPercentage";
const CURRENT: &str = "currentCPUUtilizationPercentage";

/// A field in an annotation, the way to it in version 2, and what it is there if it is absent here.
type Field = (&'static str, &'static str, Option<&'static str>);

/// The sources of metrics in the order in which Go writes them, and so their fields.
const SOURCES: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            ("target", "describedObject", None),
            ("metricName", "metric.name", None),
            ("targetValue", "target.value", Some("0")),
            ("selector", "metric.selector", None),
            ("averageValue", "target.averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name", None),
            ("targetAverageValue", "target.averageValue", Some("0")),
            ("selector", "metric.selector", None),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name", None),
            ("targetAverageUtilization", "target.averageUtilization", None),
            ("targetAverageValue", "target.averageValue", None),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name", None),
            ("targetAverageUtilization", "target.averageUtilization", None),
            ("targetAverageValue", "target.averageValue", None),
            ("container", "container", None),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name", None),
            ("metricSelector", "metric.selector", None),
            ("targetValue", "target.value", None),
            ("targetAverageValue", "target.averageValue", None),
        ],
    ),
];

/// The same for what was measured.
const STATUSES: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            ("target", "describedObject", None),
            ("metricName", "metric.name", None),
            ("currentValue", "current.value", Some("0")),
            ("selector", "metric.selector", None),
            ("averageValue", "current.averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name", None),
            ("currentAverageValue", "current.averageValue", Some("0")),
            ("selector", "metric.selector", None),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name", None),
            ("currentAverageUtilization", "current.averageUtilization", None),
            ("currentAverageValue", "current.averageValue", Some("0")),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name", None),
            ("currentAverageUtilization", "current.averageUtilization", None),
            ("currentAverageValue", "current.averageValue", Some("0")),
            ("container", "container", None),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name", None),
            ("metricSelector", "metric.selector", None),
            ("currentValue", "current.value", Some("0")),
            ("currentAverageValue", "current.averageValue", None),
        ],
    ),
];

fn to_stored(autoscaler: &mut Value) {
    let read = |name: &str| -> Option<Value> {
        json::parse(object::annotation(autoscaler, name)?.as_bytes()).ok().map(|parsed| parsed.value)
    };
    let list = |name: &str| read(name).and_then(|value| value.as_array().cloned()).unwrap_or_default();
    let mut metrics: Vec<Value> =
        list(METRICS).iter().map(|metric| metric_from(metric, &SOURCES, "target")).collect();
    let mut current: Vec<Value> =
        list(CURRENT_METRICS).iter().map(|metric| metric_from(metric, &STATUSES, "current")).collect();
    let behavior = read(BEHAVIOR).map(|value| renamed(&value)).filter(Value::is_object);
    let conditions = list(CONDITIONS);
    let spec = object_in(autoscaler, "spec");
    if let Some(percent) = spec.remove(TARGET) {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    put(spec, "metrics", Value::Array(metrics));
    put(spec, "behavior", behavior.unwrap_or(Value::Null));
    let status = object_in(autoscaler, "status");
    if let Some(percent) = status.remove(CURRENT)
        && current.is_empty()
    {
        let measured = json!({"averageUtilization": percent});
        current.push(json!({"type": "Resource", "resource": {"name": "cpu", "current": measured}}));
    }
    put(status, "currentMetrics", Value::Array(current));
    put(status, "conditions", Value::Array(conditions));
    annotate(autoscaler, [METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS].map(|name| (name, None)));
}

fn to_view(autoscaler: &mut Value) {
    let spec = object_in(autoscaler, "spec");
    let metrics = taken(spec, "metrics");
    let behavior = spec.remove("behavior").filter(Value::is_object);
    let is_target = |metric: &&Value| is_processor(metric) && number(metric, "target").is_some();
    if let Some(percent) = metrics.iter().find(is_target).and_then(|metric| number(metric, "target")) {
        spec.insert(TARGET.into(), percent);
    }
    let status = object_in(autoscaler, "status");
    let current = taken(status, "currentMetrics");
    let conditions = taken(status, "conditions");
    let measured = current.iter().filter(|metric| is_processor(metric));
    if let Some(percent) = measured.filter_map(|metric| number(metric, "current")).next_back() {
        status.insert(CURRENT.into(), percent);
    }
    let others: Vec<String> = metrics
        .iter()
        .filter(|metric| !is_target(metric))
        .map(|metric| metric_text(metric, &SOURCES))
        .collect();
    let current: Vec<String> = current.iter().map(|metric| metric_text(metric, &STATUSES)).collect();
    let conditions: Vec<String> = conditions
        .iter()
        .map(|condition| ordered(condition, &["type", "status", "lastTransitionTime", "reason", "message"]))
        .collect();
    let written = |list: Vec<String>| (!list.is_empty()).then(|| format!("[{}]", list.join(",")));
    let texts = [
        (METRICS, written(others)),
        (CURRENT_METRICS, written(current)),
        (BEHAVIOR, behavior.as_ref().map(behavior_text)),
        (CONDITIONS, written(conditions)),
    ];
    annotate(autoscaler, texts);
}

fn is_processor(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn number(metric: &Value, part: &str) -> Option<Value> {
    metric["resource"][part].get("averageUtilization").filter(|percent| percent.is_number()).cloned()
}

/// A metric of version 2 from one of an annotation.
fn metric_from(metric: &Value, sources: &[(&str, &[Field])], part: &str) -> Value {
    let mut made = json!({ "type": metric["type"] });
    for (source, fields) in sources {
        let Some(given) = metric.get(*source).filter(|given| given.is_object()) else { continue };
        let mut own = json!({});
        for (name, path, zero) in *fields {
            let value = given.get(*name).filter(|value| !value.is_null()).cloned();
            if let Some(value) = value.or_else(|| zero.map(Value::from)) {
                path.split('.').fold(&mut own, |holder, step| &mut holder[step]).clone_from(&value);
            }
        }
        if part == "target" {
            settle_target(source, &mut own["target"]);
        }
        made[*source] = own;
    }
    made
}

/// What kind of a target it is stands between the lines.
fn settle_target(source: &str, target: &mut Value) {
    let has = |name: &str| target.get(name).is_some_and(|value| !value.is_null());
    let kind = match source {
        "object" if !has("averageValue") => "Value",
        "external" if has("value") => "Value",
        "resource" | "containerResource" if has("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    if source == "object" && kind == "AverageValue" && target["value"] == "0" {
        target.as_object_mut().map(|fields| fields.remove("value"));
    }
    target["type"] = kind.into();
}

/// A metric as Go writes it in an annotation.
fn metric_text(metric: &Value, sources: &[(&str, &[Field])]) -> String {
    let mut parts = vec![format!("\"type\":{}", json::to_string(&metric["type"]))];
    for (source, fields) in sources {
        let Some(own) = metric.get(*source).filter(|own| own.is_object()) else { continue };
        let written = fields.iter().filter_map(|(name, path, zero)| {
            let value =
                path.split('.').try_fold(own, |value, step| value.get(step)).filter(|value| !value.is_null());
            let text = match (value, zero) {
                (Some(value), _) if *name == "target" => ordered(value, &["kind", "name", "apiVersion"]),
                (Some(value), _) if value.is_object() => ordered(value, &["matchLabels", "matchExpressions"]),
                (Some(value), _) => json::to_string(value),
                (None, Some(zero)) => format!("{zero:?}"),
                (None, None) => return None,
            };
            Some(format!("{name:?}:{text}"))
        });
        parts.push(format!("{source:?}:{{{}}}", written.collect::<Vec<_>>().join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

fn ordered(value: &Value, names: &[&str]) -> String {
    let fields =
        names.iter().filter_map(|name| Some(format!("{name:?}:{}", json::to_string(value.get(*name)?))));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Upstream writes its own structures here, which name their fields as Go does.
fn behavior_text(behavior: &Value) -> String {
    let rules = |name: &str| {
        let Some(rules) = behavior.get(name).filter(|rules| rules.is_object()) else {
            return "null".to_owned();
        };
        let policies = match rules.get("policies").and_then(Value::as_array) {
            Some(policies) => {
                let texts = policies.iter().map(|policy| {
                    let text = |name: &str| json::to_string(&policy[name]);
                    let (kind, value, period) = (text("type"), text("value"), text("periodSeconds"));
                    format!(r#"{{"Type":{kind},"Value":{value},"PeriodSeconds":{period}}}"#)
                });
                format!("[{}]", texts.collect::<Vec<_>>().join(","))
            }
            None => "null".to_owned(),
        };
        let text = |name: &str| json::to_string(&rules[name]);
        format!(
            r#"{{"StabilizationWindowSeconds":{},"SelectPolicy":{},"Policies":{policies},"Tolerance":{}}}"#,
            text("stabilizationWindowSeconds"),
            text("selectPolicy"),
            text("tolerance"),
        )
    };
    format!(r#"{{"ScaleUp":{},"ScaleDown":{}}}"#, rules("scaleUp"), rules("scaleDown"))
}

/// The value with its fields renamed at all levels, without what is null.
fn renamed(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let named = fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect(), renamed(value))
            });
            Value::Object(named.collect())
        }
        Value::Array(items) => items.iter().map(renamed).collect(),
        other => other.clone(),
    }
}

fn object_in<'o>(holder: &'o mut Value, name: &str) -> &'o mut Map<String, Value> {
    if !holder[name].is_object() {
        holder[name] = json!({});
    }
    match &mut holder[name] {
        Value::Object(fields) => fields,
        _ => unreachable!("it was just made an object"),
    }
}

fn taken(holder: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match holder.remove(name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn put(holder: &mut Map<String, Value>, name: &str, value: Value) {
    let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !is_empty {
        holder.insert(name.into(), value);
    }
}

fn annotate<const N: usize>(autoscaler: &mut Value, texts: [(&str, Option<String>); N]) {
    let metadata = object::metadata_mut(autoscaler);
    let mut annotations = match metadata.remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    };
    for (name, text) in texts {
        match text {
            Some(text) => drop(annotations.insert(name.into(), text.into())),
            None => drop(annotations.remove(name)),
        }
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".into(), Value::Object(annotations));
    }
}
