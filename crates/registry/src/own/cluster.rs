//! `Cluster`.

use serde_json::{Value, json};

pub fn schema() -> Value {
    json!({
        "description": "Cluster is a physical cluster that has joined: objects of its workspace, and of all below it, can be \
            placed on it. \"atoll cluster join\" makes one.",
        "type": "object",
        "properties": { "spec": spec(), "status": status() },
    })
}

fn text(what: &str) -> Value {
    json!({ "description": what, "type": "string" })
}

fn flag(what: &str) -> Value {
    json!({ "description": what, "type": "boolean" })
}

fn one_of(what: &str, words: &[&str]) -> Value {
    json!({ "description": what, "type": "string", "enum": words })
}

fn list(what: &str, items: &Value) -> Value {
    json!({ "description": what, "type": "array", "items": items })
}

fn fields(what: &str, properties: &Value) -> Value {
    json!({ "description": what, "type": "object", "properties": properties })
}

fn texts(what: &str) -> Value {
    json!({ "description": what, "type": "object", "additionalProperties": { "type": "string" } })
}

fn quantities(what: &str) -> Value {
    let quantity = json!({ "x-kubernetes-int-or-string": true });
    json!({ "description": what, "type": "object", "additionalProperties": quantity })
}

fn spec() -> Value {
    let properties = json!({
        "mode": one_of(
            "Who syncs it: \"push\", the control plane itself; \"none\", whoever runs \"atoll syncer\" for it; \"pull\", an agent \
             in the cluster.",
            &["none", "pull", "push"]
        ),
        "access": one_of(
            "What may be done in it: \"manage\" it, or only \"observe\" what runs there.",
            &["manage", "observe"]
        ),
        "credentials": fields("By what the control plane gets in.", &json!({
            "secret": fields("The Secret that has them.", &json!({
                "namespace": text("Its namespace."), "name": text("Its name."),
            })),
        })),
        "kubeconfig": text("Refused: credentials belong into a Secret, which credentials.secret names."),
        "unschedulable": flag("Whether nothing new is placed there, as after \"atoll cluster cordon\"."),
        "paused": flag("Whether nothing is placed, moved or deleted there, as after \"atoll pause --cluster\"."),
        "taints": taints(),
        "limits": quantities("The most that all work placed there may ask for, by resource; for who schedules, which nobody does yet."),
        "drift": one_of(
            "What becomes of changes that others make there to what is placed: \"correct\" them, or \"report\" and leave them.",
            &["correct", "report"]
        ),
        "controllers": one_of(
            "Whether workloads run there whose ServiceAccounts have rights in their workspace.",
            &["allow", "refuse"]
        ),
        "workspaces": list(
            "Workspaces that may place objects there: paths relative to the workspace of the Cluster, such as \"team\" or \
             \"org:team\", each with all workspaces below it. Without it, all of them; the workspace of the Cluster always may. \
             What is placed already stays when a workspace is taken off.",
            &json!({ "type": "string" })
        ),
        "podSecurity": one_of(
            "The Pod Security level that placed pods must meet. Without it, \"baseline\" for workspaces below the one of the \
             Cluster and \"privileged\" for that one itself. What is placed already stays.",
            &["privileged", "baseline", "restricted"]
        ),
        "overrides": list("What is different about objects there; one row is applied after the other.", &override_row()),
    });
    fields("What the cluster is for, and how it is reached.", &properties)
}

fn taints() -> Value {
    let effects = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
    let mut taint = fields(
        "",
        &json!({
            "key": text("What it is about."),
            "value": text("More about that."),
            "effect": one_of("What it keeps away, and whether that has to leave.", &effects),
            "timeAdded": json!({ "description": "Since when.", "type": "string", "format": "date-time" }),
        }),
    );
    taint["required"] = json!(["key", "effect"]);
    let mut taints = list("What keeps work away that does not tolerate it.", &taint);
    taints["x-kubernetes-list-type"] = "map".into();
    taints["x-kubernetes-list-map-keys"] = json!(["key", "effect"]);
    taints
}

fn override_row() -> Value {
    let word = json!({ "type": "string" });
    let mut variable = fields("", &json!({ "name": text("Its name."), "value": text("Its value.") }));
    variable["required"] = json!(["name"]);
    let operation = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    fields(
        "",
        &json!({
            "match": fields("Which objects are meant; of what is left out, any.", &json!({
                "kinds": list("Kinds, such as Deployment or Deployment.apps.", &word),
                "namespaces": list("Namespaces.", &word),
                "labels": texts("Labels that they have."),
            })),
            "registry": fields("Where images come from instead.", &json!({
                "from": text("A registry, or part of one; without it, any."),
                "to": text("The registry, perhaps with folders, that has them."),
            })),
            "storageClass": texts("Names of storage classes by those that people wrote."),
            "env": list("Variables that all containers have.", &variable),
            "labels": texts("Labels that objects have besides."),
            "annotations": texts("Annotations that objects have besides."),
            "patch": list("A JSON patch, applied last.", &operation),
        }),
    )
}

/// What is said of it changes with whoever syncs it: what a newer one says is kept.
fn status() -> Value {
    let condition = fields(
        "",
        &json!({
            "type": text("Ready, Reachable or Schedulable; NamespacesMapped where namespaces of other workspaces have plain names."),
            "status": text("True, False or Unknown."),
            "reason": text("Why, in a word."),
            "message": text("Why, and what to do next."),
            "observedGeneration": json!({ "description": "Of which generation of the Cluster.", "type": "integer" }),
            "lastTransitionTime": json!({ "description": "Since when.", "type": "string", "format": "date-time" }),
        }),
    );
    let nodes = fields(
        "How many nodes it has.",
        &json!({
            "total": { "description": "All of them.", "type": "integer" },
            "ready": { "description": "Those that are ready.", "type": "integer" },
        }),
    );
    let room = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut status = fields(
        "How the cluster is, as far as it was heard. Set by Atoll, never by users.",
        &json!({
            "id": text("The uid of its namespace kube-system. Another cluster behind the same address is not written to."),
            "conditions": list("Whether it is Ready, Reachable and Schedulable, and why not.", &condition),
            "kubernetesVersion": text("The version of its API server."),
            "nodes": nodes,
            "capacity": quantities("What all of its nodes have."),
            "allocatable": quantities("What of that is for Pods."),
            "requested": quantities("What Pods ask for."),
            "free": list("How much room nodes have: so many nodes have so much left, each.", &room),
            "region": text("Where it is, as its nodes say."),
            "zones": list("Its zones, as its nodes say.", &json!({ "type": "string" })),
            "latency": text("How long it takes to answer."),
            "unmappedNamespaces": list(
                "Namespaces of the cluster, made there by others or under a plain name, that are in use by workspaces other \
                 than the one of the Cluster without a label that allows it.",
                &fields("", &json!({
                    "name": text("The name in the cluster."),
                    "workspace": text("The id of the workspace."),
                    "path": text("The path of the workspace."),
                }))
            ),
            "paused": text("Why nothing is placed, moved or deleted there, if that is so."),
            "syncer": fields("Who syncs it.", &json!({
                "instance": text("Its name; push is the control plane itself."),
                "version": text("Its version."),
                "lastHeartbeatTime": json!({ "description": "When it was last heard.", "type": "string", "format": "date-time" }),
            })),
        }),
    );
    status["x-kubernetes-preserve-unknown-fields"] = true.into();
    status
}
