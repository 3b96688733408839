//! Usage of pods.

// upstream: pkg/quota/v1/evaluator/core/pods.go

mod sums;

use std::collections::{BTreeMap, BTreeSet};

use atoll_meta::views::PodView;
use atoll_meta::{names, object, time};
use serde_json::Value;

use crate::amounts::Amounts;
use crate::scopes::Scope;
use sums::{ResourceSide, is_pod_level};

const COUNT: &str = "count/pods";
const NAMES: [&str; 11] = [
    COUNT,
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// Quota names that require every container to specify an amount.
const REQUIRED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const REQUESTS: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub fn matches(name: &str) -> bool {
    let huge = name.strip_prefix(REQUESTS).unwrap_or(name).starts_with(HUGE_PAGES);
    NAMES.contains(&name) || huge || is_extended_for_quota(name)
}

/// Whether a quota name is an extended resource, such as `requests.example.com/gpu`, or a device class.
pub fn is_extended_for_quota(name: &str) -> bool {
    name.strip_prefix(REQUESTS).is_some_and(|rest| !is_native(name) || rest.starts_with(DEVICE_CLASS))
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a container's resource name is an extended resource.
fn is_extended(name: &str) -> bool {
    let own = !is_native(name) && !name.starts_with(REQUESTS);
    (own && names::qualified_name(&format!("{REQUESTS}{name}")).is_empty()) || name.starts_with(DEVICE_CLASS)
}

pub fn usage(pod: &Value, now: i64) -> Amounts {
    let mut usage = Amounts::default();
    // A finished pod counts as an object, but uses no resources.
    if is_alive(pod, now) {
        usage = compute(&sums::of(pod, ResourceSide::Requests), &sums::of(pod, ResourceSide::Limits));
    }
    usage.set_count(COUNT, 1);
    usage
}

/// Returns the requests of a pod, with `missing` for each container that does not specify them.
pub fn requests(pod: &Value, missing: &Amounts) -> Amounts {
    sums::with_missing(pod, ResourceSide::Requests, missing)
}

/// Whether the pod is neither finished nor past its deletion grace period.
fn is_alive(pod: &Value, now: i64) -> bool {
    if PodView::of(pod).is_finished() {
        return false;
    }
    let deleted = object::deletion_timestamp(pod).and_then(|time| time::parse(time).ok());
    match (deleted, object::deletion_grace_period_seconds(pod)) {
        (Some(deleted), Some(grace)) => now <= deleted.seconds.saturating_add(grace),
        _ => true,
    }
}

fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::default();
    usage.set_count("pods", 1);
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            usage.set(name, request.clone());
            usage.set(format!("{REQUESTS}{name}"), request.clone());
        }
        if let Some(limit) = limits.get(name) {
            usage.set(format!("limits.{name}"), limit.clone());
        }
    }
    for (name, request) in requests.iter() {
        if name.starts_with(HUGE_PAGES) {
            usage.set(name, request.clone());
        }
        if name.starts_with(HUGE_PAGES) || is_extended(name) {
            usage.set(format!("{REQUESTS}{name}"), request.clone());
        }
    }
    usage
}

pub fn constrain(required: &[&str], pod: &Value) -> Result<(), String> {
    let pod_level = &pod["spec"]["resources"];
    if is_pod_level(&pod_level["requests"]) || is_pod_level(&pod_level["limits"]) {
        return Ok(());
    }
    let required: BTreeSet<&str> = required.iter().copied().filter(|name| REQUIRED.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["containers", "initContainers"].into_iter().flat_map(|list| containers(pod, list)) {
        let resources = &container["resources"];
        let specified = compute(&Amounts::read(&resources["requests"]), &Amounts::read(&resources["limits"]));
        for name in required.iter().filter(|name| !specified.contains(name)) {
            missing.entry(name).or_default().insert(container["name"].as_str().unwrap_or_default());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let parts = missing.into_iter().map(|(name, containers)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    });
    Err(format!("must specify {}", parts.collect::<Vec<_>>().join("; ")))
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    pod["spec"][list].as_array().into_iter().flatten()
}

pub fn is_within(scope: &Scope, pod: &Value) -> Result<bool, String> {
    let priority = pod["spec"]["priorityClassName"].as_str().filter(|class| !class.is_empty());
    match scope.name.as_str() {
        "Terminating" => Ok(is_terminating(pod)),
        "NotTerminating" => Ok(!is_terminating(pod)),
        "BestEffort" => Ok(is_best_effort(pod)),
        "NotBestEffort" => Ok(!is_best_effort(pod)),
        "PriorityClass" if scope.is_exists() => Ok(priority.is_some()),
        "PriorityClass" => scope.selects(priority.as_slice()),
        "CrossNamespacePodAffinity" => Ok(has_cross_namespace_affinity(pod)),
        _ => Ok(false),
    }
}

/// Whether the pod has an active deadline.
pub fn is_terminating(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

fn is_best_effort(pod: &Value) -> bool {
    if let Some(quality) = pod["status"]["qosClass"].as_str().filter(|quality| !quality.is_empty()) {
        return quality == "BestEffort";
    }
    let has_resources = |resources: &Value| {
        ["requests", "limits"].into_iter().any(|side| {
            let amounts = Amounts::read(&resources[side]);
            let positive = |name| amounts.get(name).is_some_and(|own| !own.is_zero() && !own.is_negative());
            positive("cpu") || positive("memory")
        })
    };
    if pod["spec"]["resources"].is_object() {
        return !has_resources(&pod["spec"]["resources"]);
    }
    let mut all = ["containers", "initContainers"].into_iter().flat_map(|list| containers(pod, list));
    !all.any(|container| has_resources(&container["resources"]))
}

fn has_cross_namespace_affinity(pod: &Value) -> bool {
    let affinity = &pod["spec"]["affinity"];
    let terms =
        |kind: &'static str, when: &'static str| affinity[kind][when].as_array().into_iter().flatten();
    let is_cross_namespace = |term: &Value| {
        term["namespaces"].as_array().is_some_and(|named| !named.is_empty())
            || term["namespaceSelector"].is_object()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        terms(kind, "requiredDuringSchedulingIgnoredDuringExecution").any(is_cross_namespace)
            || terms(kind, "preferredDuringSchedulingIgnoredDuringExecution")
                .any(|weighted| is_cross_namespace(&weighted["podAffinityTerm"]))
    })
}
