//! Names and quantities of compute resources.

// upstream: pkg/apis/core/validation/validation.go
// upstream: pkg/apis/core/helper/helpers.go

use std::collections::{BTreeSet, HashMap, HashSet};

use atoll_meta::field::BadValue;
use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldError, FieldPath, names};

use crate::field_value::{Errors, FieldValue, NOT_NEGATIVE};

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
pub(crate) fn check_name(errors: &mut Errors, name: &str, path: &FieldPath) {
    let rules = names::qualified_name(name);
    if !rules.is_empty() {
        errors.extend(
            rules.into_iter().map(|rule| FieldError::invalid(path, BadValue::named_text(name), rule)),
        );
    } else if !name.contains('/') && !STANDARD.contains(&name) && !is_quota_huge_page(name) {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(path, BadValue::named_text(name), detail));
    }
}

/// Checks the name of a container resource.
pub(crate) fn check_container_name(errors: &mut Errors, name: &str, path: &FieldPath) {
    check_name(errors, name, path);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
            let detail = "must be a standard resource for containers";
            errors.push(FieldError::invalid(path, BadValue::named_text(name), detail));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid(path, BadValue::named_text(name), detail));
    }
}

/// Checks the name of a pod-level resource.
pub(crate) fn check_pod_name(errors: &mut Errors, name: &str, path: &FieldPath) {
    let before = errors.len();
    check_name(errors, name, path);
    if errors.len() == before && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errors.push(FieldError::not_supported(
            path,
            BadValue::named_text(name),
            &["cpu", HUGE_PAGES, "memory"],
        ));
    }
}

/// Checks that a quantity is not negative, and an integer for integer resources.
pub(crate) fn check_amount(errors: &mut Errors, name: &str, amount: &Quantity, path: &FieldPath) {
    if amount.is_negative() {
        errors.push(FieldError::invalid(path, amount.to_string(), NOT_NEGATIVE));
    }
    if (COUNTED.contains(&name) || is_extended(name)) && amount.millis() % 1000 != 0 {
        errors.push(FieldError::invalid(path, amount.to_string(), "must be an integer"));
    }
}

fn check_huge_pages(errors: &mut Errors, name: &str, amount: &Quantity, path: &FieldPath) {
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
pub(crate) type ResourceNameRule = fn(&mut Errors, &str, &FieldPath);

/// Checks limits, requests and claims. `claims` are the names of the pod's claims.
pub(crate) fn check_requirements(
    errors: &mut Errors,
    requirements: &FieldValue<'_>,
    name_rule: ResourceNameRule,
    claims: &BTreeSet<&str>,
) {
    if !requirements.value.is_object() {
        return;
    }
    let (limits, requests) = (requirements.get("limits"), requirements.get("requests"));
    check_limits(errors, &limits, name_rule);
    for (name, request) in requests.entries() {
        let Some(amount) = request.quantity() else { continue };
        name_rule(errors, name, &request.path);
        check_amount(errors, name, &amount, &request.path);
        match limits.quantity_of(name) {
            Some(limit) if amount != limit && !is_overcommit_allowed(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.push(requests.invalid_as(amount.to_string(), detail));
            }
            Some(limit) if amount > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(requests.invalid_as(amount.to_string(), detail));
            }
            None if !is_overcommit_allowed(name) => {
                errors.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
        if is_huge_page(name) {
            check_huge_pages(errors, name, &amount, &request.path);
        }
    }
    check_huge_pages_alone(errors, requirements, || limits.keys().chain(requests.keys()));
    check_claims(errors, &requirements.get("claims"), claims);
}

/// Checks that huge pages are not the only resource.
fn check_huge_pages_alone<'a, Names: Iterator<Item = &'a str>>(
    errors: &mut Errors,
    holder: &FieldValue<'_>,
    names: impl Fn() -> Names,
) {
    if names().any(is_huge_page) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        errors.push(holder.forbidden("HugePages require cpu or memory"));
    }
}

/// Checks names and quantities of limits, or of the overhead of a pod.
fn check_limits(errors: &mut Errors, limits: &FieldValue<'_>, name_rule: ResourceNameRule) {
    for (name, limit) in limits.entries() {
        let Some(amount) = limit.quantity() else { continue };
        name_rule(errors, name, &limit.path);
        check_amount(errors, name, &amount, &limit.path);
        if is_huge_page(name) {
            check_huge_pages(errors, name, &amount, &limit.path);
        }
    }
}

/// Checks the overhead of a pod.
pub(crate) fn check_overhead(errors: &mut Errors, overhead: &FieldValue<'_>) {
    check_limits(errors, &overhead.with_path(overhead.path.child("limits")), check_container_name);
    check_huge_pages_alone(errors, overhead, || overhead.keys());
}

/// Maximum number of names in the errors about unknown claims of a container.
const MAX_LISTED_NAMES: usize = 10_000;

/// Checks that each claim refers to one of the pod's claims, and that no two overlap.
fn check_claims(errors: &mut Errors, claims: &FieldValue<'_>, pod_claims: &BTreeSet<&str>) {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    let mut seen_by_name: HashMap<&str, usize> = HashMap::new();
    let mut unknown = 0;
    for claim in claims.items() {
        let (name, request_field) = (claim.text_of("name"), claim.get("request"));
        let request = request_field.text();
        if name.is_empty() {
            errors.push(claim.required(""));
            continue;
        }
        if seen.contains(&(name, "")) {
            errors.push(claim.duplicate_as(name));
        } else {
            if !request.is_empty() {
                request_field.rules(errors, names::dns1123_label(request));
                if seen.contains(&(name, request)) {
                    errors.push(claim.duplicate_as(format!("{name}/{request}")));
                }
            } else {
                let overlapping = seen_by_name.get(name).copied().unwrap_or_default();
                errors.extend((0..overlapping).map(|_| claim.duplicate_as(name)));
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
            errors.push(FieldError::not_found(&claim.path, name).with_detail(detail));
        }
    }
}
