//! Compares the defaults of random objects of every kind with those of the API server's own types.
//!
//! A seeded generator builds objects from the facts and prefers values on which defaults depend. Go runs
//! through `upstream/build defaults`; without Go the comparison is skipped with a message.
//!
//! Known differences:
//! - Go's decoder distinguishes an empty list or map from an absent one. Objects here have lost the empty
//!   ones before, so an empty `policies` of an autoscaler's behavior and an empty `allocatable` of a Node are
//!   defaulted as if they were absent. If the result equals Go's for the object without them, it counts as
//!   equal, in a separate counter.
//! - The conversion of older HorizontalPodAutoscalers is not defaulting; tests against both servers compare
//!   it.
//! - The time at which a device was tainted comes from the clock.

#[path = "upstream/generator.rs"]
mod generator;
#[path = "upstream/go.rs"]
mod go;

use std::collections::BTreeMap;

use atoll_schema::{Types, decode};
use generator::Generator;
use go::{Case, run};
use serde_json::Value;

/// Number of objects of each kind.
const OBJECTS: usize = 100;

#[test]
fn random_objects_get_the_same_defaults_as_in_go() {
    let types = Types::get();
    let mut generator = Generator::new(atoll_upstream::seed());
    let mut cases = Vec::new();
    for (group, version, kind, id) in types.kinds() {
        if !is_stored(group, kind) || (group, version) == ("autoscaling", "v1") {
            continue;
        }
        for _ in 0..OBJECTS {
            let mut object = generator.object(types, id);
            object["apiVersion"] =
                if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
            object["kind"] = kind.into();
            cases.push(Case { group, version, kind, object });
        }
    }
    let Some(results) = run(&cases) else { return };
    assert_eq!(results.len(), cases.len(), "one result per case");
    let mut differences: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let (mut compared, mut refused, mut emptied) = (0, 0, 0);
    for (case, result) in cases.iter().zip(&results) {
        if result.get("error").is_some() {
            refused += 1;
            continue;
        }
        compared += 1;
        let id = types.by_kind(case.group, case.version, case.kind).expect("kind exists");
        let text = case.object.to_string();
        let mut actual =
            decode(types, id, text.as_bytes()).expect("objects that Go accepts are decoded").value;
        let defaults = atoll_defaults::defaults_for(case.group, case.version, case.kind);
        defaults.apply(&mut actual);
        let mut again = actual.clone();
        defaults.apply(&mut again);
        assert_eq!(again, actual, "defaulting is not idempotent: {text}");
        let (value, settled) = (without_time(&result["value"]), without_time(&result["settled"]));
        if actual == value {
            continue;
        }
        if actual == settled {
            emptied += 1;
            continue;
        }
        let (count, _) = differences
            .entry(case.kind)
            .or_insert_with(|| (0, format!("\n  of   {text}\n{}", difference("", &value, &actual))));
        *count += 1;
    }
    println!("{compared} objects compared, {emptied} of them without what is empty, {refused} refused by Go");
    assert!(compared > 10 * refused, "too few objects were accepted");
    let wrong: usize = differences.values().map(|(count, _)| count).sum();
    let differences: Vec<String> =
        differences.iter().map(|(kind, (count, text))| format!("{kind} ({count} times){text}")).collect();
    assert!(wrong == 0, "{wrong} of {compared} differ:\n{}", differences.join("\n"));
}

/// Whether objects of this kind are stored. Lists, options and reviews are not defaulted.
fn is_stored(group: &str, kind: &str) -> bool {
    let is_request =
        matches!(group, "meta.k8s.io" | "admission.k8s.io" | "authorization.k8s.io" | "apidiscovery.k8s.io");
    let is_part = kind.ends_with("List") || kind.ends_with("Options") || kind.ends_with("Review");
    !is_request
        && !is_part
        && !matches!(kind, "RangeAllocation" | "SerializedReference" | "NodeConfigSource" | "PodStatusResult")
}

fn without_time(value: &Value) -> Value {
    let mut value = value.clone();
    for device in value.pointer_mut("/spec/devices").and_then(Value::as_array_mut).into_iter().flatten() {
        for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
            // The generator does not set it.
            taint.as_object_mut().map(|fields| fields.remove("timeAdded"));
        }
    }
    value
}

/// Returns the paths at which two values differ.
fn difference(path: &str, go: &Value, actual: &Value) -> String {
    match (go, actual) {
        (Value::Object(left), Value::Object(right)) => {
            let mut names: Vec<_> = left.keys().chain(right.keys()).collect();
            names.sort_unstable();
            names.dedup();
            names
                .into_iter()
                .filter(|name| left.get(*name) != right.get(*name))
                .map(|name| difference(&format!("{path}.{name}"), &go[name], &actual[name]))
                .collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .filter(|(_, (left, right))| left != right)
            .map(|(index, (left, right))| difference(&format!("{path}[{index}]"), left, right))
            .collect(),
        _ => format!("  at    {path}\n  go    {go}\n  atoll {actual}\n"),
    }
}
