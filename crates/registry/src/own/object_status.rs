//! `ObjectStatus`.

use serde_json::{Value, json};

pub fn schema() -> Value {
    let text = |what: &str| json!({ "description": what, "type": "string" });
    json!({
        "description": "ObjectStatus is how one object fares in one cluster that it is placed on. Whoever syncs the cluster \
            writes it; the status of the object is made of all of them.",
        "type": "object",
        "properties": {
            "spec": {
                "description": "Which object, and where.",
                "type": "object",
                "properties": {
                    "cluster": text("The name of the Cluster."),
                    "clusterUID": text("The uid of the Cluster: another one may have the same name later."),
                    "namespace": text("The namespace of the object, here."),
                    "name": text("The name of the object."),
                    "uid": text("The uid of the object, here."),
                    "resource": {
                        "description": "What the object is.",
                        "type": "object",
                        "properties": {
                            "group": text("The API group; empty for the core group."),
                            "version": text("The version that is sent to the cluster."),
                            "resource": text("The plural, as in URLs."),
                        },
                    },
                },
            },
            "status": {
                "description": "What was last heard of it.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "state": text(
                        "Applied: it is there as it should be. Conflict: something else has its name there. Refused: it was not \
                         sent, or not taken; the message says why."
                    ),
                    "message": text("Why it is so, for people."),
                    "generation": {
                        "description": "The generation of the object, here, that the cluster has.", "type": "integer",
                    },
                    "observed": {
                        "description": "Whether controllers of the cluster have seen that.", "type": "boolean",
                    },
                    "status": {
                        "description": "The status that the object has there, if it has one.",
                        "nullable": true,
                        "x-kubernetes-preserve-unknown-fields": true,
                    },
                },
            },
        },
    })
}
