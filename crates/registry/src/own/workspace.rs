//! `Workspace`.

use serde_json::{Value, json};

pub fn schema() -> Value {
    json!({
        "description": "Workspace is a Kubernetes API server of its own within another one, at /clusters/<path>. Creating \
            one in a workspace makes a child of that workspace; deleting it deletes everything in it first.",
        "type": "object",
        "properties": {
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
                    "limits": {
                        "description": "How much may be in the workspace and in all workspaces below it. What is there when \
                            a limit is lowered stays, but nothing is added. Only those can change limits who may change \
                            this object, which is in the parent.",
                        "type": "object",
                        "properties": {
                            "objects": {
                                "description": "How many objects, of all kinds. Defaults to 100000.",
                                "type": "integer",
                                "format": "int64",
                                "minimum": 0,
                            },
                            "bytes": {
                                "description": "How many bytes the JSON of all objects may have together, for instance \
                                    512Mi. Objects that are there may grow by a tenth beyond it. Defaults to 1Gi.",
                                "x-kubernetes-int-or-string": true,
                            },
                            "definitions": {
                                "description": "How many CustomResourceDefinitions. Defaults to 1000.",
                                "type": "integer",
                                "format": "int64",
                                "minimum": 0,
                            },
                        },
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
                    "message": { "description": "What its deletion waits for.", "type": "string" },
                },
            },
        },
    })
}
