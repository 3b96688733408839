//! The schema of `ObjectStatus`.

use serde_json::{Value, json};

fn pods() -> Value {
    let count = |description: &str| json!({ "description": description, "type": "integer" });
    let text = |description: &str| json!({ "description": description, "type": "string" });
    json!({
        "description": "The pods of a workload in the cluster, without those that have finished.",
        "type": "object",
        "properties": {
            "total": count("All pods."),
            "ready": count("Pods that are ready."),
            "pending": count("Pods that do not run yet."),
            "unschedulable": count("Pending pods for which the scheduler of the cluster finds no node."),
            "reason": text("The message of the scheduler about one of them."),
            "bound": count("Pods that have a node."),
            "usage": {
                "description": "Resources that ready pods use, where the cluster has metrics.",
                "type": "object",
                "properties": {
                    "cpu": text("CPU, as a quantity."),
                    "memory": text("Memory, as a quantity."),
                    "pods": count("Ready pods that were measured."),
                    "requests": {
                        "description": "Requests of these pods. A resource that one of them does not request is left out.",
                        "type": "object",
                        "properties": { "cpu": text("CPU, as a quantity."), "memory": text("Memory, as a quantity.") },
                    },
                },
            },
        },
    })
}

fn endpoints() -> Value {
    let count = |description: &str| json!({ "description": description, "type": "integer" });
    let text = |description: &str| json!({ "description": description, "type": "string" });
    let flag = |description: &str| json!({ "description": description, "type": "boolean" });
    let port = json!({
        "type": "object",
        "properties": {
            "name": text("The name of the port."),
            "port": count("The port."),
            "protocol": text("TCP, UDP or SCTP."),
            "appProtocol": text("The application protocol."),
        },
    });
    let endpoint = json!({
        "type": "object",
        "properties": {
            "address": text("The address of the pod in the network of the cluster."),
            "ready": flag("Whether it accepts new connections."),
            "serving": flag("Whether it responds, even while its pod ends."),
            "terminating": flag("Whether its pod is being deleted."),
            "hostname": text("The host name of the pod, if it has one in the DNS."),
            "zone": text("The zone of its node."),
        },
    });
    let slice = json!({
        "type": "object",
        "properties": {
            "addressType": text("IPv4 or IPv6."),
            "ports": { "description": "The ports of each endpoint.", "type": "array", "items": port },
            "endpoints": { "description": "The endpoints.", "type": "array", "items": endpoint },
        },
    });
    json!({
        "description": "The endpoints of a Service in the cluster.",
        "type": "object",
        "properties": {
            "slices": { "description": "Endpoints with the same ports.", "type": "array", "items": slice },
            "ready": count("The number of pods that are ready."),
            "cut": count("The number of endpoints that were left out, because there are too many or they are not valid."),
        },
    })
}

pub fn schema() -> Value {
    let text = |description: &str| json!({ "description": description, "type": "string" });
    json!({
        "description": "ObjectStatus is the report about one placed object in one cluster. The syncer of the cluster writes it; \
            the status of the object is aggregated from all of them.",
        "type": "object",
        "properties": {
            "spec": {
                "description": "The object and its cluster.",
                "type": "object",
                "properties": {
                    "cluster": text("The name of the Cluster."),
                    "clusterUID": text("The uid of the Cluster: a later Cluster may have the same name."),
                    "namespace": text("The namespace of the object in the control plane."),
                    "name": text("The name of the object."),
                    "uid": text("The uid of the object in the control plane."),
                    "resource": {
                        "description": "The resource of the object.",
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
                "description": "The last report.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "state": text(
                        "Applied: the object in the cluster is up to date. Conflict: another object in the cluster has its name. Refused: it was \
                         not sent, or not accepted; see the message."
                    ),
                    "message": text("Explanation of the state."),
                    "generation": {
                        "description": "The generation of the object in the control plane that was applied to the cluster.", "type": "integer",
                    },
                    "observed": {
                        "description": "Whether controllers of the cluster have observed that generation.", "type": "boolean",
                    },
                    "held": {
                        "description": "Whether the object has an earlier pod template, because the turn of the cluster in a rollout has not come.",
                        "type": "boolean",
                    },
                    "pods": pods(),
                    "endpoints": endpoints(),
                    "replicas": {
                        "description": "spec.replicas of the object in the cluster, which an autoscaler there may have set.",
                        "type": "integer",
                    },
                    "status": {
                        "description": "The status of the object in the cluster, if it has one.",
                        "nullable": true,
                        "x-kubernetes-preserve-unknown-fields": true,
                    },
                },
            },
        },
    })
}
