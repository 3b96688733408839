//! One device of a ResourceSlice.

// upstream: pkg/apis/resource/validation/validation.go

use std::collections::HashSet;

use atoll_meta::FieldError;
use serde_json::Value;

use super::claim::EFFECTS;
use super::slice::{counter_set, flag};
use super::{capacity, listed, named, names};
use crate::field_value::{Errors, FieldValue, equal};
use crate::{go_json, node_selector};

const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;
const MAX_ATTRIBUTE_VALUES: usize = 48;
const MAX_TAINTS: usize = 16;
const MAX_COUNTER_SETS: usize = 2;
const MAX_CONDITIONS: usize = 4;
const MAX_VALUE_LENGTH: usize = 64;
/// A domain, a slash and an identifier.
const MAX_KEY_LENGTH: usize = 63 + 1 + 32;

pub(super) fn check(
    errors: &mut Errors,
    device: &FieldValue<'_>,
    old: Option<&FieldValue<'_>>,
    has_nodes: bool,
) {
    names::label(errors, &device.get("name"));
    let (attributes, capacities) = (device.get("attributes"), device.get("capacity"));
    let count = attributes.len() + capacities.len();
    if count > MAX_ATTRIBUTES_AND_CAPACITIES {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        );
        errors.push(device.invalid_as(count, detail));
    }
    if attributes.len() > MAX_ATTRIBUTE_VALUES {
        let detail = format!("the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}");
        errors.push(device.invalid_as(attributes.len(), detail));
    }
    keyed(errors, &attributes, attribute);
    let is_shared = device.get("allowMultipleAllocations").flag();
    keyed(errors, &capacities, |errors, one| capacity::check(errors, one, is_shared));
    let taints = device.get("taints");
    if old.is_none_or(|old| !equal(old.get("taints").value, taints.value)) {
        listed(errors, &taints, MAX_TAINTS, taint);
    }
    named(errors, &device.get("consumesCounters"), MAX_COUNTER_SETS, "counterSet", |errors, set| {
        counter_set(errors, set, "counterSet");
    });
    if has_nodes {
        nodes(errors, device);
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| device.has(field)) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.push(device.invalid_as(Value::Null, detail));
    }
    binding(errors, device);
}

/// Checks a map whose keys are qualified names of attributes or capacities.
fn keyed(errors: &mut Errors, map: &FieldValue<'_>, mut check: impl FnMut(&mut Errors, &FieldValue<'_>)) {
    for (key, value) in map.value.as_object().into_iter().flatten() {
        names::qualified(errors, key, &map.path);
        check(errors, &FieldValue { value, path: map.path.key(&names::shortened(key, MAX_KEY_LENGTH)) });
    }
}

fn attribute(errors: &mut Errors, attribute: &FieldValue<'_>) {
    let (text, version) = (attribute.get("string"), attribute.get("version"));
    too_long(errors, &text);
    if version.is_set() && !is_version(version.text()) {
        errors.push(version.invalid("must be a string compatible with semver.org spec 2.0.0"));
    }
    too_long(errors, &version);
    let detail = "exactly one value must be specified";
    match ["int", "bool", "string", "version"].iter().filter(|kind| attribute.has(kind)).count() {
        0 => errors.push(attribute.invalid_as("", detail)),
        1 => {}
        _ => {
            let rendered = go_json::value("resource/v1.DeviceAttribute", attribute.value);
            errors.push(attribute.invalid_as(rendered, detail));
        }
    }
}

fn too_long(errors: &mut Errors, text: &FieldValue<'_>) {
    if text.len() > MAX_VALUE_LENGTH {
        errors.push(FieldError::too_long(&text.path, MAX_VALUE_LENGTH));
    }
}

/// Whether this is a semantic version (semver.org).
fn is_version(text: &str) -> bool {
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let is_pre =
        |part: &str| is_word(part) && (is_number(part) || part.bytes().any(|byte| !byte.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && pre.is_none_or(|pre| pre.split('.').all(is_pre))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

fn taint(errors: &mut Errors, taint: &FieldValue<'_>) {
    names::qualified_label(errors, &taint.get("key"));
    let value = taint.get("value");
    value.rules(errors, atoll_meta::names::label_value(value.text()));
    taint.get("effect").one_of(errors, EFFECTS);
}

/// Checks the node fields of a device in a slice with `perDeviceNodeSelection`.
fn nodes(errors: &mut Errors, device: &FieldValue<'_>) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let mut set = Vec::new();
    let (name, selector) = (device.get("nodeName"), device.get("nodeSelector"));
    if name.is_set() && name.is_empty() {
        errors.push(name.invalid("must not be empty"));
    } else if name.is_set() {
        set.push("`nodeName`");
        names::node(errors, &name);
    }
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector::check_selector(errors, &selector);
    }
    flag(errors, &device.get("allNodes"), "`allNodes`", &mut set);
    match set.len() {
        0 => errors.push(device.required(ONE)),
        1 => {}
        _ => errors.push(device.invalid_as(format!("{{{}}}", set.join(", ")), ONE)),
    }
}

/// Checks the binding conditions of a device or of an allocation result.
pub(super) fn binding(errors: &mut Errors, holder: &FieldValue<'_>) {
    let (request_fields, failures) =
        (holder.get("bindingConditions"), holder.get("bindingFailureConditions"));
    listed(errors, &request_fields, MAX_CONDITIONS, names::qualified_label);
    listed(errors, &failures, MAX_CONDITIONS, names::qualified_label);
    let mut conditions = HashSet::new();
    for condition in request_fields.items() {
        if !conditions.insert(condition.text()) {
            errors.push(condition.duplicate());
        }
    }
    let mut seen = HashSet::new();
    for failure in failures.items() {
        if !seen.insert(failure.text()) {
            errors.push(failure.duplicate());
        }
        if conditions.contains(failure.text()) {
            errors.push(failure.invalid("bindingFailureConditions must not overlap with bindingConditions"));
        }
    }
    if request_fields.is_empty() && !failures.is_empty() {
        errors.push(request_fields.invalid("bindingConditions are required to use bindingFailureConditions"));
    }
    if failures.is_empty() && !request_fields.is_empty() {
        errors.push(failures.invalid("bindingFailureConditions are required to use bindingConditions"));
    }
}

#[cfg(test)]
#[test]
fn versions() {
    for right in ["0.0.0", "1.2.3", "1.0.0-alpha", "1.0.0-0.3.7", "1.0.0-x-y.0a", "1.0.0-a+b.01", "1.0.0+a-b"]
    {
        assert!(is_version(right), "{right}");
    }
    for wrong in [
        "",
        "1",
        "1.2",
        "1.2.3.4",
        "01.2.3",
        "1.2.x",
        "1.0.0-",
        "1.0.0-01",
        "1.0.0-a..b",
        "1.0.0+",
        "1.0.0+a+b",
        "v1.0.0",
        "1.0.0\n",
    ] {
        assert!(!is_version(wrong), "{wrong}");
    }
}
