//! Warnings about accepted objects: deprecated fields and values with surprising effects.
//!
//! ```text
//! warnings_for(group, resource) ─ Warnings ─┬ input     the object of a create request, before defaulting
//!                                           ├ object    the object to be stored, with the old object on update
//!                                           └ status    the same for the status
//! ```

// upstream: pkg/api/node/util.go
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go

mod addresses;
mod definitions;
mod network;
mod pod;
mod storage;
mod tls;
mod volumes;
mod workload;

use atoll_meta::names;
use atoll_meta::object;
use atoll_meta::quote::quote;
use serde_json::Value;

use crate::field_value::FieldValue;

pub use pod::app_armor_profile;

/// The warnings of one kind.
#[derive(Debug)]
pub struct Warnings {
    pub input: fn(&Value) -> Vec<String>,
    /// Arguments: the new object, the old one.
    pub object: fn(&Value, Option<&Value>) -> Vec<String>,
    pub status: fn(&Value) -> Vec<String>,
}

impl Warnings {
    pub const NONE: Warnings =
        Warnings { input: |_| Vec::new(), object: |_, _| Vec::new(), status: |_| Vec::new() };
}

static NONE: Warnings = Warnings::NONE;
static ADMISSION: Warnings = Warnings { object: |new, _| reserved_name(new), ..Warnings::NONE };
static NODES: Warnings = Warnings { object: |new, _| node(new), ..Warnings::NONE };
static QUOTAS: Warnings = Warnings { object: quota, ..Warnings::NONE };
static RUNTIME_CLASSES: Warnings = Warnings { object: |new, _| runtime_class(new), ..Warnings::NONE };
static SECRETS: Warnings = Warnings { object: |new, _| secret(new), ..Warnings::NONE };
static SERVICE_ACCOUNTS: Warnings = Warnings { object: service_account, ..Warnings::NONE };
static SLICES: Warnings = Warnings { object: |new, _| resource_slice(new), ..Warnings::NONE };

/// Returns the warnings of a built-in resource.
pub fn warnings_for(group: &str, resource: &str) -> &'static Warnings {
    match (group, resource) {
        ("", "endpoints") => &network::ENDPOINTS,
        ("", "nodes") => &NODES,
        ("", "persistentvolumeclaims") => &storage::CLAIMS,
        ("", "persistentvolumes") => &storage::VOLUMES,
        ("", "pods") => &workload::PODS,
        ("", "podtemplates") => &workload::POD_TEMPLATES,
        ("", "replicationcontrollers") => &workload::REPLICATION_CONTROLLERS,
        ("", "resourcequotas") => &QUOTAS,
        ("", "secrets") => &SECRETS,
        ("", "serviceaccounts") => &SERVICE_ACCOUNTS,
        ("", "services") => &network::SERVICES,
        ("admissionregistration.k8s.io", _) => &ADMISSION,
        ("apiextensions.k8s.io", _) => &definitions::DEFINITIONS,
        ("apps", "daemonsets") => &workload::DAEMON_SETS,
        ("apps", "deployments" | "replicasets") => &workload::REPLICATED,
        ("apps", "statefulsets") => &workload::STATEFUL_SETS,
        ("batch", "cronjobs") => &workload::CRON_JOBS,
        ("batch", "jobs") => &workload::JOBS,
        ("discovery.k8s.io", "endpointslices") => &network::ENDPOINT_SLICES,
        ("networking.k8s.io", "ingresses") => &network::INGRESSES,
        ("networking.k8s.io", "networkpolicies") => &network::POLICIES,
        ("node.k8s.io", "runtimeclasses") => &RUNTIME_CLASSES,
        ("resource.k8s.io", "resourceslices") => &SLICES,
        ("storage.k8s.io", "csidrivers") => &storage::DRIVERS,
        ("storage.k8s.io", "csistoragecapacities") => &storage::CAPACITIES,
        ("storage.k8s.io", "storageclasses") => &storage::CLASSES,
        _ => &NONE,
    }
}

/// Returns the deprecation warning of a resource.
pub fn deprecated(group: &str, version: &str, resource: &str) -> Option<&'static str> {
    match (group, version, resource) {
        ("", "v1", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "v1", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

const STATIC_SUFFIX: &str = ".static.k8s.io";

fn reserved_name(new: &Value) -> Vec<String> {
    let message = || {
        format!(
            "metadata.name: names ending with {} are reserved for static manifest-based configurations and cannot be \
             managed via the API",
            quote(STATIC_SUFFIX)
        )
    };
    object::name(new).ends_with(STATIC_SUFFIX).then(message).into_iter().collect()
}

/// Warns about a name that is not a valid DNS label, where pods derive their host names from it.
fn host_name(new: &Value, used: &str, warnings: &mut Vec<String>) {
    let broken = names::dns1123_label(object::name(new));
    if !broken.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: \
             [{}]",
            broken.join(" ")
        ));
    }
}

const NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
    ),
    (
        "beta.kubernetes.io/instance-type",
        r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#,
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];

/// Returns the warning about a deprecated node label.
fn node_label(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, message)| *message)
}

/// Warns about deprecated labels and invalid values in a node selector term.
fn node_selector_term(term: &FieldValue<'_>, check_values: bool, warnings: &mut Vec<String>) {
    for expression in term.get("matchExpressions").items() {
        let key = expression.get("key");
        if let Some(message) = node_label(key.text()) {
            warnings.push(format!("{}: {} is {message}", key.path, key.text()));
        }
        if check_values {
            for value in expression.get("values").items() {
                let broken = names::label_value(value.text()).into_iter();
                warnings.extend(
                    broken.map(|rule| format!("{}: {} is invalid, {rule}", value.path, value.text())),
                );
            }
        }
    }
}

/// Warns about a fractional number of bytes.
fn fraction(amount: &FieldValue<'_>, warnings: &mut Vec<String>) {
    if amount.quantity().is_some_and(|quantity| quantity.millis() % 1000 != 0) {
        let text = quote(amount.text());
        warnings
            .push(format!("{}: fractional byte value {text} is invalid, must be an integer", amount.path));
    }
}

fn node(new: &Value) -> Vec<String> {
    let spec = FieldValue::field(new, "spec");
    let mut warnings = Vec::new();
    if spec.has("configSource") {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !spec.text_of("externalID").is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    spec.get("podCIDRs").items().for_each(|range| addresses::range(&range, &mut warnings));
    warnings
}

fn runtime_class(new: &Value) -> Vec<String> {
    let selector = FieldValue::field(new, "scheduling").get("nodeSelector");
    let labels = selector.entries().filter_map(|(key, _)| node_label(key));
    labels.map(|message| format!("scheduling.nodeSelector: {message}")).collect()
}

fn secret(new: &Value) -> Vec<String> {
    let pair = || {
        let data = FieldValue::field(new, "data");
        tls::key_pair(data.text_of("tls.crt"), data.text_of("tls.key"))
    };
    (FieldValue::field(new, "type").text() == "kubernetes.io/tls").then(pair).flatten().into_iter().collect()
}

const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

fn service_account(new: &Value, old: Option<&Value>) -> Vec<String> {
    let had = old.is_some_and(|old| object::annotation(old, MOUNTABLE).is_some());
    match object::annotation(new, MOUNTABLE) {
        Some(_) if !had => vec![format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to \
             mounted secrets"
        )],
        _ => Vec::new(),
    }
}

fn resource_slice(new: &Value) -> Vec<String> {
    let spec = FieldValue::field(new, "spec");
    let driver = spec.text_of("driver");
    let message = || {
        format!(
            "spec.driver: driver names should be lowercase; {} contains uppercase characters",
            quote(driver)
        )
    };
    (driver != driver.to_lowercase()).then(message).into_iter().collect()
}

/// Warns about requests that exceed the limits of a quota.
fn quota(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let hard = FieldValue::field(new, "spec").get("hard");
    let hard = |name: &str| hard.entries().find(|(key, _)| *key == name).map(|(_, field)| field);
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let name = format!("requests.{resource}");
        let bare = || matches!(resource, "cpu" | "memory").then(|| (resource.to_owned(), hard(resource)));
        let request = match hard(&name) {
            Some(request) => Some((name, Some(request))),
            None => bare(),
        };
        let limit = format!("limits.{resource}");
        let (Some((name, Some(request))), Some(most)) = (request, hard(&limit)) else { continue };
        if request.quantity() > most.quantity() {
            let (request, most) = (request.text(), most.text());
            warnings.push(format!("ResourceQuota {name} ({request}) should be less than {limit} ({most})"));
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
