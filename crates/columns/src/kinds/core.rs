//! The core group, except for Pods and volumes.

// upstream: pkg/printers/internalversion/printers.go

use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, NAME_AND_AGE, PLAIN, network, pod, storage, workloads};
use crate::fields::{flag, length, list, map, number, text, text_or};
use crate::format::{distinct, since};
use crate::{Cell, Column, Printer};

pub fn printer(kind: &str) -> &'static Printer {
    match kind {
        "Pod" => &pod::POD,
        "PodTemplate" => &POD_TEMPLATE,
        "ReplicationController" => &workloads::REPLICATION_CONTROLLER,
        "Service" => &network::SERVICE,
        "Endpoints" => &network::ENDPOINTS,
        "PersistentVolume" => &storage::PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => &storage::PERSISTENT_VOLUME_CLAIM,
        "ConfigMap" => &CONFIG_MAP,
        "Secret" => &SECRET,
        "Namespace" => &NAMESPACE,
        "Node" => &NODE,
        "Event" => &EVENT,
        "ServiceAccount" => &NAME_AND_AGE,
        "ResourceQuota" => &RESOURCE_QUOTA,
        "ComponentStatus" => &COMPONENT_STATUS,
        _ => &PLAIN,
    }
}

static POD_TEMPLATE: Printer = Printer::new(&[
    NAME,
    Column::new("Containers", Cell::ContainerNames("template.spec"), "Names of the containers."),
    Column::new("Images", Cell::ContainerImages("template.spec"), "Images of the containers."),
    Column::new("Pod Labels", Cell::Labels("template.metadata.labels"), "Labels of the pods."),
]);

static CONFIG_MAP: Printer = Printer::new(&[
    NAME,
    Column::new(
        "Data",
        Cell::Special(|object, _| (length(object, "data") + length(object, "binaryData")).into()),
        "Number of entries.",
    ),
    AGE,
]);

static SECRET: Printer = Printer::new(&[
    NAME,
    Column::new("Type", Cell::Text("type"), "Type of the secret."),
    Column::new("Data", Cell::Length("data"), "Number of entries."),
    AGE,
]);

static NAMESPACE: Printer =
    Printer::new(&[NAME, Column::new("Status", Cell::Text("status.phase"), "Phase of the namespace."), AGE]);

static NODE: Printer = Printer::new(&[
    NAME,
    Column::new("Status", Cell::Special(node_status), "Whether the node is ready and schedulable."),
    Column::new("Roles", Cell::Special(node_roles), "Roles of the node."),
    AGE,
    Column::new("Version", Cell::Text("status.nodeInfo.kubeletVersion"), "Version of the kubelet."),
    Column::new("Internal-IP", Cell::Special(|node, _| address(node, "InternalIP")), "Internal address.")
        .wide(),
    Column::new("External-IP", Cell::Special(|node, _| address(node, "ExternalIP")), "External address.")
        .wide(),
    Column::new("OS-Image", Cell::TextOr("status.nodeInfo.osImage", "<unknown>"), "Operating system.").wide(),
    Column::new("Kernel-Version", Cell::Special(kernel), "Version of the kernel.").wide(),
    Column::new(
        "Container-Runtime",
        Cell::TextOr("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
        "Container runtime and version.",
    )
    .wide(),
]);

fn node_status(node: &Value, _: Timestamp) -> Value {
    // The last condition of a type counts.
    let ready = list(node, "status.conditions").iter().rfind(|condition| text(condition, "type") == "Ready");
    let status = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match flag(node, "spec.unschedulable") {
        true => format!("{status},SchedulingDisabled").into(),
        false => status.into(),
    }
}

fn node_roles(node: &Value, _: Timestamp) -> Value {
    let roles = map(node, "metadata.labels").filter_map(|(label, value)| {
        let value = value.as_str().unwrap_or_default();
        let role = label.strip_prefix("node-role.kubernetes.io/");
        role.or((label == "kubernetes.io/role").then_some(value)).filter(|role| !role.is_empty())
    });
    match distinct(roles) {
        roles if roles.is_empty() => "<none>".into(),
        roles => roles.into(),
    }
}

fn address(node: &Value, kind: &str) -> Value {
    let found = list(node, "status.addresses").iter().find(|address| text(address, "type") == kind);
    found.map_or("<none>", |address| text(address, "address")).into()
}

fn kernel(node: &Value, _: Timestamp) -> Value {
    let version = text_or(node, "status.nodeInfo.kernelVersion", "<unknown>");
    match text(node, "status.nodeInfo.architecture") {
        "" => version.into(),
        architecture => format!("{version} ({architecture})").into(),
    }
}

/// The printer of events of both groups. events.k8s.io has other names for some fields.
pub static EVENT: Printer = Printer::new(&[
    Column::new(
        "Last Seen",
        Cell::Special(|event, now| last_seen(event, now).into()),
        "Time since the last occurrence.",
    ),
    Column::new("Type", Cell::Text("type"), "Normal or Warning."),
    Column::new("Reason", Cell::Text("reason"), "Reason of the event."),
    Column::new("Object", Cell::Special(involved), "Object of the event."),
    Column::new(
        "Subobject",
        Cell::Special(|event, _| either(event, "involvedObject.fieldPath", "regarding.fieldPath").into()),
        "Part of the object.",
    )
    .wide(),
    Column::new("Source", Cell::Special(source), "Component that reports the event.").wide(),
    Column::new(
        "Message",
        Cell::Special(|event, _| either(event, "message", "note").trim().into()),
        "Description of the event.",
    ),
    Column::new(
        "First Seen",
        Cell::Special(|event, now| first_seen(event, now).into()),
        "Time since the first occurrence.",
    )
    .wide(),
    Column::new("Count", Cell::Special(count), "Number of occurrences.").wide(),
    NAME.wide(),
]);

fn either<'v>(object: &'v Value, path: &str, other: &str) -> &'v str {
    text_or(object, path, text(object, other))
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    let first = either(event, "firstTimestamp", "deprecatedFirstTimestamp");
    since(if first.is_empty() { text(event, "eventTime") } else { first }, now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if event.get("series").is_some_and(Value::is_object) {
        return since(text(event, "series.lastObservedTime"), now);
    }
    match either(event, "lastTimestamp", "deprecatedLastTimestamp") {
        "" => first_seen(event, now),
        last => since(last, now),
    }
}

fn count(event: &Value, _: Timestamp) -> Value {
    if event.get("series").is_some_and(Value::is_object) {
        return number(event, "series.count").into();
    }
    match number(event, "count") + number(event, "deprecatedCount") {
        // Reporters with the new API do not count single events.
        0 => 1.into(),
        count => count.into(),
    }
}

fn involved(event: &Value, _: Timestamp) -> Value {
    let kind = either(event, "involvedObject.kind", "regarding.kind").to_lowercase();
    match either(event, "involvedObject.name", "regarding.name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(event: &Value, _: Timestamp) -> Value {
    let reporter = either(event, "reportingComponent", "reportingController");
    let component =
        text_or(event, "source.component", text_or(event, "deprecatedSource.component", reporter));
    let instance = text_or(
        event,
        "source.host",
        text_or(event, "deprecatedSource.host", text(event, "reportingInstance")),
    );
    match instance {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}

static RESOURCE_QUOTA: Printer = Printer::new(&[
    NAME,
    Column::new(
        "Request",
        Cell::Special(|quota, _| used(quota, false)),
        "Used and hard amounts of requests.",
    ),
    Column::new("Limit", Cell::Special(|quota, _| used(quota, true)), "Used and hard amounts of limits."),
    AGE,
]);

fn used(quota: &Value, limits: bool) -> Value {
    let used = quota.get("status").and_then(|status| status.get("used"));
    let parts = map(quota, "status.hard").filter(|(name, _)| name.starts_with("limits.") == limits);
    let parts = parts.map(|(name, hard)| {
        let used = used.and_then(|used| used.get(name)).and_then(Value::as_str).unwrap_or("0");
        format!("{name}: {used}/{}", hard.as_str().unwrap_or("0"))
    });
    parts.collect::<Vec<_>>().join(", ").into()
}

static COMPONENT_STATUS: Printer = Printer::new(&[
    NAME,
    Column::new("Status", Cell::Special(health), "Whether the component is healthy."),
    Column::new(
        "Message",
        Cell::Special(|object, _| healthy(object, "message")),
        "Message of the component.",
    ),
    Column::new("Error", Cell::Special(|object, _| healthy(object, "error")), "Error of the component."),
]);

fn healthy(object: &Value, field: &str) -> Value {
    let found = list(object, "conditions").iter().find(|condition| text(condition, "type") == "Healthy");
    found.map_or("", |condition| text(condition, field)).into()
}

fn health(object: &Value, _: Timestamp) -> Value {
    match healthy(object, "status").as_str() {
        Some("True") => "Healthy",
        Some("") | None => "Unknown",
        _ => "Unhealthy",
    }
    .into()
}
