//! Atoll's own kinds.

use serde_json::json;

use crate::Kind;
use crate::names::definition;
use crate::schemas::reference;

/// `Workspace`.
pub fn kinds() -> Vec<Kind> {
    let metadata = reference(&definition("meta/v1.ObjectMeta"));
    let schema = json!({
        "description": "Workspace is a Kubernetes API server of its own within another one, at /clusters/<path>. Creating \
            one in a workspace makes a child of that workspace; deleting it deletes everything in it first.",
        "type": "object",
        "properties": {
            "apiVersion": {
                "description": "The version of the schema that this object is written in: atoll.dev/v1alpha1.",
                "type": "string",
            },
            "kind": { "description": "What this object is: Workspace.", "type": "string" },
            "metadata": {
                "description": "Standard metadata. The name is the last part of the workspace's path.",
                "default": {},
                "allOf": [metadata],
            },
            "spec": {
                "description": "What the workspace should be like.",
                "type": "object",
                "properties": {
                    "grain": {
                        "description": "Where pods are made of what is created in the workspace from now on: \"pod\" is here, \
                            one by one, by Atoll's controllers; \"object\" is where the object is placed as a whole. A \
                            namespace with the label atoll.dev/grain decides for itself. Without either it is as the \
                            server was started.",
                        "type": "string",
                        "enum": ["object", "pod"],
                    },
                },
            },
            "status": {
                "description": "What the workspace is. Set by Atoll, never by users.",
                "type": "object",
                "properties": {
                    "id": {
                        "description": "The id under which everything in the workspace is kept. It is never used again and \
                            cannot be changed.",
                        "type": "string",
                    },
                    "phase": {
                        "description": "Ready from the beginning, Deleting from its deletion until it is empty.",
                        "type": "string",
                        "enum": ["Deleting", "Ready"],
                    },
                },
            },
        },
    });
    let (group, version, kind) = ("atoll.dev".to_owned(), "v1alpha1".to_owned(), "Workspace".to_owned());
    let list_kind = format!("{kind}List");
    vec![Kind { group, version, kind, list_kind, schema, lesser: None }]
}
