//! Compares strategic merges of random patches into random objects of every kind with Go's.
//!
//! Go runs through `upstream/facts patch`; without Go, or if its modules cannot be fetched, the comparison is
//! skipped with a message. Go iterates over maps in random order and so may have several results for one
//! patch. Atoll's result has to be one of them.
//!
//! Known differences, both due to shared memory in Go:
//! - The rest of a patch, which some messages show, differs if a list in the patch contains an element twice.
//! - A merged list of scalars with duplicates may have a different order. The generator avoids that.

#[path = "upstream/patches.rs"]
mod patches;

use std::collections::BTreeMap;
use std::path::Path;

use atoll_merge::{PatchError, print_map, strategic_merge};
use atoll_meta::json;
use atoll_samples::Generator;
use atoll_schema::{Resource, Types, resources, restore};
use patches::Patches;
use serde_json::{Value, json};

/// Number of objects of each kind, and number of consecutive patches of each.
const OBJECTS: usize = 4;
const PATCHES: usize = 8;
/// Number of further runs of Go if Atoll's result is not among Go's results.
const RETRIES: usize = 40;

struct Case {
    row: &'static Resource,
    object: Value,
    patch: Value,
    actual: Value,
}

impl Case {
    fn line(&self) -> Value {
        let Case { row, object, patch, .. } = self;
        json!({"group": row.group, "version": row.version, "kind": row.kind, "text": object.to_string(), "patch": patch.to_string()})
    }

    fn matches_go(&self, results: &Value) -> bool {
        results.as_array().is_some_and(|results| results.contains(&self.actual))
    }
}

/// Returns Go's results, or `None` without Go.
fn run_patches(cases: impl Iterator<Item = Value>) -> Option<Vec<Value>> {
    atoll_upstream::ask_facts(Path::new(env!("CARGO_TARGET_TMPDIR")), "patch", cases)
}

#[test]
fn random_patches_are_merged_as_in_go() {
    let cases = cases(atoll_upstream::seed());
    let Some(mut results) = run_patches(cases.iter().map(Case::line)) else { return };
    assert_eq!(results.len(), cases.len(), "one result per case");
    // Some orders are rare.
    let doubtful: Vec<usize> =
        (0..cases.len()).filter(|&index| !cases[index].matches_go(&results[index])).collect();
    let lines = doubtful.iter().flat_map(|&index| std::iter::repeat_n(cases[index].line(), RETRIES));
    let more = run_patches(lines).unwrap_or_default();
    for (index, more) in doubtful.into_iter().zip(more.chunks(RETRIES)) {
        let known = results[index].as_array_mut().expect("a list of outcomes");
        known.extend(more.iter().flat_map(|more| more.as_array().cloned().unwrap_or_default()));
    }
    let mut differences = Vec::new();
    let mut left = 0;
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for (Case { row, object, patch, actual }, results) in cases.iter().zip(&results) {
        let results = results.as_array().expect("a list of outcomes");
        let outcome =
            ["panic", "error", "unreadable", "strict"].into_iter().find(|name| actual.get(name).is_some());
        *outcomes.entry(outcome.unwrap_or("merged")).or_default() += 1;
        if results.contains(actual) {
            continue;
        }
        let (actual_without_left, others) =
            (without_left(actual), results.iter().map(without_left).collect::<Vec<Value>>());
        if others.contains(&actual_without_left) {
            left += 1;
        } else {
            let results: Vec<String> = results.iter().map(ToString::to_string).collect();
            let results = results.join("\n  go   ");
            differences
                .push(format!("{} {object}\n  patch {patch}\n  go   {results}\n  atoll {actual}", row.kind));
        }
    }
    println!(
        "{} patches: {outcomes:?}, {} differ, {left} in the rest of the patch",
        cases.len(),
        differences.len()
    );
    assert!(outcomes["merged"] > cases.len() / 5, "too few patches were merged");
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        cases.len(),
        differences[..differences.len().min(4)].join("\n")
    );
}

fn without_left(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    outcome.as_object_mut().map(|fields| fields.remove("left"));
    outcome
}

fn cases(seed: u64) -> Vec<Case> {
    let types = Types::get();
    let mut generator = Generator::new(seed);
    let mut cases = Vec::new();
    for row in resources().iter().filter(|row| row.verbs.contains(&"patch")) {
        let id = row.type_id.expect("a resource that is patched has a type");
        // Most merge keys are in Pods.
        let many = if matches!(row.kind, "Pod" | "Deployment" | "Service" | "Node") { 10 } else { 1 };
        for _ in 0..OBJECTS * many {
            let text = generator.object(types, id, 0);
            let mut object =
                atoll_schema::decode(types, id, text.as_bytes()).expect("an object without mistakes").value;
            for _ in 0..PATCHES {
                remove_duplicates(&mut object);
                let patch = Patches { types, generator: &mut generator }.object(id, &object);
                let actual = merge(types, id, &object, &patch);
                // Lists grow from patch to patch.
                let next = actual.get("value").cloned();
                cases.push(Case { row, object: object.clone(), patch, actual });
                object = next.unwrap_or(object);
            }
        }
    }
    cases
}

/// Removes duplicate finalizers and address ranges.
fn remove_duplicates(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let ("finalizers" | "podCIDRs", Value::Array(elements)) = (name.as_str(), &mut *field) {
                    let mut seen = Vec::new();
                    elements.retain(|element| {
                        !seen.contains(element) && {
                            seen.push(element.clone());
                            true
                        }
                    });
                }
                remove_duplicates(field);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(remove_duplicates),
        _ => {}
    }
}

/// Returns Atoll's result in the format of Go's.
fn merge(types: &Types, id: atoll_schema::TypeId, object: &Value, patch: &Value) -> Value {
    let (mut merged, mut left) = (object.clone(), patch.clone());
    match strategic_merge(types, id, &mut merged, &mut left) {
        Err(PatchError::Incomparable) => return json!({"panic": true}),
        Err(error) => return json!({"error": error.to_string()}),
        Ok(()) => {}
    }
    let left = left.as_object().map(print_map).unwrap_or_default();
    match restore(types, id, &mut merged) {
        Err(error) => json!({"left": left, "unreadable": error}),
        Ok(strict) if strict.is_empty() => json!({"left": left, "value": reparse(&merged)}),
        Ok(strict) => json!({"left": left, "strict": strict, "value": reparse(&merged)}),
    }
}

/// Parses numbers again, as for Go's results.
fn reparse(value: &Value) -> Value {
    json::parse(&json::to_vec(value)).expect("what was written").value
}
