//! Our defaults of random objects of every kind against those of the API server's own types.
//!
//! The objects come from the facts by a seeded generator that likes the values on which defaults depend. Go answers
//! through `upstream/build defaults`; without Go the comparison is skipped and says so.
//!
//! Known differences:
//! - Go tells an empty list or map from none while it decodes. Objects here have lost the empty ones before, so an empty
//!   `policies` of an autoscaler's behavior and an empty `allocatable` of a Node are filled in as if they were absent.
//!   Where our answer is Go's for the object without them, it counts as equal, and is counted apart.
//! - What becomes of an older HorizontalPodAutoscaler on its way through the newer version is not filling in; requests
//!   to both servers compare it.
//! - The time at which a device was tainted is the clock's, and no business of this crate.

#[path = "upstream/generator.rs"]
mod generator;
#[path = "upstream/go.rs"]
mod go;

use std::collections::BTreeMap;

use atoll_schema::{Types, decode};
use generator::Generator;
use go::{Question, ask};
use serde_json::Value;

/// How many objects of each kind.
const OBJECTS: usize = 100;

#[test]
fn random_objects_are_filled_in_as_go_fills_them_in() {
    let types = Types::get();
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed);
    println!("seed {seed}");
    let mut generator = Generator::new(seed);
    let mut questions = Vec::new();
    for (group, version, kind, id) in types.kinds() {
        if !is_stored(group, kind) || (group, version) == ("autoscaling", "v1") {
            continue;
        }
        for _ in 0..OBJECTS {
            let mut object = generator.object(types, id);
            object["apiVersion"] =
                if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
            object["kind"] = kind.into();
            questions.push(Question { group, version, kind, object });
        }
    }
    let Some(answers) = ask(&questions) else { return };
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    let mut differences: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let (mut compared, mut refused, mut emptied) = (0, 0, 0);
    for (question, answer) in questions.iter().zip(&answers) {
        if answer.get("error").is_some() {
            refused += 1;
            continue;
        }
        compared += 1;
        let id = types.by_kind(question.group, question.version, question.kind).expect("a kind of ours");
        let text = question.object.to_string();
        let mut ours = decode(types, id, text.as_bytes()).expect("what Go reads is read").value;
        let defaults = atoll_defaults::of(question.group, question.version, question.kind);
        defaults.apply(&mut ours);
        let mut again = ours.clone();
        defaults.apply(&mut again);
        assert_eq!(again, ours, "filling in twice changes more: {text}");
        let (value, settled) = (without_time(&answer["value"]), without_time(&answer["settled"]));
        if ours == value {
            continue;
        }
        if ours == settled {
            emptied += 1;
            continue;
        }
        let (count, _) = differences
            .entry(question.kind)
            .or_insert_with(|| (0, format!("\n  of   {text}\n{}", difference("", &value, &ours))));
        *count += 1;
    }
    println!("{compared} objects compared, {emptied} of them without what is empty, {refused} refused by Go");
    assert!(compared > 10 * refused, "too few objects were read to tell anything");
    let wrong: usize = differences.values().map(|(count, _)| count).sum();
    let shown: Vec<String> =
        differences.iter().map(|(kind, (count, text))| format!("{kind} ({count} times){text}")).collect();
    assert!(wrong == 0, "{wrong} of {compared} differ:\n{}", shown.join("\n"));
}

/// Lists, options and reviews are answered at once; nothing is filled in for them.
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
            // The generator sets none.
            taint.as_object_mut().map(|fields| fields.remove("timeAdded"));
        }
    }
    value
}

/// The places at which two values differ.
fn difference(path: &str, go: &Value, ours: &Value) -> String {
    match (go, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let mut names: Vec<_> = left.keys().chain(right.keys()).collect();
            names.sort_unstable();
            names.dedup();
            names
                .into_iter()
                .filter(|name| left.get(*name) != right.get(*name))
                .map(|name| difference(&format!("{path}.{name}"), &go[name], &ours[name]))
                .collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .filter(|(_, (left, right))| left != right)
            .map(|(index, (left, right))| difference(&format!("{path}[{index}]"), left, right))
            .collect(),
        _ => format!("  at   {path}\n  go   {go}\n  ours {ours}\n"),
    }
}
