//! The subresource `resize` of pods.

// upstream: pkg/apis/core/validation/validation.go
// upstream: pkg/apis/core/helper/qos/qos.go

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::container::is_sidecar;
use super::{check, is_mirror, same};
use crate::fields::{Errors, Fields, named, quantity};

const ONLY_RESOURCES: &str = "only cpu and memory resources are mutable";

/// Checks an update of the resources of a running pod.
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let nowhere = FieldPath::new("");
    if is_mirror(old) {
        return vec![FieldError::forbidden(&nowhere, "static pods cannot be resized")];
    }
    if old.part("spec").part("os").text("name") == "windows" {
        return vec![FieldError::forbidden(&nowhere, "windows pods cannot be resized")];
    }
    let mut errors = Vec::new();
    check(&mut errors, new, Some(old));
    let path = FieldPath::new("spec");
    let class = match old.part("status").text("qosClass") {
        "" => quality_of_service(old.part("spec")),
        class => class,
    };
    if class != quality_of_service(new.part("spec")) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        let rendered = named(new.part("status").text("qosClass"));
        errors.push(FieldError::invalid(&path, rendered, detail));
    }
    let mut running = old.part("status").list("containerStatuses").iter();
    if running
        .find(|status| status.part("state").field("running").is_some())
        .is_some_and(|status| status.field("resources").is_none())
    {
        errors.push(FieldError::forbidden(&path, "Pod running on node without support for resize"));
    }
    let (new, old_spec) = (new.part("spec"), old.part("spec"));
    let mut expected = new.clone();
    of_pod(&mut errors, &mut expected, old_spec, &path);
    if !old.part("status").list("nodeAllocatableResourceClaimStatuses").is_empty() {
        let detail = "pods with node allocatable resource claims cannot be resized";
        errors.push(FieldError::forbidden(&path, detail));
    }
    if !same_containers(&mut errors, new, old_spec, &path) {
        return errors;
    }
    of_containers(&mut errors, new, &mut expected, old_spec, &path);
    if errors.is_empty() && !same(&expected, old_spec) {
        errors.push(FieldError::forbidden(&path, ONLY_RESOURCES));
    }
    errors
}

/// Returns the QoS class of a pod.
fn quality_of_service(spec: &Value) -> &'static str {
    let is_set = |list: &Value, name: &str| {
        list.quantity(name).is_some_and(|amount| !amount.is_zero() && !amount.is_negative())
    };
    let of_pod;
    let requirements: Vec<&Value> = match spec.field("resources") {
        Some(resources) => {
            of_pod = resources;
            vec![of_pod]
        }
        None => {
            let containers = spec.list("containers").iter().chain(spec.list("initContainers"));
            containers.map(|container| container.part("resources")).collect()
        }
    };
    let is_of_pod = spec.field("resources").is_some();
    let mut is_guaranteed = true;
    let mut is_best_effort = true;
    let mut sums: [[Option<atoll_meta::quantity::Quantity>; 2]; 2] = Default::default();
    for requirement in requirements {
        let limits = requirement.part("limits");
        let has_both = is_set(limits, "cpu") && is_set(limits, "memory");
        let is_looked_at = !is_of_pod || limits.as_object().is_some_and(|limits| !limits.is_empty());
        is_guaranteed &= has_both || !is_looked_at;
        for (kind, field) in ["requests", "limits"].into_iter().enumerate() {
            for (which, name) in ["cpu", "memory"].into_iter().enumerate() {
                let list = requirement.part(field);
                if let Some(amount) = list.get(name).and_then(quantity).filter(|_| is_set(list, name)) {
                    is_best_effort = false;
                    match &mut sums[kind][which] {
                        Some(sum) => sum.add(&amount),
                        none => *none = Some(amount),
                    }
                }
            }
        }
    }
    if is_best_effort {
        return "BestEffort";
    }
    let [requests, limits] = sums;
    let requested = requests.iter().flatten().count();
    let limited = limits.iter().flatten().count();
    let matches = requests.iter().zip(&limits).all(|(request, limit)| request.is_none() || request == limit);
    if is_guaranteed && matches && requested == limited { "Guaranteed" } else { "Burstable" }
}

fn has_amounts(spec: &Value) -> bool {
    let resources = spec.part("resources");
    resources.entries("requests").chain(resources.entries("limits")).next().is_some()
}

/// Checks the pod-level resources.
fn of_pod(errors: &mut Errors, expected: &mut Value, old: &Value, path: &FieldPath) {
    if !has_amounts(expected) && !has_amounts(old) {
        return;
    }
    let path_of = |field: &'static str| path.child("resources").child(field);
    if let Some(before) = old.field("resources") {
        let Some(after) = expected.field("resources") else {
            let detail = "pod-level resources cannot be removed";
            errors.push(FieldError::forbidden(&path.child("resources"), detail));
            return;
        };
        for field in ["requests", "limits"] {
            if is_removed(after.part(field), before.part(field)) {
                let detail = format!("pod-level resource {field} cannot be removed");
                errors.push(FieldError::forbidden(&path_of(field), detail));
            }
        }
    }
    if let Some(resources) = expected.get_mut("resources") {
        reset_amounts(resources, old.part("resources"));
        let is_empty = ["requests", "limits", "claims"]
            .iter()
            .all(|field| resources.list(field).is_empty() && resources.entries(field).next().is_none());
        if old.field("resources").is_none() && is_empty {
            *resources = Value::Null;
        }
    }
    if !same(expected.part("resources"), old.part("resources")) {
        let detail = "only cpu and memory resources are mutable at pod-level";
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn is_removed(new: &Value, old: &Value) -> bool {
    old.as_object().into_iter().flatten().any(|(name, _)| new.get(name).is_none())
}

/// Restores the old amounts of CPU and memory.
fn reset_amounts(resources: &mut Value, old: &Value) {
    for field in ["requests", "limits"] {
        let Some(resources) = resources.as_object_mut() else { return };
        let amounts = resources.entry(field).or_insert_with(|| Value::Object(Default::default()));
        let Some(amounts) = amounts.as_object_mut() else { continue };
        for name in ["cpu", "memory"] {
            match old.part(field).get(name) {
                Some(amount) => amounts.insert(name.to_owned(), amount.clone()),
                None => amounts.remove(name),
            };
        }
    }
}

/// Checks that containers were not added, removed or reordered. Returns whether that holds.
fn same_containers(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) -> bool {
    let before = errors.len();
    for field in ["containers", "initContainers"] {
        if new.list(field).len() != old.list(field).len() {
            let detail = format!("{field} may not be added or removed on resize");
            errors.push(FieldError::forbidden(&path.child(field), detail));
            continue;
        }
        for (index, (new, old)) in new.list(field).iter().zip(old.list(field)).enumerate() {
            if new.text("name") != old.text("name") {
                let detail = format!("{field} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(&path.child(field).index(index).child("name"), detail));
            }
        }
    }
    errors.len() == before
}

fn of_containers(errors: &mut Errors, new: &Value, expected: &mut Value, old: &Value, path: &FieldPath) {
    for field in ["initContainers", "containers"] {
        for (index, (new, old)) in new.list(field).iter().zip(old.list(field)).enumerate() {
            for kind in ["requests", "limits"] {
                let amounts = |container: &'_ Value| container.part("resources").part(kind).clone();
                if is_removed(&amounts(new), &amounts(old)) {
                    let path = path.child(field).index(index).child("resources").child(kind);
                    let detail = format!("resource {kind} cannot be removed");
                    errors.push(FieldError::forbidden(&path, detail));
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        let Some(containers) = expected.get_mut(field).and_then(Value::as_array_mut) else { continue };
        for (index, (container, old)) in containers.iter_mut().zip(old.list(field)).enumerate() {
            let is_changed = !same(container, old);
            if let Some(resources) = container.get_mut("resources") {
                reset_amounts(resources, old.part("resources"));
                // Claims cannot be resized; upstream drops them here.
                if let Some(resources) = resources.as_object_mut() {
                    resources.remove("claims");
                }
            } else if old.part("resources").is_object() {
                container["resources"] = old.part("resources").clone();
            }
            let is_other = !same(container, old);
            if field == "containers" {
                if is_other {
                    errors.push(FieldError::forbidden(path, ONLY_RESOURCES));
                }
                continue;
            }
            let path = path.child(field).index(index);
            if is_other {
                let detail = "only cpu and memory resources for init or sidecar containers are mutable";
                errors.push(FieldError::forbidden(&path, detail));
            }
            if is_changed && !is_sidecar(container) {
                let policies = container.list("resizePolicy").iter();
                for _ in policies.filter(|policy| policy.text("restartPolicy") == "RestartContainer") {
                    let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    errors.push(FieldError::forbidden(&path, detail));
                }
            }
        }
    }
}
