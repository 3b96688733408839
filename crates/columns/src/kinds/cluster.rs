//! The cluster itself: leases, priorities, devices, APIs, and Atoll's own kinds.

use std::cmp::Ordering;

use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, NAME_AND_AGE, PLAIN};
use crate::look::{at, condition, is_deleting, list, number, text};
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
        ("atoll.dev", "Cluster") => &CLUSTER,
        ("atoll.dev", "ObjectStatus") => &OBJECT_STATUS,
        ("atoll.dev", "Workspace") => &WORKSPACE,
        _ => &PLAIN,
    }
}

static LEASE: Printer =
    Printer::new(&[NAME, Column::new("Holder", Cell::Text("spec.holderIdentity"), "Who has it."), AGE]);

static PRIORITY_CLASS: Printer = Printer::new(&[
    NAME,
    Column::new("Value", Cell::Number("value"), "The higher, the sooner.").integer(),
    Column::new(
        "Global-Default",
        Cell::Flag("globalDefault", false),
        "Whether it is for pods that name none.",
    )
    .boolean(),
    AGE,
    Column::new("PreemptionPolicy", Cell::Text("preemptionPolicy"), "Whether others must make room."),
]);

static RUNTIME_CLASS: Printer =
    Printer::new(&[NAME, Column::new("Handler", Cell::Text("handler"), "What runs the containers."), AGE]);

static FLOW_SCHEMA: Printer = Printer {
    order: Some(by_precedence),
    ..Printer::new(&[
        NAME,
        Column::new(
            "PriorityLevel",
            Cell::Text("spec.priorityLevelConfiguration.name"),
            "Where requests wait.",
        ),
        Column::new(
            "MatchingPrecedence",
            Cell::Number("spec.matchingPrecedence"),
            "The lower, the sooner it is asked.",
        ),
        Column::new(
            "DistinguisherMethod",
            Cell::Given("spec.distinguisherMethod.type", "<none>"),
            "What makes requests a flow.",
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
    Column::new("Type", Cell::Text("spec.type"), "Whether it is limited."),
    Column::new(
        "NominalConcurrencyShares",
        Cell::Special(|level, _| limited(level, "spec.limited", "nominalConcurrencyShares")),
        "Its part of all places.",
    ),
    Column::new("Queues", Cell::Special(|level, _| queuing(level, "queues")), "How many queues it has."),
    Column::new(
        "HandSize",
        Cell::Special(|level, _| queuing(level, "handSize")),
        "How many of them a flow uses.",
    ),
    Column::new(
        "QueueLengthLimit",
        Cell::Special(|level, _| queuing(level, "queueLengthLimit")),
        "How long each is.",
    ),
    AGE,
]);

fn queuing(level: &Value, field: &str) -> Value {
    limited(level, "spec.limited.limitResponse.queuing", field)
}

fn limited(level: &Value, path: &str, field: &str) -> Value {
    at(level, path).map_or_else(|| "<none>".into(), |limits| number(limits, field).into())
}

static RESOURCE_CLAIM: Printer =
    Printer::new(&[NAME, Column::new("State", Cell::Special(claim_state), "Whether it has devices."), AGE]);

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
    Column::new("Node", Cell::Text("spec.nodeName"), "Where the devices are."),
    Column::new("Driver", Cell::Text("spec.driver"), "Who knows them."),
    Column::new("Pool", Cell::Text("spec.pool.name"), "What they are part of."),
    AGE,
]);

static API_SERVICE: Printer = Printer {
    always_headed: true,
    ..Printer::new(&[
        NAME,
        Column::new("Service", Cell::Special(service), "Who serves it."),
        Column::new("Available", Cell::Special(available), "Whether it is served."),
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
    Column::new("Mode", Cell::Text("spec.mode"), "Who copies to it and from it."),
    Column::new("Ready", Cell::Special(ready), "Whether work can go there, and why not."),
    Column::new("Version", Cell::TextOr("status.kubernetesVersion", "<unknown>"), "Of Kubernetes."),
    Column::new("Nodes", Cell::Special(nodes), "How many of its nodes are ready."),
    Column::new(
        "CPU",
        Cell::Special(|cluster, _| used(cluster, "cpu")),
        "What pods ask for, of what there is.",
    ),
    Column::new(
        "Memory",
        Cell::Special(|cluster, _| used(cluster, "memory")),
        "What pods ask for, of what there is.",
    ),
    Column::new("Region", Cell::TextOr("status.region", "<none>"), "Where it is."),
    Column::new(
        "Heartbeat",
        Cell::SinceOr("status.syncer.lastHeartbeatTime", "<never>"),
        "How long ago it was heard of.",
    ),
    AGE,
    Column::new("Latency", Cell::Text("status.latency"), "How long it takes to answer.").wide(),
    Column::new("ID", Cell::Text("status.id"), "By which it is known.").wide(),
]);

static OBJECT_STATUS: Printer = Printer::new(&[
    NAME,
    Column::new("Cluster", Cell::Text("spec.cluster"), "Where."),
    Column::new("Resource", Cell::Text("spec.resource.resource"), "Of which kind."),
    Column::new("Object", Cell::Text("spec.name"), "Which."),
    Column::new("State", Cell::Text("status.state"), "Whether the cluster has it."),
    AGE,
    Column::new("Message", Cell::Text("status.message"), "What is wrong."),
]);

/// Taint of a cluster on which nothing runs any more.
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

static WORKSPACE: Printer = Printer::new(&[
    NAME,
    Column::new("Phase", Cell::Text("status.phase"), "Whether it can be used."),
    AGE,
    Column::new("ID", Cell::Text("status.id"), "What its keys are made of.").wide(),
    Column::new(
        "Grain",
        Cell::TextOr("spec.grain", "<default>"),
        "Where pods are made of what is created in it.",
    )
    .wide(),
]);
