//! One device of a slice.

use std::collections::HashSet;

use atoll_meta::FieldError;
use serde_json::Value;

use super::claim::EFFECTS;
use super::slice::{counter_set, flag};
use super::{capacity, listed, named, names};
use crate::at::{At, Errors, equal};
use crate::fields::Fields;
use crate::{node_selector, shown};

const MOST_ATTRIBUTES_AND_CAPACITIES: usize = 32;
const MOST_ATTRIBUTE_VALUES: usize = 48;
const MOST_TAINTS: usize = 16;
const MOST_COUNTER_SETS: usize = 2;
const MOST_CONDITIONS: usize = 4;
const LONGEST_VALUE: usize = 64;
/// A domain, a slash and an identifier.
const LONGEST_KEY: usize = 63 + 1 + 32;

pub(super) fn check(errors: &mut Errors, device: &At<'_>, old: Option<&Value>, has_nodes: bool) {
    names::label(errors, &device.get("name"));
    let (attributes, capacities) = (device.get("attributes"), device.get("capacity"));
    let count = attributes.len() + capacities.len();
    if count > MOST_ATTRIBUTES_AND_CAPACITIES {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES_AND_CAPACITIES}"
        );
        errors.push(device.invalid_as(count, detail));
    }
    if attributes.len() > MOST_ATTRIBUTE_VALUES {
        let detail = format!("the total number of attribute values must not exceed {MOST_ATTRIBUTE_VALUES}");
        errors.push(device.invalid_as(attributes.len(), detail));
    }
    keyed(errors, &attributes, attribute);
    let is_shared = device.get("allowMultipleAllocations").flag();
    keyed(errors, &capacities, |errors, one| capacity::check(errors, one, is_shared));
    let taints = device.get("taints");
    if old.is_none_or(|old| !equal(old.part("taints"), taints.value)) {
        listed(errors, &taints, MOST_TAINTS, taint);
    }
    named(errors, &device.get("consumesCounters"), MOST_COUNTER_SETS, "counterSet", |errors, set| {
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

/// A map whose keys are names of attributes or capacities.
fn keyed(errors: &mut Errors, map: &At<'_>, mut check: impl FnMut(&mut Errors, &At<'_>)) {
    for (key, value) in map.value.as_object().into_iter().flatten() {
        names::qualified(errors, key, &map.path);
        check(errors, &At { value, path: map.path.key(&names::shortened(key, LONGEST_KEY)) });
    }
}

fn attribute(errors: &mut Errors, attribute: &At<'_>) {
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
            let shown = shown::value("resource/v1.DeviceAttribute", attribute.value);
            errors.push(attribute.invalid_as(shown, detail));
        }
    }
}

fn too_long(errors: &mut Errors, text: &At<'_>) {
    if text.len() > LONGEST_VALUE {
        errors.push(FieldError::too_long(&text.path, LONGEST_VALUE));
    }
}

/// Whether this is a version as semver.org has them.
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

fn taint(errors: &mut Errors, taint: &At<'_>) {
    names::qualified_label(errors, &taint.get("key"));
    let value = taint.get("value");
    value.rules(errors, atoll_meta::names::label_value(value.text()));
    taint.get("effect").one_of(errors, EFFECTS);
}

/// Which nodes reach this device, where the slice leaves that to its devices.
fn nodes(errors: &mut Errors, device: &At<'_>) {
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
        node_selector::check_selector(errors, selector.value, &selector.path);
    }
    flag(errors, &device.get("allNodes"), "`allNodes`", &mut set);
    match set.len() {
        0 => errors.push(device.required(ONE)),
        1 => {}
        _ => errors.push(device.invalid_as(format!("{{{}}}", set.join(", ")), ONE)),
    }
}

/// The conditions that a device or an allocated one must, or must not, meet before it is used.
pub(super) fn binding(errors: &mut Errors, holder: &At<'_>) {
    let (wanted, failures) = (holder.get("bindingConditions"), holder.get("bindingFailureConditions"));
    listed(errors, &wanted, MOST_CONDITIONS, names::qualified_label);
    listed(errors, &failures, MOST_CONDITIONS, names::qualified_label);
    let mut conditions = HashSet::new();
    for condition in wanted.items() {
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
    if wanted.is_empty() && !failures.is_empty() {
        errors.push(wanted.invalid("bindingConditions are required to use bindingFailureConditions"));
    }
    if failures.is_empty() && !wanted.is_empty() {
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
