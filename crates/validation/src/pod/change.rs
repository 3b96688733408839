//! Changes that are allowed in an existing pod.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{BTreeMap, HashSet};

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::{annotations, check, container, is_mirror, placement};
use crate::field_value::{Errors, FieldValue, quantity};
use crate::internal;

const DEADLINE: i64 = i32::MAX as i64;
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks an update of a pod.
pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    check(&mut errors, new, Some(old));
    annotations::check_update(&mut errors, new, old);
    let (new, old) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
    if images(&mut errors, &new, &old)
        && deadline(&mut errors, &new.get("activeDeadlineSeconds"), &old.get("activeDeadlineSeconds"))
    {
        tolerations(&mut errors, &new.get("tolerations"), &old.get("tolerations"));
        scheduling_gates(&mut errors, &new.get("schedulingGates"), &old.get("schedulingGates"));
        immutable_fields(&mut errors, &new, &old);
    }
    errors
}

/// Checks the images, the only mutable field of a container. Returns whether the containers still correspond.
fn images(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) -> bool {
    for field in ["containers", "initContainers"] {
        let containers = new.get(field);
        if containers.len() != old.get(field).len() {
            errors.push(containers.forbidden("pod updates may not add or remove containers"));
            return false;
        }
        for container in containers.items() {
            let image = container.get("image");
            if image.is_empty() {
                errors.push(image.required(""));
            }
            container::image_padding(errors, &container);
        }
    }
    true
}

/// Checks the deadline, which may only decrease. Returns whether to check the rest.
fn deadline(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) -> bool {
    match (new.number(), old.number()) {
        (Some(seconds), _) if !(0..=DEADLINE).contains(&seconds) => {
            errors.push(new.invalid(format!("must be between 0 and {DEADLINE}, inclusive")));
            return false;
        }
        (Some(seconds), Some(before)) if before < seconds => {
            errors.push(new.invalid("must be less than or equal to previous value"));
            return false;
        }
        (None, Some(_)) => {
            errors.push(new.invalid("must not update from a positive integer to nil value"));
        }
        _ => {}
    }
    true
}

fn tolerations(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    fn set<'a>(tolerations: &FieldValue<'a>) -> HashSet<[&'a str; 4]> {
        let parts = |toleration: FieldValue<'a>| {
            ["key", "operator", "value", "effect"].map(|field| toleration.text_of(field))
        };
        tolerations.items().map(parts).collect()
    }
    if old.value != new.value && !set(old).is_subset(&set(new)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(new.forbidden(detail));
        return;
    }
    placement::tolerations(errors, new);
}

fn scheduling_gates(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    let before: HashSet<&str> = old.items().map(|gate| gate.text_of("name")).collect();
    // Of gates with the same name, upstream keeps the last.
    let added: BTreeMap<&str, FieldValue<'_>> =
        new.items().map(|gate| (gate.text_of("name"), gate.get("name"))).collect();
    for (name, field) in added {
        if !before.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(field.forbidden(detail));
        }
    }
}

/// Checks that all other fields are unchanged. Scheduling directives may be narrowed while the pod is gated.
fn immutable_fields(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    if same(new.value, old.value) {
        return;
    }
    let mut expected = new.value.clone();
    for field in ["containers", "initContainers"] {
        let Some(containers) = expected.get_mut(field).and_then(Value::as_array_mut) else { continue };
        for (container, before) in containers.iter_mut().zip(old.get(field).list()) {
            copy(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        copy(&mut expected, old.value, field);
    }
    let field = "terminationGracePeriodSeconds";
    if old.get(field).integer() < 0 && new.get(field).number() == Some(1) {
        copy(&mut expected, old.value, field);
    }
    if !old.get("schedulingGates").is_empty() {
        gated_placement(errors, &mut expected, old);
    }
    if !same(&expected, old.value) {
        let difference = internal::difference("PodSpec", old.value, &expected);
        let detail = format!("pod updates may not change fields other than {CHANGEABLE}\n{difference}");
        errors.push(new.forbidden(detail));
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

fn gated_placement(errors: &mut Errors, expected: &mut Value, old: &FieldValue<'_>) {
    let new = FieldValue::under(Some(&*expected), old.path.clone());
    let (selector, old_selector) = (new.get("nodeSelector"), old.get("nodeSelector"));
    let is_selector_changed = !same(selector.value, old_selector.value);
    let is_kept = |(key, value)| selector.value.get(key).and_then(Value::as_str) == Some(value);
    if is_selector_changed && !old_selector.text_entries().all(is_kept) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(selector.invalid(detail));
    }
    let before = old.get("affinity").get("nodeAffinity");
    let after = new.get("affinity").get("nodeAffinity");
    let is_affinity_changed = !same(before.value, after.value);
    if is_affinity_changed {
        let [after, before] =
            [&after, &before].map(|affinity| affinity.get(REQUIRED).get("nodeSelectorTerms"));
        node_affinity(errors, &after, &before);
    }
    if is_selector_changed {
        copy(expected, old.value, "nodeSelector");
    }
    if !is_affinity_changed {
        return;
    }
    let Some(affinity) = expected.get_mut("affinity") else {
        if before.is_set() {
            expected["affinity"] = serde_json::json!({ "nodeAffinity": before.value });
        }
        return;
    };
    let of_pods = FieldValue::root(affinity);
    let is_only_of_nodes = !of_pods.has("podAffinity") && !of_pods.has("podAntiAffinity");
    if !old.has("affinity") && is_only_of_nodes {
        copy(expected, old.value, "affinity");
    } else {
        copy(affinity, old.get("affinity").value, "nodeAffinity");
    }
}

fn node_affinity(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    if old.is_empty() {
        return;
    }
    if old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(new.invalid_as(internal::render_list("NodeSelectorTerm", new.value), detail));
        return;
    }
    for (before, after) in old.items().zip(new.items()) {
        if !only_adds_requirements(&after, &before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(after.invalid_as(internal::render("NodeSelectorTerm", after.value), detail));
        }
    }
}

/// Whether a term only adds requirements. An empty term matches nothing and must stay empty.
fn only_adds_requirements(new: &FieldValue<'_>, old: &FieldValue<'_>) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    if lists.iter().all(|field| old.get(field).is_empty()) {
        return lists.iter().all(|field| new.get(field).is_empty());
    }
    lists.iter().all(|field| {
        let (before, after) = (old.get(field).list(), new.get(field).list());
        after.len() >= before.len() && before.iter().zip(after).all(|(before, after)| same(before, after))
    })
}

/// Checks an update of the ephemeral containers, which can only be added.
pub(super) fn ephemeral_containers(new: &Value, old: &Value) -> Errors {
    if is_mirror(old) {
        let detail = "static pods do not support ephemeral containers";
        return vec![FieldError::forbidden(&FieldPath::new(""), detail)];
    }
    let mut errors = Errors::new();
    check(&mut errors, new, Some(old));
    annotations::check_update(&mut errors, new, old);
    let containers = |pod| FieldValue::field(pod, "spec").get("ephemeralContainers");
    let (new, old) = (containers(new), containers(old));
    for before in old.items() {
        let name = before.text_of("name");
        let quoted = atoll_meta::quote::quote(name);
        match new.items().rfind(|after| after.text_of("name") == name) {
            None => {
                let detail = format!("existing ephemeral containers {quoted} may not be removed\n");
                errors.push(new.forbidden(detail));
            }
            Some(after) if !same(before.value, after.value) => {
                let difference = internal::difference("EphemeralContainer", before.value, after.value);
                let detail =
                    format!("existing ephemeral containers {quoted} may not be changed\n{difference}");
                errors.push(new.forbidden(detail));
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
