//! What is measured: kinds that a metrics server has, and nobody keeps.

use serde_json::{Value, json};

use crate::Kind;
use crate::names::{custom_definition, definition};
use crate::schemas::reference;

pub const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// `NodeMetrics` and `PodMetrics`, and what the latter is made of.
pub fn kinds() -> Vec<Kind> {
    let kind = |kind: &str, list_kind: &str, schema: Value| Kind {
        group: GROUP.into(),
        version: VERSION.into(),
        kind: kind.into(),
        list_kind: list_kind.into(),
        schema,
        lesser: None,
    };
    let of_container = json!({
        "description": "ContainerMetrics tells what one container of a Pod uses.",
        "type": "object",
        "required": ["name", "usage"],
        "properties": {
            "name": {
                "description": "Which of the containers in the spec of the Pod it is.",
                "type": "string",
                "default": "",
            },
            "usage": usage(),
        },
    });
    let containers = json!({
        "description": "What each container uses that runs, all measured over the same time.",
        "type": "array",
        "items": { "default": {}, "allOf": [reference(&custom_definition(GROUP, VERSION, "ContainerMetrics"))] },
        "x-kubernetes-list-type": "atomic",
    });
    vec![
        kind("ContainerMetrics", "", of_container),
        kind(
            "NodeMetrics",
            "NodeMetricsList",
            whole("NodeMetrics tells what a node uses.", "usage", usage()),
        ),
        kind(
            "PodMetrics",
            "PodMetricsList",
            whole("PodMetrics tells what the containers of a Pod use.", "containers", containers),
        ),
    ]
}

/// Something measured as a whole, with its one field of its own.
fn whole(description: &str, field: &str, schema: Value) -> Value {
    let of = |key: &str| reference(&definition(key));
    let mut whole = json!({
        "description": description,
        "type": "object",
        "required": ["timestamp", "window", field],
        "properties": {
            "apiVersion": {
                "description": "The version of the schema that this object is written in: metrics.k8s.io/v1beta1.",
                "type": "string",
            },
            "kind": { "description": "What this object is.", "type": "string" },
            "metadata": {
                "description": "Standard metadata: name, namespace and labels are those of what was measured.",
                "default": {},
                "allOf": [of("meta/v1.ObjectMeta")],
            },
            "timestamp": {
                "description": "The end of the time that was measured.",
                "allOf": [of("meta/v1.Time")],
            },
            "window": {
                "description": "How long the time was that was measured.",
                "allOf": [of("meta/v1.Duration")],
            },
        },
    });
    whole["properties"][field] = schema;
    whole
}

fn usage() -> Value {
    json!({
        "description": "How much is used of each resource. Of memory it is the working set.",
        "type": "object",
        "additionalProperties": reference(&definition("api/resource.Quantity")),
    })
}
