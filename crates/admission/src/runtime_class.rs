//! RuntimeClasses: sets overhead and scheduling of Pods, and refuses unknown classes.

// upstream: plugin/pkg/admission/runtimeclass/admission.go
// upstream: pkg/util/tolerations/tolerations.go

use atoll_meta::Status;
use atoll_meta::quantity::Quantity;
use serde_json::{Map, Value};

use crate::{Plugin, Request};

pub struct RuntimeClass;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

impl Plugin for RuntimeClass {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.creates("", "pods")
    }

    fn mutate(&self, request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
        let Some(class) = class(request, pod)? else { return Ok(()) };
        if let Some(overhead) = class.get("overhead") {
            let fixed = amounts(overhead.get("podFixed"));
            let given = amounts(pod["spec"].get("overhead"));
            if given.is_some_and(|given| !given.is_empty()) && !same(given, fixed) {
                return Err(request.forbidden(pod, MISMATCH));
            }
            if let Some(fixed) = fixed {
                pod["spec"]["overhead"] = fixed.clone().into();
            }
        }
        match class.get("scheduling") {
            Some(scheduling) => schedule(request, pod, scheduling),
            None => Ok(()),
        }
    }

    fn validate(&self, request: &Request<'_>, pod: &Value) -> Result<(), Status> {
        let given = amounts(pod["spec"].get("overhead"));
        let class = class(request, pod)?;
        match class.as_ref().and_then(|class| class.get("overhead")) {
            Some(overhead) if !same(amounts(overhead.get("podFixed")), given) => {
                Err(request.forbidden(pod, MISMATCH))
            }
            None if given.is_some() => {
                let message =
                    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                Err(request.forbidden(pod, message))
            }
            _ => Ok(()),
        }
    }
}

fn class(request: &Request<'_>, pod: &Value) -> Result<Option<Value>, Status> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
    match request.find("node.k8s.io", "runtimeclasses", "", name) {
        Some(class) => class.parse().map(Some),
        None => Err(request.forbidden(pod, format!("pod rejected: RuntimeClass {name:?} not found"))),
    }
}

fn amounts(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// Whether two resource lists are equal, however they are written.
fn same(left: Option<&Map<String, Value>>, right: Option<&Map<String, Value>>) -> bool {
    let amount = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok());
    let (left, right) = (left.into_iter().flatten(), right.into_iter().flatten());
    left.map(|(name, value)| (name, amount(value))).eq(right.map(|(name, value)| (name, amount(value))))
}

/// Adds the node selector and tolerations of the class.
fn schedule(request: &Request<'_>, pod: &mut Value, scheduling: &Value) -> Result<(), Status> {
    for (key, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let given = pod["spec"]["nodeSelector"].get(key);
        if let Some(given) = given.filter(|given| *given != wanted) {
            let (wanted, given) = (wanted.as_str().unwrap_or_default(), given.as_str().unwrap_or_default());
            let message = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {given}"
            );
            return Err(request.forbidden(pod, message));
        }
        pod["spec"]["nodeSelector"][key.as_str()] = wanted.clone();
    }
    let own = pod["spec"]["tolerations"].as_array().into_iter().flatten();
    let all: Vec<&Value> = own.chain(scheduling["tolerations"].as_array().into_iter().flatten()).collect();
    let merged = merged(&all);
    if !merged.is_empty() {
        pod["spec"]["tolerations"] = merged.into();
    }
    Ok(())
}

/// Removes tolerations that another one covers; of equal ones the first stays.
fn merged(all: &[&Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let covered = merged.iter().any(|other| covers(other, toleration))
            || all[index + 1..].iter().any(|other| other != toleration && covers(other, toleration));
        if !covered {
            merged.push((*toleration).clone());
        }
    }
    merged
}

fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let text = |toleration: &'_ Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    let same = |field: &str| text(wide, field) == text(narrow, field);
    let any = |field: &str| text(wide, field).is_empty();
    let any_key = any("key") && wide["operator"] == "Exists";
    if !(same("key") || any_key) {
        return false;
    }
    if !same("effect") && !any("effect") {
        return false;
    }
    let seconds = |toleration: &Value| toleration["tolerationSeconds"].as_i64();
    if wide["effect"] == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|own| own > most)
    {
        return false;
    }
    match text(wide, "operator").as_str() {
        "" | "Equal" => narrow["operator"] == "Equal" && same("value"),
        operator => operator == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn covered_tolerations_are_removed() {
        let key = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
        let equal = |value: &str| json!({ "key": "a", "operator": "Equal", "value": value });
        let everything = json!({ "operator": "Exists" });
        let seconds = |seconds: i64| json!({ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds });
        let cases = [
            (vec![key("a"), key("b")], vec![key("a"), key("b")]),
            (vec![key("a"), key("a")], vec![key("a")]),
            (vec![key("a"), everything.clone(), key("b")], vec![everything]),
            (vec![equal("x"), equal("y")], vec![equal("x"), equal("y")]),
            (vec![seconds(60), seconds(30)], vec![seconds(60)]),
            (vec![seconds(30), seconds(60)], vec![seconds(60)]),
        ];
        for (all, expected) in cases {
            assert_eq!(merged(&all.iter().collect::<Vec<_>>()), expected, "{all:?}");
        }
    }
}
