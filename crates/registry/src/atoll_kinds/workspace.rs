//! The schema of `Workspace`.

use serde_json::{Value, json};

pub fn schema() -> Value {
    json!({
        "description": "Workspace is a logical cluster, served at /clusters/<path>. Creating one in a workspace makes a child \
            of that workspace; deleting it deletes its contents first.",
        "type": "object",
        "properties": {
            "spec": {
                "description": "Desired behavior of the workspace.",
                "type": "object",
                "properties": {
                    "grain": {
                        "description": "How new workloads of the workspace are placed: \"pod\", Atoll's controllers create the pods and \
                            place each of them; \"object\", the whole workload is placed and the cluster creates the pods. \
                            The label atoll.dev/grain of a namespace has precedence. Defaults to the server's setting.",
                        "type": "string",
                        "enum": ["object", "pod"],
                    },
                    "limits": {
                        "description": "Limits of the workspace together with all workspaces below it. When a limit is lowered, existing \
                            objects stay, but none can be added. Changing limits requires permission to change \
                            this object, which is in the parent workspace.",
                        "type": "object",
                        "properties": {
                            "objects": {
                                "description": "Maximum number of objects of all kinds. Defaults to 100000.",
                                "type": "integer",
                                "format": "int64",
                                "minimum": 0,
                            },
                            "bytes": {
                                "description": "Maximum total size of the JSON of all objects, for instance 512Mi. \
                                    Each JSON object within them counts as 128 further bytes. Existing objects may exceed it by a tenth. Defaults to 512Mi.",
                                "x-kubernetes-int-or-string": true,
                            },
                            "definitions": {
                                "description": "Maximum number of CustomResourceDefinitions. Defaults to 1000.",
                                "type": "integer",
                                "format": "int64",
                                "minimum": 0,
                            },
                        },
                    },
                },
            },
            "status": {
                "description": "Observed state of the workspace. Set by Atoll, not by users.",
                "type": "object",
                "properties": {
                    "id": {
                        "description": "The id of the workspace in keys, tokens and certificates. It is never reused and cannot be \
                            changed.",
                        "type": "string",
                    },
                    "phase": {
                        "description": "Ready from creation on, Deleting while its contents are being deleted.",
                        "type": "string",
                        "enum": ["Deleting", "Ready"],
                    },
                    "message": { "description": "The reason why its deletion is not complete.", "type": "string" },
                },
            },
        },
    })
}
