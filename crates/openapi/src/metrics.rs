//! The kinds of the metrics API, which are not stored.

// upstream: staging/src/k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go

use serde_json::{Value, json};

use crate::KindSchema;
use crate::names::{custom_definition, definition};
use crate::schemas::reference;

pub const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// Returns `NodeMetrics`, `PodMetrics` and `ContainerMetrics`.
pub fn kinds() -> Vec<KindSchema> {
    let kind = |kind: &str, list_kind: &str, schema: Value| KindSchema {
        group: GROUP.into(),
        version: VERSION.into(),
        kind: kind.into(),
        list_kind: list_kind.into(),
        schema,
        v2_schema: None,
    };
    let of_container = json!({
        "description": "ContainerMetrics is the resource usage of a container.",
        "type": "object",
        "required": ["name", "usage"],
        "properties": {
            "name": {
                "description": "Name of the container in the spec of the Pod.",
                "type": "string",
                "default": "",
            },
            "usage": usage(),
        },
    });
    let containers = json!({
        "description": "Metrics of all running containers, collected within the same time window.",
        "type": "array",
        "items": { "default": {}, "allOf": [reference(&custom_definition(GROUP, VERSION, "ContainerMetrics"))] },
        "x-kubernetes-list-type": "atomic",
    });
    vec![
        kind("ContainerMetrics", "", of_container),
        kind(
            "NodeMetrics",
            "NodeMetricsList",
            metrics_schema("NodeMetrics is the resource usage of a node.", "usage", usage()),
        ),
        kind(
            "PodMetrics",
            "PodMetricsList",
            metrics_schema("PodMetrics is the resource usage of a Pod.", "containers", containers),
        ),
    ]
}

/// Returns the schema of a metrics kind with its specific field.
fn metrics_schema(description: &str, field: &str, schema: Value) -> Value {
    let of = |key: &str| reference(&definition(key));
    let mut metrics_schema = json!({
        "description": description,
        "type": "object",
        "required": ["timestamp", "window", field],
        "properties": {
            "apiVersion": {
                "description": "API version of this object: metrics.k8s.io/v1beta1.",
                "type": "string",
            },
            "kind": { "description": "Kind of this object.", "type": "string" },
            "metadata": {
                "description": "Standard metadata. Name, namespace and labels are those of the measured object.",
                "default": {},
                "allOf": [of("meta/v1.ObjectMeta")],
            },
            "timestamp": {
                "description": "End of the time window of the measurement.",
                "allOf": [of("meta/v1.Time")],
            },
            "window": {
                "description": "Length of the time window of the measurement.",
                "allOf": [of("meta/v1.Duration")],
            },
        },
    });
    metrics_schema["properties"][field] = schema;
    metrics_schema
}

fn usage() -> Value {
    json!({
        "description": "Usage by resource. Memory usage is the working set.",
        "type": "object",
        "additionalProperties": reference(&definition("api/resource.Quantity")),
    })
}
