//! The schema of `Cluster`.

use serde_json::{Value, json};

pub fn schema() -> Value {
    json!({
        "description": "Cluster is a Kubernetes cluster that has joined the control plane: objects of its workspace, and of all workspaces \
            below, can be placed on it. \"atoll cluster join\" creates one.",
        "type": "object",
        "properties": { "spec": spec(), "status": status() },
    })
}

pub(super) fn text(description: &str) -> Value {
    json!({ "description": description, "type": "string" })
}

fn flag(description: &str) -> Value {
    json!({ "description": description, "type": "boolean" })
}

pub(super) fn one_of(description: &str, words: &[&str]) -> Value {
    json!({ "description": description, "type": "string", "enum": words })
}

pub(super) fn list(description: &str, items: &Value) -> Value {
    json!({ "description": description, "type": "array", "items": items })
}

pub(super) fn fields(description: &str, properties: &Value) -> Value {
    json!({ "description": description, "type": "object", "properties": properties })
}

fn texts(description: &str) -> Value {
    json!({ "description": description, "type": "object", "additionalProperties": { "type": "string" } })
}

fn quantities(description: &str) -> Value {
    let quantity = json!({ "x-kubernetes-int-or-string": true });
    json!({ "description": description, "type": "object", "additionalProperties": quantity })
}

fn spec() -> Value {
    let properties = json!({
        "mode": one_of(
            "How the cluster is synced: \"push\", by the control plane; \"pull\", by an agent in the cluster; \"none\", not until \
             \"atoll syncer\" is run by hand.",
            &["none", "pull", "push"]
        ),
        "access": one_of(
            "Access of the syncer: \"manage\" objects in the cluster, or only \"observe\" them.",
            &["manage", "observe"]
        ),
        "credentials": fields("Credentials of the control plane for the cluster.", &json!({
            "secret": fields("The Secret that contains the kubeconfig.", &json!({
                "namespace": text("Namespace of the Secret."), "name": text("Name of the Secret."),
            })),
        })),
        "kubeconfig": text("Not allowed: put credentials into a Secret and name it in credentials.secret."),
        "unschedulable": flag("Whether no new objects are placed on the cluster, as after \"atoll cluster cordon\"."),
        "paused": flag("Whether objects are neither placed on the cluster nor moved or deleted, as after \"atoll pause --cluster\"."),
        "taints": taints(),
        "limits": quantities("Maximum total requests of the objects placed on the cluster, by resource."),
        "drift": one_of(
            "Handling of drift, that is, of changes by other clients of the cluster to placed objects: \"correct\" or only \"report\" it.",
            &["correct", "report"]
        ),
        "controllers": one_of(
            "Whether workloads may run on the cluster whose ServiceAccounts have permissions in their workspace.",
            &["allow", "refuse"]
        ),
        "workspaces": list(
            "Workspaces that may place objects on the cluster: paths relative to the workspace of the Cluster, such as \"team\" or \
             \"org:team\", each with all workspaces below it. Defaults to all of them; the workspace of the Cluster itself is \
             always allowed. Placed objects stay when a workspace is removed.",
            &json!({ "type": "string" })
        ),
        "podSecurity": one_of(
            "The Pod Security level that placed pods must meet. Defaults to \"baseline\" for workspaces below the one of the \
             Cluster and to \"privileged\" for that one itself. Placed objects stay.",
            &["privileged", "baseline", "restricted"]
        ),
        "overrides": list("Changes to objects that are placed on the cluster, applied in order.", &override_row()),
    });
    fields("Desired behavior of the cluster.", &properties)
}

fn taints() -> Value {
    let effects = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
    let mut taint = fields(
        "",
        &json!({
            "key": text("The taint key."),
            "value": text("The taint value."),
            "effect": one_of("The effect on objects that do not tolerate the taint.", &effects),
            "timeAdded": json!({ "description": "Time at which the taint was added.", "type": "string", "format": "date-time" }),
        }),
    );
    taint["required"] = json!(["key", "effect"]);
    let mut taints = list("Taints, which keep away objects that do not tolerate them.", &taint);
    taints["x-kubernetes-list-type"] = "map".into();
    taints["x-kubernetes-list-map-keys"] = json!(["key", "effect"]);
    taints
}

fn override_row() -> Value {
    let word = json!({ "type": "string" });
    let mut variable = fields(
        "",
        &json!({ "name": text("Name of the variable."), "value": text("Value of the variable.") }),
    );
    variable["required"] = json!(["name"]);
    let operation = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    fields(
        "",
        &json!({
            "match": fields("The objects to change; an omitted field matches all.", &json!({
                "kinds": list("Kinds, such as Deployment or Deployment.apps.", &word),
                "namespaces": list("Namespaces.", &word),
                "labels": texts("Labels of the objects."),
            })),
            "registry": fields("Replacement of the image registry.", &json!({
                "from": text("A registry or a path in one; omitted, all registries."),
                "to": text("The new registry, optionally with a path."),
            })),
            "storageClass": texts("Storage class names in the cluster, by the name in the control plane."),
            "env": list("Environment variables that are set in all containers.", &variable),
            "labels": texts("Labels that are added."),
            "annotations": texts("Annotations that are added."),
            "patch": list("A JSON patch, applied last.", &operation),
        }),
    )
}

/// Unknown fields are preserved, because a newer syncer may report more.
fn status() -> Value {
    let condition = fields(
        "",
        &json!({
            "type": text("Type of the condition: Ready, Reachable, Schedulable, NamespacesMapped where namespaces of other workspaces have plain names, RightsComplete where the syncer lacks rights, or PodsReachApi."),
            "status": text("True, False or Unknown."),
            "reason": text("Reason in CamelCase."),
            "message": text("Explanation, and what to do next."),
            "observedGeneration": json!({ "description": "The generation of the Cluster that the condition is based on.", "type": "integer" }),
            "lastTransitionTime": json!({ "description": "Time of the last change of the status.", "type": "string", "format": "date-time" }),
        }),
    );
    let nodes = fields(
        "Number of nodes.",
        &json!({
            "total": { "description": "All nodes.", "type": "integer" },
            "ready": { "description": "Nodes that are ready.", "type": "integer" },
        }),
    );
    let integer = |description: &str| json!({ "description": description, "type": "integer" });
    let word = json!({ "type": "string" });
    let mut room = fields(
        "",
        &json!({
            "nodes": integer("Number of nodes in the group."),
            "labels": texts("Labels that all nodes of the group have, except for their host names."),
            "taints": taints(),
            "resources": quantities("Free resources of each node, by resource."),
        }),
    );
    // Older control planes stored resources without this field.
    room["x-kubernetes-preserve-unknown-fields"] = true.into();
    let mut status = fields(
        "Last reported state of the cluster. Set by Atoll, not by users.",
        &json!({
            "id": text("The uid of the namespace kube-system. A different cluster at the same address is not written to."),
            "conditions": list("Conditions of the cluster: Ready, Reachable, Schedulable.", &condition),
            "kubernetesVersion": text("The version of the API server."),
            "nodes": nodes,
            "capacity": quantities("Total resources of all nodes."),
            "allocatable": quantities("Resources that are available to Pods."),
            "requested": quantities("Total requests of Pods."),
            "free": list(
                "Ready and schedulable nodes, in groups with equal labels, equal taints and similar free resources.",
                &room
            ),
            "bound": {
                "description": "Pods that have a node when \"free\" was computed, by the uid of the placed object that owns them.",
                "type": "object",
                "additionalProperties": { "type": "integer" },
            },
            "classes": fields("Names of classes in the cluster; an omitted list is not known.", &json!({
                "priority": list("PriorityClasses.", &word),
                "storage": list("StorageClasses.", &word),
                "runtime": list("RuntimeClasses.", &word),
                "ingress": list("IngressClasses.", &word),
            })),
            "apis": list("Resources that the cluster serves, by API group.", &fields("", &json!({
                "group": text("The API group; empty for the core group."),
                "versions": list("Served versions, the preferred one first.", &word),
                "resources": list("Resources that the syncer may create and change.", &word),
                "refused": list("Resources for which the syncer has no rights.", &word),
            }))),
            "quotas": list(
                "What ResourceQuotas of the cluster leave to Pods in its namespaces. Pods without a node do not count.",
                &fields("", &json!({
                    "workspace": text("The id of the workspace."),
                    "namespace": text("The namespace in the workspace."),
                    "left": quantities("What is left, by resource."),
                }))
            ),
            "missingRights": list("Rights that the syncer lacks, such as \"list pods.metrics.k8s.io\".", &word),
            "cut": fields("Parts that were left out of this status because it would be too large.", &json!({
                "nodes": integer("Number of nodes that are in no group of \"free\"."),
                "labels": list("Keys of labels that nodes have and that are not in \"free\".", &word),
                "bound": integer("Number of objects that are not in \"bound\"."),
                "classes": integer("Number of classes that are not in \"classes\"."),
                "apis": integer("Number of resources that are not in \"apis\"."),
                "quotas": integer("Number of namespaces that are not in \"quotas\"."),
            })),
            "region": text("The region, from the labels of the nodes."),
            "zones": list("The zones, from the labels of the nodes.", &json!({ "type": "string" })),
            "latency": text("Response time of the API server."),
            "unmappedNamespaces": list(
                "Namespaces of the cluster that Atoll did not create, or that have a plain name, and that workspaces other \
                 than the one of the Cluster use without a label that allows it.",
                &fields("", &json!({
                    "name": text("The name in the cluster."),
                    "workspace": text("The id of the workspace."),
                    "path": text("The path of the workspace."),
                }))
            ),
            "paused": text("The reason why the cluster is paused, if it is."),
            "problem": fields("The problem that the last heartbeat reported, if any.", &json!({
                "reason": text("Reason in CamelCase."),
                "message": { "description": "Explanation, and what to do next.", "type": "string", "nullable": true },
            })),
            "failures": list(
                "Times of recent failures, or of the last one. After too many of them, the cluster becomes ready with a delay.",
                &json!({ "type": "string", "format": "date-time" })
            ),
            "syncer": fields("The syncer.", &json!({
                "instance": text("Name of the instance; push is the control plane itself."),
                "version": text("Version of the syncer."),
                "lastHeartbeatTime": json!({ "description": "Time of the last heartbeat.", "type": "string", "format": "date-time" }),
            })),
        }),
    );
    status["x-kubernetes-preserve-unknown-fields"] = true.into();
    status
}
