//! The subresource `resize` of pods.

// upstream: pkg/apis/core/validation/validation.go
// upstream: pkg/apis/core/helper/qos/qos.go

use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::container::is_sidecar;
use super::{check, is_mirror, same};
use crate::field_value::{Errors, FieldValue};

const ONLY_RESOURCES: &str = "only cpu and memory resources are mutable";

/// Checks an update of the resources of a running pod.
pub(super) fn update(new_pod: &Value, old_pod: &Value) -> Errors {
    let nowhere = FieldPath::new("");
    if is_mirror(old_pod) {
        return vec![FieldError::forbidden(&nowhere, "static pods cannot be resized")];
    }
    let (new, old) = (FieldValue::field(new_pod, "spec"), FieldValue::field(old_pod, "spec"));
    if old.get("os").text_of("name") == "windows" {
        return vec![FieldError::forbidden(&nowhere, "windows pods cannot be resized")];
    }
    let mut errors = Errors::new();
    check(&mut errors, new_pod, Some(old_pod));
    let status = FieldValue::field(old_pod, "status");
    let class = match status.text_of("qosClass") {
        "" => quality_of_service(&old),
        class => class,
    };
    if class != quality_of_service(&new) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(new.invalid_as(FieldValue::field(new_pod, "status").get("qosClass").named(), detail));
    }
    let statuses = status.get("containerStatuses");
    let running = statuses.items().find(|status| status.get("state").has("running"));
    if running.is_some_and(|status| !status.has("resources")) {
        errors.push(new.forbidden("Pod running on node without support for resize"));
    }
    let mut expected = new.value.clone();
    of_pod(&mut errors, &mut expected, &new, &old);
    if !status.get("nodeAllocatableResourceClaimStatuses").is_empty() {
        errors.push(new.forbidden("pods with node allocatable resource claims cannot be resized"));
    }
    if !same_containers(&mut errors, &new, &old) {
        return errors;
    }
    of_containers(&mut errors, &new, &mut expected, &old);
    if errors.is_empty() && !same(&expected, old.value) {
        errors.push(new.forbidden(ONLY_RESOURCES));
    }
    errors
}

/// Returns the QoS class of a pod.
fn quality_of_service(spec: &FieldValue<'_>) -> &'static str {
    let positive = |list: &FieldValue<'_>, name: &str| {
        list.quantity_of(name).filter(|amount| !amount.is_zero() && !amount.is_negative())
    };
    let of_pod = spec.given("resources");
    let is_of_pod = of_pod.is_some();
    let requirements: Vec<FieldValue<'_>> = match of_pod {
        Some(resources) => vec![resources],
        None => {
            let (containers, init) = (spec.get("containers"), spec.get("initContainers"));
            containers.items().chain(init.items()).map(|container| container.get("resources")).collect()
        }
    };
    let mut is_guaranteed = true;
    let mut is_best_effort = true;
    let mut sums: [[Option<Quantity>; 2]; 2] = Default::default();
    for requirement in requirements {
        let lists = [requirement.get("requests"), requirement.get("limits")];
        let limits = &lists[1];
        let has_both = positive(limits, "cpu").is_some() && positive(limits, "memory").is_some();
        let is_looked_at = !is_of_pod || !limits.is_empty();
        is_guaranteed &= has_both || !is_looked_at;
        for (list, sums) in lists.iter().zip(&mut sums) {
            for (name, sum) in ["cpu", "memory"].into_iter().zip(sums) {
                if let Some(amount) = positive(list, name) {
                    is_best_effort = false;
                    match sum {
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

/// Checks the pod-level resources.
fn of_pod(errors: &mut Errors, expected: &mut Value, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    let (after, before) = (new.get("resources"), old.get("resources"));
    let has_amounts = |resources: &FieldValue<'_>| {
        ["requests", "limits"].iter().any(|list| !resources.get(list).is_empty())
    };
    if !has_amounts(&after) && !has_amounts(&before) {
        return;
    }
    if before.is_set() {
        if !after.is_set() {
            errors.push(after.forbidden("pod-level resources cannot be removed"));
            return;
        }
        for field in ["requests", "limits"] {
            let list = after.get(field);
            if is_removed(&list, &before.get(field)) {
                errors.push(list.forbidden(format!("pod-level resource {field} cannot be removed")));
            }
        }
    }
    if let Some(resources) = expected.get_mut("resources") {
        reset_amounts(resources, &before);
        let reset = FieldValue::root(resources);
        let is_empty = ["requests", "limits", "claims"].iter().all(|field| reset.get(field).is_empty());
        if !before.is_set() && is_empty {
            *resources = Value::Null;
        }
    }
    if !same(FieldValue::root(expected).get("resources").value, before.value) {
        errors.push(new.forbidden("only cpu and memory resources are mutable at pod-level"));
    }
}

fn is_removed(new: &FieldValue<'_>, old: &FieldValue<'_>) -> bool {
    old.keys().any(|name| new.value.get(name).is_none())
}

/// Restores the old amounts of CPU and memory.
fn reset_amounts(resources: &mut Value, old: &FieldValue<'_>) {
    for field in ["requests", "limits"] {
        let Some(resources) = resources.as_object_mut() else { return };
        let amounts = resources.entry(field).or_insert_with(|| Value::Object(Default::default()));
        let Some(amounts) = amounts.as_object_mut() else { continue };
        for name in ["cpu", "memory"] {
            match old.get(field).value.get(name) {
                Some(amount) => amounts.insert(name.to_owned(), amount.clone()),
                None => amounts.remove(name),
            };
        }
    }
}

/// Checks that containers were not added, removed or reordered. Returns whether that holds.
fn same_containers(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) -> bool {
    let before = errors.len();
    for field in ["containers", "initContainers"] {
        let (new, old) = (new.get(field), old.get(field));
        if new.len() != old.len() {
            errors.push(new.forbidden(format!("{field} may not be added or removed on resize")));
            continue;
        }
        for (new, old) in new.items().zip(old.items()) {
            let name = new.get("name");
            if name.text() != old.text_of("name") {
                errors.push(name.forbidden(format!("{field} may not be renamed or reordered on resize")));
            }
        }
    }
    errors.len() == before
}

fn of_containers(errors: &mut Errors, new: &FieldValue<'_>, expected: &mut Value, old: &FieldValue<'_>) {
    for field in ["initContainers", "containers"] {
        for (new, old) in new.get(field).items().zip(old.get(field).items()) {
            for kind in ["requests", "limits"] {
                let list = new.get("resources").get(kind);
                if is_removed(&list, &old.get("resources").get(kind)) {
                    errors.push(list.forbidden(format!("resource {kind} cannot be removed")));
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        let Some(containers) = expected.get_mut(field).and_then(Value::as_array_mut) else { continue };
        for (container, old) in containers.iter_mut().zip(old.get(field).items()) {
            let is_changed = !same(container, old.value);
            let before = old.get("resources");
            if let Some(resources) = container.get_mut("resources") {
                reset_amounts(resources, &before);
                // Claims cannot be resized; upstream drops them here.
                if let Some(resources) = resources.as_object_mut() {
                    resources.remove("claims");
                }
            } else if before.value.is_object() {
                container["resources"] = before.value.clone();
            }
            let is_other = !same(container, old.value);
            if field == "containers" {
                if is_other {
                    errors.push(new.forbidden(ONLY_RESOURCES));
                }
                continue;
            }
            let container = FieldValue::under(Some(container), old.path.clone());
            if is_other {
                let detail = "only cpu and memory resources for init or sidecar containers are mutable";
                errors.push(container.forbidden(detail));
            }
            if is_changed && !is_sidecar(&container) {
                let policies = container.get("resizePolicy");
                let restarts =
                    |policy: &FieldValue<'_>| policy.text_of("restartPolicy") == "RestartContainer";
                for _ in policies.items().filter(restarts) {
                    let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    errors.push(container.forbidden(detail));
                }
            }
        }
    }
}
