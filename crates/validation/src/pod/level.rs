//! Pod-level resources.

// upstream: pkg/apis/core/validation/validation.go
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go

use std::collections::{BTreeMap, BTreeSet};

use atoll_meta::quantity::Quantity;

use super::container::is_sidecar;
use crate::field_value::{Errors, FieldValue};
use crate::resources;

/// Quantities by resource name.
pub(super) type ResourceList<'a> = BTreeMap<&'a str, Quantity>;

/// Checks `resources` of a pod's spec.
pub(super) fn check(errors: &mut Errors, spec: &FieldValue<'_>, claims: &BTreeSet<&str>) {
    let Some(requirements) = spec.given("resources") else { return };
    if spec.get("os").text_of("name") == "windows" {
        errors.push(requirements.forbidden("may not be set for a windows pod"));
        return;
    }
    if let Some(claims) = requirements.given("claims") {
        errors.push(claims.forbidden("claims may not be set for Resources at pod-level"));
    }
    resources::check_requirements(errors, &requirements, resources::check_pod_name, claims);
    let (requests, limits) = (requirements.get("requests"), requirements.get("limits"));
    let mut refuse = |list: &FieldValue<'_>, name: &str, amount: &Quantity, detail: String| {
        errors.push(list.with_path(list.path.key(name)).invalid_as(amount.to_string(), detail));
    };
    for (name, sum) in of_containers(spec, "requests") {
        if let Some(amount) = requests.quantity_of(name)
            && sum > amount
        {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            refuse(&requests, name, &amount, detail);
        }
    }
    for (name, sum) in of_containers(spec, "limits") {
        if let Some(amount) = limits.quantity_of(name).filter(|_| resources::is_huge_page(name))
            && sum > amount
        {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            refuse(&limits, name, &amount, detail);
        }
    }
    // Upstream's paths contain the containers as if they were part of the resources.
    let containers = spec.get("containers").with_path(requirements.path.child("containers"));
    for container in containers.items() {
        for (name, limit) in container.get("resources").get("limits").entries() {
            if let (Some(amount), Some(of_pod)) = (limit.quantity(), limits.quantity_of(name))
                && amount > of_pod
            {
                let detail = format!("must be less than or equal to pod limits of {of_pod}");
                let path = container.path.key(name).child("limits");
                errors.push(limit.with_path(path).invalid_as(amount.to_string(), detail));
            }
        }
    }
}

/// Returns the total resources of the containers: the maximum of the startup phase, in which init containers
/// run one after the other beside the sidecars already started, and of the main phase.
fn of_containers<'a>(spec: &FieldValue<'a>, field: &'static str) -> ResourceList<'a> {
    let mut sum = ResourceList::new();
    for container in spec.get("containers").items() {
        add(&mut sum, &container, field);
    }
    let (mut sidecars, mut start) = (ResourceList::new(), ResourceList::new());
    for container in spec.get("initContainers").items() {
        let mut moment = sidecars.clone();
        add(&mut moment, &container, field);
        if is_sidecar(&container) {
            add(&mut sum, &container, field);
            sidecars.clone_from(&moment);
        }
        raise(&mut start, moment);
    }
    raise(&mut sum, start);
    sum
}

fn add<'a>(amounts: &mut ResourceList<'a>, container: &FieldValue<'a>, field: &'static str) {
    let list = container.get("resources").get(field);
    for name in list.keys() {
        if let Some(amount) = list.quantity_of(name) {
            amounts.entry(name).and_modify(|sum| sum.add(&amount)).or_insert(amount);
        }
    }
}

fn raise<'a>(amounts: &mut ResourceList<'a>, others: ResourceList<'a>) {
    for (name, other) in others {
        let amount = amounts.entry(name).or_insert_with(|| other.clone());
        if other > *amount {
            *amount = other;
        }
    }
}
