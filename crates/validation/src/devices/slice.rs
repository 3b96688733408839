//! ResourceSlices.

// upstream: pkg/apis/resource/validation/validation.go

use atoll_meta::FieldError;
use serde_json::Value;

use super::names;
use super::{device, named};
use crate::field_value::{Errors, FieldValue, POSITIVE, immutable, immutable_text};
use crate::{go_json, node_selector};

const MAX_DEVICES: usize = 128;
/// Maximum number of devices if any of them has taints or consumes counters.
const MAX_RICH_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const MAX_COUNTERS: usize = 32;

pub(super) fn check(slice: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(slice, "spec");
    let old = old.map(|old| FieldValue::field(old, "spec"));
    let (driver, pool) = (spec.get("driver"), spec.get("pool"));
    names::driver(&mut errors, &driver);
    check_pool(&mut errors, &pool);
    if let Some(old) = &old {
        immutable_text(&mut errors, &pool.get("name"), &old.get("pool").get("name"));
        immutable_text(&mut errors, &driver, &old.get("driver"));
        immutable(&mut errors, &spec.get("nodeName"), &old.get("nodeName"));
    }
    nodes(&mut errors, &spec);
    let (devices, counters) = (spec.get("devices"), spec.get("sharedCounters"));
    if devices.is_set() && counters.is_set() {
        errors.push(spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed"));
    }
    let is_rich = |device: FieldValue<'_>| {
        ["taints", "consumesCounters"].iter().any(|list| !device.get(list).is_empty())
    };
    let most = if devices.items().any(is_rich) { MAX_RICH_DEVICES } else { MAX_DEVICES };
    let before = old.map(|old| old.get("devices"));
    let each_has_nodes = spec.get("perDeviceNodeSelection").flag();
    named(&mut errors, &devices, most, "name", |errors, one| {
        let before = before
            .as_ref()
            .and_then(|before| before.items().find(|before| before.text_of("name") == one.text_of("name")));
        device::check(errors, one, before.as_ref(), each_has_nodes);
    });
    named(&mut errors, &counters, MAX_COUNTER_SETS, "name", |errors, set| counter_set(errors, set, "name"));
    errors
}

fn check_pool(errors: &mut Errors, pool: &FieldValue<'_>) {
    names::pool(errors, &pool.get("name"));
    let (slices, generation) = (pool.get("resourceSliceCount"), pool.get("generation"));
    if slices.integer() <= 0 {
        errors.push(slices.invalid_integer(POSITIVE));
    }
    if generation.number().is_some_and(|number| number < 0) {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
}

/// Checks that exactly one of four fields selects the nodes.
fn nodes(errors: &mut Errors, spec: &FieldValue<'_>) {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut set = Vec::new();
    let name = spec.get("nodeName");
    if name.is_set() && name.is_empty() {
        errors.push(name.invalid("must be either unset or set to a non-empty string"));
    } else if name.is_set() {
        set.push("`nodeName`");
        names::node(errors, &name);
    }
    let selector = spec.get("nodeSelector");
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector::check_selector(errors, &selector);
        let terms = selector.get("nodeSelectorTerms");
        if terms.len() != 1 {
            let rendered = go_json::list("core/v1.NodeSelectorTerm", terms.value);
            errors.push(terms.invalid_as(rendered, "must have exactly one node selector term"));
        }
    }
    for (field, upstream_name) in
        [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        flag(errors, &spec.get(field), upstream_name, &mut set);
    }
    match set.len() {
        0 => errors.push(spec.required(ONE)),
        1 => {}
        _ => errors.push(
            spec.invalid_as(format!("{{{}}}", set.join(", ")), format!("{ONE}, but multiple fields are set")),
        ),
    }
}

/// Checks a flag that is true or absent.
pub(super) fn flag(
    errors: &mut Errors,
    flag: &FieldValue<'_>,
    upstream_name: &'static str,
    set: &mut Vec<&'static str>,
) {
    match flag.value.as_bool() {
        Some(true) => set.push(upstream_name),
        Some(false) => errors.push(flag.invalid("must be either unset or set to true")),
        None => {}
    }
}

/// Checks a set of counters, of a slice or as consumed by a device. `name` is the field with its name.
pub(super) fn counter_set(errors: &mut Errors, set: &FieldValue<'_>, name: &'static str) {
    let (name, counters) = (set.get(name), set.get("counters"));
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        names::label(errors, &name);
    }
    if counters.is_empty() {
        errors.push(counters.required(""));
    } else if counters.len() > MAX_COUNTERS {
        errors.push(FieldError::too_many(&counters.path, counters.len(), MAX_COUNTERS));
    } else {
        for (key, _) in counters.entries() {
            let rules = atoll_meta::names::dns1123_label(key);
            errors.extend(rules.into_iter().map(|rule| FieldError::invalid(&counters.path, key, rule)));
        }
    }
}
