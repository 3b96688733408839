//! The schemas of `PlacementPolicy` and `ClusterPlacementPolicy`.

use serde_json::{Value, json};

use super::cluster::{fields, list, one_of, text};

pub fn of_namespace() -> Value {
    let description = "PlacementPolicy says on which clusters objects of its namespace run, and how their replicas are shared between \
        clusters. Of several policies that match an object, the most specific one applies: policies of the namespace before \
        those of its workspace, and these before those of workspaces above; then names before labels before kinds; of \
        equal ones the oldest, then the first by name.";
    schema(description, spec())
}

pub fn of_workspace() -> Value {
    let description = "ClusterPlacementPolicy says on which clusters objects of its workspace, and of all workspaces below, run, and \
        how their replicas are shared between clusters. A PlacementPolicy in the namespace of an object has precedence, and so \
        has a ClusterPlacementPolicy of a nearer workspace.";
    let mut spec = spec();
    spec["properties"]["namespaceSelector"] =
        selector("Labels of the namespaces whose objects the policy applies to. Defaults to all namespaces.");
    schema(description, spec)
}

fn schema(description: &str, spec: Value) -> Value {
    json!({
        "description": description,
        "type": "object",
        "properties": { "spec": spec, "status": status() },
    })
}

fn number(description: &str, least: i64) -> Value {
    json!({ "description": description, "type": "integer", "format": "int64", "minimum": least })
}

fn texts(description: &str) -> Value {
    list(description, &json!({ "type": "string" }))
}

fn selector(description: &str) -> Value {
    let mut expression = fields(
        "",
        &json!({
            "key": text("Key of the label."),
            "operator": text("Relation of the label to the values: In, NotIn, Exists or DoesNotExist."),
            "values": texts("Values of the label, for In and NotIn."),
        }),
    );
    expression["required"] = json!(["key", "operator"]);
    let mut selector = fields(
        description,
        &json!({
            "matchLabels": {
                "description": "Labels and their values.", "type": "object", "additionalProperties": { "type": "string" },
            },
            "matchExpressions": list("Requirements on labels, all of which must be met.", &expression),
        }),
    );
    selector["x-kubernetes-map-type"] = "atomic".into();
    selector
}

fn spec() -> Value {
    let by =
        "What distinguishes domains: \"region\", \"zone\", \"provider\" or the key of a label of Clusters.";
    let mut spread = fields(
        "",
        &json!({
            "by": text(by),
            "minDomains": number("Minimum number of domains with a share of the object.", 1),
            "maxDomains": number("Maximum number of domains with a share of the object.", 1),
            "maxSkew": number("Maximum difference between the replicas of two domains.", 1),
        }),
    );
    spread["required"] = json!(["by"]);
    let properties = json!({
        "objects": list(
            "Objects that the policy applies to: those that match one of these. Defaults to all workloads: Deployments, ReplicaSets, \
             ReplicationControllers, StatefulSets, DaemonSets, Jobs and CronJobs.",
            &object()
        ),
        "clusters": clusters(),
        "replicas": replicas(),
        "bounds": fields("Limits of placements.", &json!({
            "minClusters": number("Minimum number of clusters.", 1),
            "maxClusters": number("Maximum number of clusters.", 1),
            "minReplicas": number("Minimum number of replicas on each cluster that is used.", 0),
            "maxReplicas": number("Maximum number of replicas on each cluster.", 1),
        })),
        "spread": list("How the object is spread over domains, that is, over groups of clusters.", &spread),
        "affinity": list("Workloads of the namespace that must run in the same domain.", &workload()),
        "antiAffinity": list("Workloads of the namespace that must not run in the same domain.", &workload()),
        "failover": fields("What happens to the share of a cluster that is lost.", &json!({
            "after": text("How long the cluster must have been not Ready before its share is replaced, such as 5m. Defaults to 15s."),
            "mode": one_of("Whether the share is replaced on other clusters. Defaults to Automatic.", &["Automatic", "Never"]),
        })),
        "failback": fields("What happens when a lost cluster returns.", &json!({
            "after": text("How long the cluster must have been Ready before it gets a share again, such as 5m. Defaults to 30s."),
            "mode": one_of("Whether it gets a share again. Defaults to Automatic.", &["Automatic", "Never"]),
        })),
        "disruption": fields("The disruption budget of moves between clusters.", &json!({
            "maxMoving": {
                "description": "Maximum number of replicas of an object that are moved at the same time: an integer, or a percentage of \
                    its replicas, rounded up. 0 means that nothing is moved. Defaults to all.",
                "x-kubernetes-int-or-string": true,
            },
        })),
        "rollout": fields("How a new pod template reaches the clusters.", &json!({
            "strategy": one_of(
                "AllAtOnce, within the limits of the object's own strategy, or OneByOne, each cluster after the previous one is \
                 healthy. Defaults to AllAtOnce.",
                &["AllAtOnce", "OneByOne"]
            ),
            "deadline": text(
                "How long Pods of a new template may take to become available on a cluster before the rollout counts as halted, \
                 such as 5m. Deployments have progressDeadlineSeconds instead. Defaults to 10m."
            ),
        })),
    });
    fields("Rules of the policy.", &properties)
}

fn object() -> Value {
    fields(
        "",
        &json!({
            "group": text("API group of the kind; empty for the core group. Defaults to any."),
            "kind": text("Kind, such as Deployment, or * for all custom kinds that a cluster serves. Defaults to all workloads."),
            "name": text("Name of the object. Defaults to any."),
            "selector": selector("Labels of the objects. Defaults to all objects."),
        }),
    )
}

fn clusters() -> Value {
    let term = fields(
        "",
        &json!({
            "selector": selector("Labels of the Clusters."),
            "names": texts("Names of clusters."),
        }),
    );
    let toleration = fields(
        "",
        &json!({
            "key": text("The taint key; empty with the operator Exists for all taints."),
            "operator": text("Exists, or Equal to the value. Defaults to Equal."),
            "value": text("The taint value."),
            "effect": text("The taint effect; empty for all effects."),
        }),
    );
    fields(
        "Clusters that may be used. Defaults to all.",
        &json!({
            "selector": selector("Labels of the Clusters."),
            "names": texts("Names of clusters."),
            "exclude": texts("Names of clusters that are not used."),
            "affinity": list("Groups of clusters in order of preference: the first one that suffices is used.", &term),
            "tolerations": list("Taints of Clusters that are tolerated.", &toleration),
        }),
    )
}

fn replicas() -> Value {
    let mut weight = fields(
        "",
        &json!({
            "cluster": text("Name of a cluster."),
            "selector": selector("Labels of the Clusters. The first matching weight counts; a cluster named in another one has that."),
            "weight": number("The weight. A cluster without one gets no replicas.", 0),
        }),
    );
    weight["required"] = json!(["weight"]);
    fields(
        "How replicas are shared between clusters.",
        &json!({
            "division": one_of(
                "Single: all run on one cluster. Duplicate: each cluster runs all of them. Even: they are divided evenly. Weighted: they \
                 are divided by weights. Capacity: they are divided by free capacity. Pack: they run on as few clusters as \
                 possible. None: the object stays in the control plane. Defaults to one cluster.",
                &["Single", "Duplicate", "Even", "Weighted", "Capacity", "Pack", "None"]
            ),
            "weights": list("Weights of clusters, for the division Weighted.", &weight),
        }),
    )
}

fn workload() -> Value {
    let mut workload = fields(
        "",
        &json!({
            "kind": text("Kind of the workloads, such as Deployment. Defaults to all."),
            "selector": selector("Labels of the workloads."),
            "by": text("What distinguishes domains: \"cluster\", \"region\", \"zone\", \"provider\" or the key of a label of Clusters. Defaults to \"cluster\"."),
        }),
    );
    workload["required"] = json!(["selector"]);
    workload
}

fn status() -> Value {
    let mut condition = fields(
        "",
        &json!({
            "type": text("Type of the condition: Matched."),
            "status": text("True, False or Unknown."),
            "reason": text("Reason in CamelCase, such as NoObjects."),
            "message": text("Explanation, and what to do next."),
            "observedGeneration": number("The generation of the policy that the condition is based on.", 0),
            "lastTransitionTime": json!({ "description": "Time of the last change of the status.", "type": "string", "format": "date-time" }),
        }),
    );
    condition["required"] = json!(["type", "status"]);
    let mut conditions =
        list("Conditions of the policy: Matched, whether it applies to any object.", &condition);
    conditions["x-kubernetes-list-type"] = "map".into();
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    fields(
        "Observed state of the policy. Set by Atoll, not by users.",
        &json!({
            "observedGeneration": number("The generation of the policy that the status is based on.", 0),
            "matched": number("Number of objects that the policy applies to.", 0),
            "placed": number("Number of these that are placed on clusters by the policy.", 0),
            "conditions": conditions,
        }),
    )
}
