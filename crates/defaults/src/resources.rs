//! Resource quantities: rounding, and the total of a pod's containers.

// upstream: pkg/apis/core/v1/defaults.go
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go

use std::collections::BTreeMap;

use atoll_meta::quantity::Quantity;
use serde_json::Value;

use crate::object::{ObjectMap, child, child_mut, items, text};

/// Rounds quantities up to thousandths.
pub fn round_up_to_milli(amounts: &mut ObjectMap) {
    for amount in amounts.values_mut() {
        let Value::String(text) = amount else { continue };
        if !is_finer_than_milli(text) {
            continue;
        }
        if let Ok(mut quantity) = Quantity::parse(text) {
            quantity.round_up_to_millis();
            *text = quantity.to_string();
        }
    }
}

/// Whether a quantity has digits beyond thousandths, even if they are zeros.
fn is_finer_than_milli(text: &str) -> bool {
    let number = text.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-')).count();
    let (number, suffix) = text.split_at(number);
    let decimals = number.find('.').map_or(0, |point| number.len() - point - 1);
    let exponent = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        _ => match suffix.strip_prefix(['e', 'E']) {
            Some(exponent) => exponent.parse().unwrap_or(6),
            None => 6,
        },
    };
    exponent - i64::try_from(decimals).unwrap_or(i64::MAX) < -3
}

/// Defaults `requests` to `limits`.
pub fn requests_from_limits(container: &mut ObjectMap) {
    let Some(resources) = child_mut(container, "resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits") else { return };
    let requests = child(resources, "requests");
    let missing: Vec<_> = limits
        .iter()
        .filter(|(name, _)| requests.is_none_or(|requests| !requests.contains_key(*name)))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    if !missing.is_empty()
        && let Some(requests) = crate::object::entry(resources, "requests")
    {
        requests.extend(missing);
    }
}

type ResourceList<'o> = BTreeMap<&'o str, Quantity>;

/// Defaults the pod-level requests and limits, if the pod has any.
pub fn pod_resources(spec: &mut ObjectMap) {
    let Some(resources) = child(spec, "resources") else { return };
    let is_some = |name| child(resources, name).is_some_and(|amounts| !amounts.is_empty());
    if !is_some("limits") && !is_some("requests") {
        return;
    }
    let has =
        |list: &str, name: &str| child(resources, list).is_some_and(|amounts| amounts.contains_key(name));
    let mut limits = Vec::new();
    for (name, amount) in aggregate(spec, "limits") {
        if is_huge_pages(name) && !has("requests", name) && !has("limits", name) {
            limits.push((name.to_owned(), Value::String(amount.to_string())));
        }
    }
    let mut requests: Vec<(String, Value)> = Vec::new();
    if is_some("limits") || !limits.is_empty() {
        for (name, amount) in aggregate(spec, "requests") {
            if is_pod_level_resource(name) && !is_huge_pages(name) && !has("requests", name) {
                requests.push((name.to_owned(), Value::String(amount.to_string())));
            }
        }
        let own = child(resources, "limits").into_iter().flatten();
        for (name, amount) in own.chain(limits.iter().map(|(name, amount)| (name, amount))) {
            let known = requests.iter().any(|(other, _)| other == name);
            if is_pod_level_resource(name) && !known && !has("requests", name) {
                requests.push((name.clone(), amount.clone()));
            }
        }
    }
    let Some(resources) = child_mut(spec, "resources") else { return };
    for (name, more) in [("limits", limits), ("requests", requests)] {
        if !more.is_empty()
            && let Some(amounts) = crate::object::entry(resources, name)
        {
            amounts.extend(more);
        }
    }
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether a resource can be requested at pod level.
fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// Returns the largest amounts that the containers need at one time. Init containers run one after the other;
/// sidecars keep running.
fn aggregate<'o>(spec: &'o ObjectMap, list: &str) -> ResourceList<'o> {
    let of =
        |container: &'o ObjectMap| child(container, "resources").and_then(|resources| child(resources, list));
    let mut sum = ResourceList::new();
    for container in items(spec, "containers") {
        add(&mut sum, of(container));
    }
    let mut sidecars = ResourceList::new();
    let mut max = ResourceList::new();
    for container in items(spec, "initContainers") {
        if text(container, "restartPolicy") == "Always" {
            add(&mut sum, of(container));
            add(&mut sidecars, of(container));
            keep_max(&mut max, &sidecars);
        } else {
            let mut current = ResourceList::new();
            add(&mut current, of(container));
            for (name, amount) in &sidecars {
                add_one(&mut current, name, amount.clone());
            }
            keep_max(&mut max, &current);
        }
    }
    keep_max(&mut sum, &max);
    sum
}

fn add<'o>(sum: &mut ResourceList<'o>, amounts: Option<&'o ObjectMap>) {
    for (name, amount) in amounts.into_iter().flatten() {
        if let Some(amount) = amount.as_str().and_then(|text| Quantity::parse(text).ok()) {
            add_one(sum, name, amount);
        }
    }
}

fn add_one<'o>(sum: &mut ResourceList<'o>, name: &'o str, amount: Quantity) {
    match sum.get_mut(name) {
        Some(own) => own.add(&amount),
        None => drop(sum.insert(name, amount)),
    }
}

fn keep_max<'o>(max: &mut ResourceList<'o>, amounts: &ResourceList<'o>) {
    for (name, amount) in amounts {
        if max.get(name).is_none_or(|own| own < amount) {
            max.insert(name, amount.clone());
        }
    }
}
