//! Pod-level resources.

// upstream: pkg/apis/core/validation/validation.go
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go

use std::collections::{BTreeMap, BTreeSet};

use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::container::is_sidecar;
use crate::fields::{Errors, Fields, quantity};
use crate::resources;

/// Quantities by resource name.
pub(super) type ResourceList<'a> = BTreeMap<&'a str, Quantity>;

/// Checks `resources` of a pod's spec.
pub(super) fn check(errors: &mut Errors, spec: &Value, claims: &BTreeSet<&str>, path: &FieldPath) {
    let Some(requirements) = spec.field("resources") else { return };
    let path = path.child("resources");
    if spec.part("os").text("name") == "windows" {
        errors.push(FieldError::forbidden(&path, "may not be set for a windows pod"));
        return;
    }
    if requirements.field("claims").is_some() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(&path.child("claims"), detail));
    }
    resources::check_requirements(errors, requirements, resources::check_pod_name, claims, &path);
    let requests = requirements.part("requests");
    for (name, sum) in of_containers(spec, "requests") {
        if let Some(amount) = requests.quantity(name)
            && sum > amount
        {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            let path = path.child("requests").key(name);
            errors.push(FieldError::invalid(&path, amount.to_string(), detail));
        }
    }
    let limits = requirements.part("limits");
    for (name, sum) in of_containers(spec, "limits") {
        if let Some(amount) = limits.quantity(name).filter(|_| resources::is_huge_page(name))
            && sum > amount
        {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            let path = path.child("limits").key(name);
            errors.push(FieldError::invalid(&path, amount.to_string(), detail));
        }
    }
    for (index, container) in spec.list("containers").iter().enumerate() {
        for (name, value) in container.part("resources").entries("limits") {
            if let (Some(limit), Some(of_pod)) = (quantity(value), limits.quantity(name))
                && limit > of_pod
            {
                let path = path.child("containers").index(index).key(name).child("limits");
                let detail = format!("must be less than or equal to pod limits of {of_pod}");
                errors.push(FieldError::invalid(&path, limit.to_string(), detail));
            }
        }
    }
}

/// Returns the total resources of the containers: the maximum of the startup phase, in which init containers
/// run one after the other beside the sidecars already started, and of the main phase.
fn of_containers<'a>(spec: &'a Value, field: &str) -> ResourceList<'a> {
    let mut sum = ResourceList::new();
    for container in spec.list("containers") {
        add(&mut sum, container, field);
    }
    let (mut sidecars, mut start) = (ResourceList::new(), ResourceList::new());
    for container in spec.list("initContainers") {
        let mut moment = sidecars.clone();
        add(&mut moment, container, field);
        if is_sidecar(container) {
            add(&mut sum, container, field);
            sidecars.clone_from(&moment);
        }
        raise(&mut start, moment);
    }
    raise(&mut sum, start);
    sum
}

fn add<'a>(amounts: &mut ResourceList<'a>, container: &'a Value, field: &str) {
    for (name, value) in container.part("resources").entries(field) {
        if let Some(amount) = quantity(value) {
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
