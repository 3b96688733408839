//! The schema of `ApiImport`.

use serde_json::{Value, json};

pub fn schema() -> Value {
    let text = |description: &str| json!({ "description": description, "type": "string" });
    let definition = |description: &str| json!({ "description": description, "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let condition = json!({
        "type": "object",
        "properties": {
            "type": text("Offered or Compatible."),
            "status": text("True or False."),
            "reason": text("The reason in one word."),
            "message": text("Details: for an incompatible cluster, the fields that differ."),
            "lastTransitionTime": text("The time of the last change of the status."),
        },
    });
    json!({
        "description": "ApiImport is a definition of custom resources that a cluster has, as its syncer has reported it. \
            The workspace of the Cluster and those below it inherit the definition from one of them.",
        "type": "object",
        "properties": {
            "spec": {
                "description": "The definition in the cluster.",
                "type": "object",
                "properties": {
                    "cluster": text("The name of the Cluster."),
                    "clusterUID": text("The uid of the Cluster: a later Cluster may have the same name."),
                    "group": text("The API group."),
                    "resource": text("The plural, as in URLs."),
                    "kind": text("The kind of the objects."),
                    "digest": text("Changes with the definition in the cluster."),
                    "served": {
                        "description": "Whether the cluster still serves the resource.", "type": "boolean",
                    },
                    "approval": text("The annotation api-approved.kubernetes.io, which groups of Kubernetes need."),
                    "problem": text("The reason why the definition is not imported. Delete the ApiImport to try again."),
                    "definition": definition(
                        "The spec of the CustomResourceDefinition in the cluster: its served versions, without conversion."
                    ),
                },
            },
            "status": {
                "description": "What became of the definition.",
                "type": "object",
                "properties": {
                    "conditions": {
                        "description": "Offered: workspaces inherit this definition. Compatible: objects of the offered \
                            definition fit the one of the cluster.",
                        "type": "array",
                        "items": condition,
                    },
                    "misfit": text("Why the definition is of no use in the workspace, although the cluster serves it."),
                    "definition": definition(
                        "The spec that is offered, if it is narrower than the one of the cluster because of other clusters."
                    ),
                },
            },
        },
    })
}
