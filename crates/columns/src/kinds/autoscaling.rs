//! Autoscalers and scales.

// upstream: pkg/printers/internalversion/printers.go

use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, NAME_DESCRIPTION, PLAIN};
use crate::fields::{at, list, text};
use crate::{Cell, Column, Printer};

pub fn printer(kind: &str) -> &'static Printer {
    match kind {
        "HorizontalPodAutoscaler" => &AUTOSCALER,
        "Scale" => &SCALE,
        _ => &PLAIN,
    }
}

/// Maximum number of metrics in a cell.
const SHOWN: usize = 2;

static AUTOSCALER: Printer = Printer::new(&[
    NAME,
    Column::new("Reference", Cell::Special(reference), "Object that is scaled."),
    Column::new("Targets", Cell::Special(targets), "Current and target values of metrics."),
    Column::new("MinPods", Cell::Special(least), "Minimum number of replicas."),
    Column::new("MaxPods", Cell::Number("spec.maxReplicas"), "Maximum number of replicas."),
    Column::new("Replicas", Cell::Number("status.currentReplicas"), "Current number of replicas."),
    AGE,
]);

static SCALE: Printer = Printer::new(&[
    Column::new("Name", Cell::Text("metadata.name"), NAME_DESCRIPTION),
    Column::new("Desired", Cell::Number("spec.replicas"), "Desired number of replicas.").integer(),
    Column::new("Available", Cell::Number("status.replicas"), "Current number of replicas.").integer(),
    AGE,
]);

fn reference(object: &Value, _: Timestamp) -> Value {
    let target = |field: &str| at(object, "spec.scaleTargetRef").map_or("", |target| text(target, field));
    format!("{}/{}", target("kind"), target("name")).into()
}

fn least(object: &Value, _: Timestamp) -> Value {
    at(object, "spec.minReplicas").map_or_else(|| "<unset>".to_owned(), Value::to_string).into()
}

fn targets(object: &Value, _: Timestamp) -> Value {
    let metrics = list(object, "spec.metrics");
    let statuses = list(object, "status.currentMetrics");
    // autoscaling/v1 supports CPU only.
    if let Some(target) = at(object, "spec.targetCPUUtilizationPercentage") {
        let current = percentage(at(object, "status.currentCPUUtilizationPercentage"), "<unknown>");
        return format!("cpu: {current}/{target}%").into();
    }
    if metrics.is_empty() {
        return "<none>".into();
    }
    let shown: Vec<String> = metrics
        .iter()
        .take(SHOWN)
        .enumerate()
        .map(|(position, metric)| target(metric, statuses.get(position)))
        .collect();
    let shown = shown.join(", ");
    match metrics.len() {
        length if length > SHOWN => format!("{shown} + {} more...", length - SHOWN).into(),
        _ => shown.into(),
    }
}

/// Formats a metric with its current and target value.
fn target(metric: &Value, status: Option<&Value>) -> String {
    let (source, of_resource, averages) = match text(metric, "type") {
        "External" => ("external", false, false),
        "Object" => ("object", false, false),
        "Pods" => ("pods", false, true),
        "Resource" => ("resource", true, false),
        "ContainerResource" => ("containerResource", true, false),
        _ => return "<unknown type>".to_owned(),
    };
    let metric = metric.get(source).unwrap_or(&Value::Null);
    let status = status.and_then(|status| at(status, source));
    let average = at(metric, "target.averageValue");
    let current = |field: &str| match status {
        Some(status) => amount(at(status, field)),
        None => "<unknown>".to_owned(),
    };
    let name = text(metric, "name");
    match (of_resource, average) {
        (true, Some(average)) => {
            format!("{name}: {}/{}", current("current.averageValue"), amount(Some(average)))
        }
        (true, None) => {
            let current = status.and_then(|status| at(status, "current.averageUtilization"));
            let target = percentage(at(metric, "target.averageUtilization"), "<auto>");
            format!("{name}: {}/{target}", percentage(current, "<unknown>"))
        }
        (false, average) if averages => format!("{}/{}", current("current.averageValue"), amount(average)),
        (false, Some(average)) => {
            let now = status.and_then(|status| at(status, "current.averageValue"));
            let now = now.map_or_else(|| "<unknown>".to_owned(), |now| amount(Some(now)));
            format!("{now}/{} (avg)", amount(Some(average)))
        }
        (false, None) => format!("{}/{}", current("current.value"), amount(at(metric, "target.value"))),
    }
}

/// Formats a quantity as Go does, where it may be nil.
fn amount(quantity: Option<&Value>) -> String {
    quantity.and_then(Value::as_str).unwrap_or("<nil>").to_owned()
}

fn percentage(value: Option<&Value>, otherwise: &str) -> String {
    value.map_or_else(|| otherwise.to_owned(), |value| format!("{value}%"))
}
