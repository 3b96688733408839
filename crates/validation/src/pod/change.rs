//! Changes that are allowed in an existing pod.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{BTreeMap, HashSet};

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::{annotations, check, container, is_mirror, placement};
use crate::fields::{Errors, Fields, quantity};
use crate::internal;

const DEADLINE: i64 = i32::MAX as i64;
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks an update of a pod.
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(&mut errors, new, Some(old));
    annotations::check_update(&mut errors, new, old);
    let (new, old) = (new.part("spec"), old.part("spec"));
    let path = FieldPath::new("spec");
    if images(&mut errors, new, old, &path) && deadline(&mut errors, new, old, &path) {
        tolerations(&mut errors, new, old, &path.child("tolerations"));
        scheduling_gates(&mut errors, new, old, &path.child("schedulingGates"));
        immutable_fields(&mut errors, new, old, &path);
    }
    errors
}

/// Checks the images, the only mutable field of a container. Returns whether the containers still correspond.
fn images(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) -> bool {
    for field in ["containers", "initContainers"] {
        let path = path.child(field);
        if new.list(field).len() != old.list(field).len() {
            errors.push(FieldError::forbidden(&path, "pod updates may not add or remove containers"));
            return false;
        }
        for (index, container) in new.list(field).iter().enumerate() {
            if container.text("image").is_empty() {
                errors.push(FieldError::required(&path.index(index).child("image"), ""));
            }
            container::image_padding(errors, container, &path.index(index));
        }
    }
    true
}

/// Checks the deadline, which may only decrease. Returns whether to check the rest.
fn deadline(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) -> bool {
    let field = "activeDeadlineSeconds";
    let path = || path.child(field);
    match (new.optional_integer(field), old.optional_integer(field)) {
        (Some(seconds), _) if !(0..=DEADLINE).contains(&seconds) => {
            let detail = format!("must be between 0 and {DEADLINE}, inclusive");
            errors.push(FieldError::invalid(&path(), seconds, detail));
            return false;
        }
        (Some(seconds), Some(before)) if before < seconds => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(&path(), seconds, detail));
            return false;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(&path(), Value::Null, detail));
        }
        _ => {}
    }
    true
}

fn tolerations(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) {
    let set = |spec: &'_ Value| -> HashSet<[String; 4]> {
        let fields = |toleration: &Value| {
            ["key", "operator", "value", "effect"].map(|field| toleration.text(field).to_owned())
        };
        spec.list("tolerations").iter().map(fields).collect()
    };
    if !set(old).is_subset(&set(new)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    placement::tolerations(errors, new.list("tolerations"), path);
}

fn scheduling_gates(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) {
    let gates = |spec: &'_ Value| -> Vec<String> {
        spec.list("schedulingGates").iter().map(|gate| gate.text("name").to_owned()).collect()
    };
    let before: HashSet<String> = gates(old).into_iter().collect();
    // Of gates with the same name, upstream keeps the last.
    let added: BTreeMap<String, usize> =
        gates(new).into_iter().enumerate().map(|(index, name)| (name, index)).collect();
    for (name, index) in added {
        if !before.contains(&name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(&path.index(index).child("name"), detail));
        }
    }
}

/// Checks that all other fields are unchanged. Scheduling directives may be narrowed while the pod is gated.
fn immutable_fields(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) {
    if same(new, old) {
        return;
    }
    let mut expected = new.clone();
    for field in ["containers", "initContainers"] {
        let Some(containers) = expected.get_mut(field).and_then(Value::as_array_mut) else { continue };
        for (container, before) in containers.iter_mut().zip(old.list(field)) {
            copy(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        copy(&mut expected, old, field);
    }
    let field = "terminationGracePeriodSeconds";
    if old.integer(field) < 0 && new.optional_integer(field) == Some(1) {
        copy(&mut expected, old, field);
    }
    if !old.list("schedulingGates").is_empty() {
        gated_placement(errors, &mut expected, old, path);
    }
    if !same(&expected, old) {
        let difference = internal::difference("PodSpec", old, &expected);
        let detail = format!("pod updates may not change fields other than {CHANGEABLE}\n{difference}");
        errors.push(FieldError::forbidden(path, detail));
    }
}

/// Restores the old value of a field.
fn copy(object: &mut Value, before: &Value, field: &str) {
    let Some(object) = object.as_object_mut() else { return };
    match before.get(field) {
        Some(value) => object.insert(field.to_owned(), value.clone()),
        None => object.remove(field),
    };
}

fn gated_placement(errors: &mut Errors, expected: &mut Value, old: &Value, path: &FieldPath) {
    if !same(expected.part("nodeSelector"), old.part("nodeSelector")) {
        let selector = expected.part("nodeSelector");
        if old.text_entries("nodeSelector").any(|(key, value)| selector.optional_text(key) != Some(value)) {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(&path.child("nodeSelector"), selector.clone(), detail));
        }
        copy(expected, old, "nodeSelector");
    }
    let before = old.part("affinity").part("nodeAffinity");
    let after = expected.part("affinity").part("nodeAffinity");
    if same(before, after) {
        return;
    }
    let path = path.child("affinity").child("nodeAffinity").child(REQUIRED).child("nodeSelectorTerms");
    node_affinity(errors, after.part(REQUIRED), before.part(REQUIRED), &path);
    let Some(affinity) = expected.get_mut("affinity") else {
        if !before.is_null() {
            expected["affinity"] = serde_json::json!({ "nodeAffinity": before });
        }
        return;
    };
    let is_only_of_nodes =
        affinity.field("podAffinity").is_none() && affinity.field("podAntiAffinity").is_none();
    if old.field("affinity").is_none() && is_only_of_nodes {
        copy(expected, old, "affinity");
    } else {
        copy(affinity, old.part("affinity"), "nodeAffinity");
    }
}

fn node_affinity(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) {
    let (before, after) = (old.list("nodeSelectorTerms"), new.list("nodeSelectorTerms"));
    if before.is_empty() {
        return;
    }
    if before.len() != after.len() {
        let rendered = internal::render_list("NodeSelectorTerm", new.part("nodeSelectorTerms"));
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(path, rendered, detail));
        return;
    }
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        if !only_adds_requirements(after, before) {
            let rendered = internal::render("NodeSelectorTerm", after);
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(&path.index(index), rendered, detail));
        }
    }
}

/// Whether a term only adds requirements. An empty term matches nothing and must stay empty.
fn only_adds_requirements(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    if lists.iter().all(|field| old.list(field).is_empty()) {
        return lists.iter().all(|field| new.list(field).is_empty());
    }
    lists.iter().all(|field| {
        let (before, after) = (old.list(field), new.list(field));
        after.len() >= before.len() && before.iter().zip(after).all(|(before, after)| same(before, after))
    })
}

/// Checks an update of the ephemeral containers, which can only be added.
pub(super) fn ephemeral_containers(new: &Value, old: &Value) -> Vec<FieldError> {
    if is_mirror(old) {
        let detail = "static pods do not support ephemeral containers";
        return vec![FieldError::forbidden(&FieldPath::new(""), detail)];
    }
    let mut errors = Vec::new();
    check(&mut errors, new, Some(old));
    annotations::check_update(&mut errors, new, old);
    let path = FieldPath::new("spec").child("ephemeralContainers");
    let field = "ephemeralContainers";
    for before in old.part("spec").list(field) {
        let name = before.text("name");
        let quoted = atoll_meta::quote::quote(name);
        match new.part("spec").list(field).iter().rfind(|after| after.text("name") == name) {
            None => {
                let detail = format!("existing ephemeral containers {quoted} may not be removed\n");
                errors.push(FieldError::forbidden(&path, detail));
            }
            Some(after) if !same(before, after) => {
                let difference = internal::difference("EphemeralContainer", before, after);
                let detail =
                    format!("existing ephemeral containers {quoted} may not be changed\n{difference}");
                errors.push(FieldError::forbidden(&path, detail));
            }
            Some(_) => {}
        }
    }
    errors
}

/// Fields that are maps or embedded structs upstream, where empty equals absent. Other fields are pointers,
/// where it does not.
const EMPTY_IS_ABSENT: &[&str] = &[
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "metadata",
    "nodeSelector",
    "options",
    "overhead",
    "requests",
    "resources",
    "spec",
    "volumeAttributes",
];

/// Whether two values are semantically equal: quantities are compared by amount, and empty lists equal absent
/// ones.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    same_field("", one, other)
}

fn same_field(name: &str, one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) => {
            let is_amounts = matches!(name, "limits" | "requests" | "overhead");
            let is_same = |key: &str, value: &Value, other: &Value| {
                if is_amounts || matches!(key, "sizeLimit" | "divisor") {
                    value == other
                        || matches!((quantity(value), quantity(other)), (Some(a), Some(b)) if a == b)
                } else {
                    same_field(key, value, other)
                }
            };
            fields.iter().all(|(key, value)| is_same(key, value, others.get(key).unwrap_or(&Value::Null)))
                && others
                    .iter()
                    .all(|(key, value)| fields.contains_key(key) || is_same(key, &Value::Null, value))
        }
        (Value::Array(list), Value::Array(others)) => {
            list.len() == others.len()
                && list.iter().zip(others).all(|(value, other)| same_field(name, value, other))
        }
        (Value::Array(list), Value::Null) | (Value::Null, Value::Array(list)) => list.is_empty(),
        (Value::Object(map), Value::Null) | (Value::Null, Value::Object(map)) => {
            map.is_empty() && EMPTY_IS_ABSENT.contains(&name)
        }
        _ => one == other,
    }
}
