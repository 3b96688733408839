//! Names and quantities of compute resources.

// upstream: pkg/apis/core/validation/validation.go
// upstream: pkg/apis/core/helper/helpers.go

use std::collections::{BTreeSet, HashMap, HashSet};

use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::fields::{Fields, NOT_NEGATIVE, broken_rules, named, quantity};

const HUGE_PAGES: &str = "hugepages-";

/// Standard names without a domain, of containers, volumes or quotas.
const STANDARD: &[&str] = &[
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
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources that are counted in whole objects.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name) || name.strip_prefix("requests.").is_some_and(is_huge_page)
}

/// Whether a quota can limit the resource of this name.
pub(crate) fn is_standard_quota_resource(name: &str) -> bool {
    (name != "storage" && STANDARD.contains(&name)) || is_quota_huge_page(name)
}

/// Whether this is a native resource of Kubernetes.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether this is an extended resource, which a device plugin can provide.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether the resource can be overcommitted.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Checks the name of a resource: a standard name, or a name with a domain.
pub(crate) fn check_name(errors: &mut Vec<FieldError>, name: &str, path: &FieldPath) {
    let rules = names::qualified_name(name);
    if !rules.is_empty() {
        errors.extend(rules.into_iter().map(|rule| FieldError::invalid(path, named(name), rule)));
    } else if !name.contains('/') && !STANDARD.contains(&name) && !is_quota_huge_page(name) {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(path, named(name), detail));
    }
}

/// Checks the name of a container resource.
pub(crate) fn check_container_name(errors: &mut Vec<FieldError>, name: &str, path: &FieldPath) {
    check_name(errors, name, path);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
            let detail = "must be a standard resource for containers";
            errors.push(FieldError::invalid(path, named(name), detail));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid(path, named(name), detail));
    }
}

/// Checks the name of a pod-level resource.
pub(crate) fn check_pod_name(errors: &mut Vec<FieldError>, name: &str, path: &FieldPath) {
    let before = errors.len();
    check_name(errors, name, path);
    if errors.len() == before && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errors.push(FieldError::not_supported(path, named(name), &["cpu", HUGE_PAGES, "memory"]));
    }
}

/// Checks that a quantity is not negative, and an integer for integer resources.
pub(crate) fn check_amount(errors: &mut Vec<FieldError>, name: &str, amount: &Quantity, path: &FieldPath) {
    if amount.is_negative() {
        errors.push(FieldError::invalid(path, amount.to_string(), NOT_NEGATIVE));
    }
    if (COUNTED.contains(&name) || is_extended(name)) && amount.millis() % 1000 != 0 {
        errors.push(FieldError::invalid(path, amount.to_string(), "must be an integer"));
    }
}

fn check_huge_pages(errors: &mut Vec<FieldError>, name: &str, amount: &Quantity, path: &FieldPath) {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    let divides = size.is_some_and(|size| {
        !size.is_negative()
            && !size.is_zero()
            && size.millis() % 1000 == 0
            && amount.units() % size.units() == 0
    });
    if !divides {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        errors.push(FieldError::invalid(path, amount.to_string(), detail));
    }
}

/// The rule for resource names in requirements.
pub(crate) type ResourceNameRule = fn(&mut Vec<FieldError>, &str, &FieldPath);

/// Checks limits, requests and claims. `claims` are the names of the pod's claims.
pub(crate) fn check_requirements(
    errors: &mut Vec<FieldError>,
    requirements: &Value,
    name_rule: ResourceNameRule,
    claims: &BTreeSet<&str>,
    path: &FieldPath,
) {
    if !requirements.is_object() {
        return;
    }
    check_limits(errors, requirements.part("limits"), name_rule, &path.child("limits"));
    for (name, value) in requirements.entries("requests") {
        let Some(amount) = quantity(value) else { continue };
        let requests_path = path.child("requests");
        let amount_path = requests_path.key(name);
        name_rule(errors, name, &amount_path);
        check_amount(errors, name, &amount, &amount_path);
        match requirements.part("limits").quantity(name) {
            Some(limit) if amount != limit && !is_overcommit_allowed(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(&requests_path, amount.to_string(), detail));
            }
            Some(limit) if amount > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(&requests_path, amount.to_string(), detail));
            }
            None if !is_overcommit_allowed(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&path.child("limits"), detail));
            }
            _ => {}
        }
        if is_huge_page(name) {
            check_huge_pages(errors, name, &amount, &amount_path);
        }
    }
    let asks_for = |matches: fn(&str) -> bool| {
        requirements.entries("limits").chain(requirements.entries("requests")).any(|(name, _)| matches(name))
    };
    if asks_for(is_huge_page) && !asks_for(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    check_claims(errors, requirements.list("claims"), claims, path);
}

/// Checks names and quantities of limits, or of the overhead of a pod.
fn check_limits(errors: &mut Vec<FieldError>, limits: &Value, name_rule: ResourceNameRule, path: &FieldPath) {
    for (name, value) in limits.as_object().into_iter().flatten() {
        let Some(amount) = quantity(value) else { continue };
        let path = path.key(name);
        name_rule(errors, name, &path);
        check_amount(errors, name, &amount, &path);
        if is_huge_page(name) {
            check_huge_pages(errors, name, &amount, &path);
        }
    }
}

/// Checks the overhead of a pod.
pub(crate) fn check_overhead(errors: &mut Vec<FieldError>, overhead: &Value, path: &FieldPath) {
    check_limits(errors, overhead, check_container_name, &path.child("limits"));
    let has =
        |matches: fn(&str) -> bool| overhead.as_object().into_iter().flatten().any(|(name, _)| matches(name));
    if has(is_huge_page) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// Maximum number of names in the errors about unknown claims of a container.
const MAX_LISTED_NAMES: usize = 10_000;

/// Checks that each claim refers to one of the pod's claims, and that no two overlap.
fn check_claims(
    errors: &mut Vec<FieldError>,
    claims: &[Value],
    pod_claims: &BTreeSet<&str>,
    path: &FieldPath,
) {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    let mut seen_by_name: HashMap<&str, usize> = HashMap::new();
    let mut unknown = 0;
    for (index, claim) in claims.iter().enumerate() {
        let path = || path.child("claims").index(index);
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.push(FieldError::required(&path(), ""));
            continue;
        }
        if seen.contains(&(name, "")) {
            errors.push(FieldError::duplicate(&path(), name));
        } else {
            if !request.is_empty() {
                broken_rules(errors, || path().child("request"), request, names::dns1123_label(request));
                if seen.contains(&(name, request)) {
                    errors.push(FieldError::duplicate(&path(), format!("{name}/{request}")));
                }
            } else {
                let overlapping = seen_by_name.get(name).copied().unwrap_or_default();
                errors.extend((0..overlapping).map(|_| FieldError::duplicate(&path(), name)));
            }
            if seen.insert((name, request)) {
                *seen_by_name.entry(name).or_default() += 1;
            }
        }
        if !pod_claims.contains(name) {
            let mut detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            if pod_claims.is_empty() {
                detail.push_str(" which is empty");
            } else {
                // Each error lists all names; a response shows few such errors.
                unknown += pod_claims.len();
                if unknown > MAX_LISTED_NAMES && unknown > pod_claims.len() {
                    continue;
                }
                detail.push_str(": ");
                detail.push_str(&pod_claims.iter().copied().collect::<Vec<&str>>().join(", "));
            }
            errors.push(FieldError::not_found(&path(), name).with_detail(detail));
        }
    }
}
