//! Cluster-level kinds: leases, priorities, devices, APIs, and Atoll's own kinds.

// upstream: pkg/printers/internalversion/printers.go
// upstream: staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/etcd/etcd.go

use std::cmp::Ordering;

use atoll_meta::LabelSelector;
use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, NAME_AND_AGE, PLAIN};
use crate::fields::{at, condition, is_deleting, list, number, text};
use crate::{Cell, Column, Printer};

pub fn printer(group: &str, kind: &str) -> &'static Printer {
    match (group, kind) {
        ("coordination.k8s.io", "Lease") => &LEASE,
        ("scheduling.k8s.io", "PriorityClass") => &PRIORITY_CLASS,
        ("node.k8s.io", "RuntimeClass") => &RUNTIME_CLASS,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => &PRIORITY_LEVEL,
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => &NAME_AND_AGE,
        ("resource.k8s.io", "ResourceClaim") => &RESOURCE_CLAIM,
        ("resource.k8s.io", "ResourceSlice") => &RESOURCE_SLICE,
        ("apiregistration.k8s.io", "APIService") => &API_SERVICE,
        ("atoll.dev", "ApiImport") => &API_IMPORT,
        ("atoll.dev", "Cluster") => &CLUSTER,
        ("atoll.dev", "ClusterPlacementPolicy" | "PlacementPolicy") => &PLACEMENT_POLICY,
        ("atoll.dev", "ObjectStatus") => &OBJECT_STATUS,
        ("atoll.dev", "Workspace") => &WORKSPACE,
        _ => &PLAIN,
    }
}

static LEASE: Printer = Printer::new(&[
    NAME,
    Column::new("Holder", Cell::Text("spec.holderIdentity"), "Identity of the holder."),
    AGE,
]);

static PRIORITY_CLASS: Printer = Printer::new(&[
    NAME,
    Column::new("Value", Cell::Number("value"), "Priority value; higher values are scheduled first.")
        .integer(),
    Column::new(
        "Global-Default",
        Cell::Flag("globalDefault", false),
        "Whether it applies to pods without a priority class.",
    )
    .boolean(),
    AGE,
    Column::new(
        "PreemptionPolicy",
        Cell::Text("preemptionPolicy"),
        "Whether pods with lower priority are preempted.",
    ),
]);

static RUNTIME_CLASS: Printer = Printer::new(&[
    NAME,
    Column::new("Handler", Cell::Text("handler"), "Handler of the container runtime."),
    AGE,
]);

static FLOW_SCHEMA: Printer = Printer {
    order: Some(by_precedence),
    ..Printer::new(&[
        NAME,
        Column::new(
            "PriorityLevel",
            Cell::Text("spec.priorityLevelConfiguration.name"),
            "Priority level of the requests.",
        ),
        Column::new(
            "MatchingPrecedence",
            Cell::Number("spec.matchingPrecedence"),
            "Precedence; lower values are matched first.",
        ),
        Column::new(
            "DistinguisherMethod",
            Cell::Given("spec.distinguisherMethod.type", "<none>"),
            "How requests are grouped into flows.",
        ),
        AGE,
        Column::new("MissingPL", Cell::Special(dangling), "Whether that priority level is missing."),
    ])
};

fn by_precedence(one: &Value, other: &Value) -> Ordering {
    let key = |schema: &Value| number(schema, "spec.matchingPrecedence");
    let name = |schema| text(schema, "metadata.name");
    key(one).cmp(&key(other)).then_with(|| name(one).cmp(name(other)))
}

fn dangling(schema: &Value, _: Timestamp) -> Value {
    condition(schema, "Dangling").map_or("?", |condition| text(condition, "status")).into()
}

static PRIORITY_LEVEL: Printer = Printer::new(&[
    NAME,
    Column::new("Type", Cell::Text("spec.type"), "Whether requests are limited."),
    Column::new(
        "NominalConcurrencyShares",
        Cell::Special(|level, _| limited(level, "spec.limited", "nominalConcurrencyShares")),
        "Share of the server's concurrency.",
    ),
    Column::new("Queues", Cell::Special(|level, _| queuing(level, "queues")), "Number of queues."),
    Column::new(
        "HandSize",
        Cell::Special(|level, _| queuing(level, "handSize")),
        "Number of queues per flow.",
    ),
    Column::new(
        "QueueLengthLimit",
        Cell::Special(|level, _| queuing(level, "queueLengthLimit")),
        "Maximum length of a queue.",
    ),
    AGE,
]);

fn queuing(level: &Value, field: &str) -> Value {
    limited(level, "spec.limited.limitResponse.queuing", field)
}

fn limited(level: &Value, path: &str, field: &str) -> Value {
    at(level, path).map_or_else(|| "<none>".into(), |limits| number(limits, field).into())
}

static RESOURCE_CLAIM: Printer = Printer::new(&[
    NAME,
    Column::new("State", Cell::Special(claim_state), "Allocation state of the claim."),
    AGE,
]);

fn claim_state(claim: &Value, _: Timestamp) -> Value {
    let allocated = at(claim, "status.allocation").is_some();
    let mut states = Vec::new();
    if is_deleting(claim) {
        states.push("deleted");
    } else if !allocated {
        states.push("pending");
    }
    if allocated {
        states.push("allocated");
        if !list(claim, "status.reservedFor").is_empty() {
            states.push("reserved");
        }
    }
    states.join(",").into()
}

static RESOURCE_SLICE: Printer = Printer::new(&[
    NAME,
    Column::new("Node", Cell::Text("spec.nodeName"), "Node of the devices."),
    Column::new("Driver", Cell::Text("spec.driver"), "Driver of the devices."),
    Column::new("Pool", Cell::Text("spec.pool.name"), "Pool of the devices."),
    AGE,
]);

static API_SERVICE: Printer = Printer {
    always_headed: true,
    ..Printer::new(&[
        NAME,
        Column::new("Service", Cell::Special(service), "Service that serves the API."),
        Column::new("Available", Cell::Special(available), "Whether the API is available."),
        AGE,
    ])
};

fn service(api: &Value, _: Timestamp) -> Value {
    match at(api, "spec.service") {
        Some(service) => format!("{}/{}", text(service, "namespace"), text(service, "name")).into(),
        None => "Local".into(),
    }
}

fn available(api: &Value, _: Timestamp) -> Value {
    let Some(condition) = condition(api, "Available") else { return "Unknown".into() };
    match (text(condition, "status"), text(condition, "reason")) {
        ("True", _) => "True".into(),
        (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}

static CLUSTER: Printer = Printer::new(&[
    NAME,
    Column::new("Mode", Cell::Text("spec.mode"), "How the cluster is synced."),
    Column::new("Ready", Cell::Special(ready), "Whether the cluster is ready, and why not."),
    Column::new("Version", Cell::TextOr("status.kubernetesVersion", "<unknown>"), "Kubernetes version."),
    Column::new("Nodes", Cell::Special(nodes), "Ready and total nodes."),
    Column::new("CPU", Cell::Special(|cluster, _| used(cluster, "cpu")), "Requested and allocatable CPU."),
    Column::new(
        "Memory",
        Cell::Special(|cluster, _| used(cluster, "memory")),
        "Requested and allocatable memory.",
    ),
    Column::new("Region", Cell::TextOr("status.region", "<none>"), "Region of the cluster."),
    Column::new(
        "Heartbeat",
        Cell::SinceOr("status.syncer.lastHeartbeatTime", "<never>"),
        "Time since the last heartbeat.",
    ),
    AGE,
    Column::new("Latency", Cell::Text("status.latency"), "Latency of the cluster's API.").wide(),
    Column::new("ID", Cell::Text("status.id"), "ID of the cluster.").wide(),
]);

static API_IMPORT: Printer = Printer::new(&[
    NAME,
    Column::new("Cluster", Cell::Text("spec.cluster"), "Name of the cluster."),
    Column::new("Kind", Cell::Text("spec.kind"), "Kind of the objects."),
    Column::new("Offered", Cell::Special(offered), "Whether workspaces inherit this definition."),
    Column::new("Compatible", Cell::Special(compatible), "Whether the cluster accepts what is offered."),
    AGE,
    Column::new(
        "Message",
        Cell::Special(|import, _| {
            condition(import, "Compatible").map_or("", |it| text(it, "message")).into()
        }),
        "Differences from the offered definition.",
    )
    .wide(),
]);

fn offered(import: &Value, _: Timestamp) -> Value {
    status_and_reason(import, "Offered")
}

fn compatible(import: &Value, _: Timestamp) -> Value {
    status_and_reason(import, "Compatible")
}

/// The status of a condition, and the reason if it is not true.
fn status_and_reason(object: &Value, kind: &str) -> Value {
    match condition(object, kind).map(|condition| (text(condition, "status"), text(condition, "reason"))) {
        None => "Unknown".into(),
        Some(("True", _)) => "True".into(),
        Some((status, reason)) => format!("{status} ({reason})").into(),
    }
}

static OBJECT_STATUS: Printer = Printer::new(&[
    NAME,
    Column::new("Cluster", Cell::Text("spec.cluster"), "Name of the cluster."),
    Column::new("Resource", Cell::Text("spec.resource.resource"), "Resource of the object."),
    Column::new("Object", Cell::Text("spec.name"), "Name of the object."),
    Column::new("State", Cell::Special(object_state), "State of the object in the cluster."),
    AGE,
    Column::new("Message", Cell::Text("status.message"), "Details of the state."),
]);

/// The state, and whether the object keeps an earlier Pod template until its turn in a rollout.
fn object_state(status: &Value, _: Timestamp) -> Value {
    let state = text(status, "status.state");
    match at(status, "status.held").and_then(Value::as_bool) {
        Some(true) => format!("{state},Held").into(),
        _ => state.into(),
    }
}

/// The taint of a fenced cluster.
const FENCED: &str = "atoll.dev/fenced";

fn ready(cluster: &Value, _: Timestamp) -> Value {
    let unschedulable = at(cluster, "spec.unschedulable").and_then(Value::as_bool).unwrap_or(false);
    let mut shown = match condition(cluster, "Ready") {
        None => "Unknown".to_string(),
        Some(condition) => match (text(condition, "status"), text(condition, "reason")) {
            ("True", _) => "True".to_string(),
            (status, reason) => format!("{status} ({reason})"),
        },
    };
    if unschedulable {
        shown.push_str(",SchedulingDisabled");
    }
    let taints = at(cluster, "spec.taints").and_then(Value::as_array).into_iter().flatten();
    if taints.into_iter().any(|taint| text(taint, "key") == FENCED) {
        shown.push_str(",Fenced");
    }
    let is_paused = at(cluster, "spec.paused").and_then(Value::as_bool).unwrap_or(false);
    if is_paused || at(cluster, "status.paused").is_some() {
        shown.push_str(",Paused");
    }
    shown.into()
}

fn nodes(cluster: &Value, _: Timestamp) -> Value {
    match at(cluster, "status.nodes") {
        Some(nodes) => format!("{}/{}", number(nodes, "ready"), number(nodes, "total")).into(),
        None => "<unknown>".into(),
    }
}

fn used(cluster: &Value, resource: &str) -> Value {
    let of = |list: &str| at(cluster, "status").and_then(|status| status[list][resource].as_str());
    match of("allocatable") {
        Some(allocatable) => format!("{}/{allocatable}", of("requested").unwrap_or("0")).into(),
        None => "<unknown>".into(),
    }
}

static PLACEMENT_POLICY: Printer = Printer::new(&[
    NAME,
    Column::new(
        "Division",
        Cell::TextOr("spec.replicas.division", "Single"),
        "How replicas are shared between clusters.",
    ),
    Column::new("Clusters", Cell::Special(allowed_clusters), "Clusters that may be used."),
    Column::new(
        "Matched",
        Cell::Special(|policy, _| counted(policy, "matched")),
        "Objects that it applies to.",
    ),
    Column::new(
        "Placed",
        Cell::Special(|policy, _| counted(policy, "placed")),
        "Objects that it has placed.",
    ),
    AGE,
    Column::new("Failover", Cell::Special(failover), "When the share of a lost cluster is replaced.").wide(),
]);

/// The clusters of a policy by name and by label, then those that are excluded.
fn allowed_clusters(policy: &Value, _: Timestamp) -> Value {
    let Some(clusters) = at(policy, "spec.clusters") else { return "<all>".into() };
    let names = |of: &Value, field: &str| -> Vec<String> {
        list(of, field).iter().filter_map(Value::as_str).map(str::to_string).collect()
    };
    let mut shown = Vec::new();
    for term in std::iter::once(clusters).chain(list(clusters, "affinity")) {
        shown.extend(names(term, "names"));
        let selector = at(term, "selector").and_then(|selector| LabelSelector::from_object(selector).ok());
        shown.extend(selector.map(|selector| selector.to_string()).filter(|text| !text.is_empty()));
    }
    if shown.is_empty() {
        shown.push("<all>".into());
    }
    shown.extend(names(clusters, "exclude").iter().map(|name| format!("!{name}")));
    shown.join(",").into()
}

fn counted(policy: &Value, field: &str) -> Value {
    match at(policy, "status").and_then(|status| status.get(field)) {
        Some(count) if count.is_number() => count.to_string().into(),
        _ => "<unknown>".into(),
    }
}

fn failover(policy: &Value, _: Timestamp) -> Value {
    match text(policy, "spec.failover.mode") {
        "Never" => "Never".into(),
        _ => match text(policy, "spec.failover.after") {
            "" => "15s".into(),
            after => after.into(),
        },
    }
}

static WORKSPACE: Printer = Printer::new(&[
    NAME,
    Column::new("Phase", Cell::Text("status.phase"), "Phase of the workspace."),
    AGE,
    Column::new("ID", Cell::Text("status.id"), "ID of the workspace.").wide(),
    Column::new(
        "Grain",
        Cell::TextOr("spec.grain", "<default>"),
        "Whether workloads are placed as objects or pod by pod.",
    )
    .wide(),
]);
