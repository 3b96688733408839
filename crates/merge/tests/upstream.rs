//! Strategic merges of random patches into random objects of every kind, against Go's own.
//!
//! Go answers through `upstream/facts patch`; without Go, or where its modules cannot be fetched, the comparison is
//! skipped and says so. Go visits maps in any order and so may have several answers to one patch, all of which it is
//! asked for; ours has to be one of them.
//!
//! Known differences, both because of what Go's values share in memory:
//! - What is left of a patch, which shows in some messages, is another where a list in the patch names an element twice.
//! - A merged list of scalars that has some of them twice may take another order. The generator leaves that out.

#[allow(dead_code)]
#[path = "../../schema/tests/upstream/generator.rs"]
mod generator;
#[allow(dead_code)]
#[path = "../../schema/tests/upstream/go.rs"]
mod go;
#[path = "upstream/patches.rs"]
mod patches;

use std::collections::BTreeMap;

use atoll_merge::{PatchError, print_map, strategic_merge};
use atoll_meta::json;
use atoll_schema::{Resource, Types, resources, restore};
use generator::Generator;
use patches::Patches;
use serde_json::{Value, json};

/// Objects of each kind, and patches in a row for each of them.
const OBJECTS: usize = 4;
const PATCHES: usize = 8;
/// How often Go is asked again where ours is none of its answers.
const AGAIN: usize = 40;

struct Question {
    row: &'static Resource,
    object: Value,
    patch: Value,
    ours: Value,
}

impl Question {
    fn line(&self) -> Value {
        let Question { row, object, patch, .. } = self;
        json!({"group": row.group, "version": row.version, "kind": row.kind, "text": object.to_string(), "patch": patch.to_string()})
    }

    fn is_answered(&self, answers: &Value) -> bool {
        answers.as_array().is_some_and(|answers| answers.contains(&self.ours))
    }
}

#[test]
fn random_patches_are_merged_as_go_merges_them() {
    let questions = questions(seed());
    let Some(mut answers) = go::ask_about("patch", questions.iter().map(Question::line)) else { return };
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    // Some orders are rare.
    let doubtful: Vec<usize> =
        (0..questions.len()).filter(|&index| !questions[index].is_answered(&answers[index])).collect();
    let lines = doubtful.iter().flat_map(|&index| std::iter::repeat_n(questions[index].line(), AGAIN));
    let more = go::ask_about("patch", lines).unwrap_or_default();
    for (index, more) in doubtful.into_iter().zip(more.chunks(AGAIN)) {
        let known = answers[index].as_array_mut().expect("a list of outcomes");
        known.extend(more.iter().flat_map(|more| more.as_array().cloned().unwrap_or_default()));
    }
    let mut differences = Vec::new();
    let mut left = 0;
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for (Question { row, object, patch, ours }, answers) in questions.iter().zip(&answers) {
        let answers = answers.as_array().expect("a list of outcomes");
        let outcome =
            ["panic", "error", "unreadable", "strict"].into_iter().find(|name| ours.get(name).is_some());
        *outcomes.entry(outcome.unwrap_or("merged")).or_default() += 1;
        if answers.contains(ours) {
            continue;
        }
        let (told, others) = (without_left(ours), answers.iter().map(without_left).collect::<Vec<Value>>());
        if others.contains(&told) {
            left += 1;
        } else {
            let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
            let answers = answers.join("\n  go   ");
            differences
                .push(format!("{} {object}\n  patch {patch}\n  go   {answers}\n  ours {ours}", row.kind));
        }
    }
    println!(
        "{} patches: {outcomes:?}, {} differ, {left} in what is left of the patch",
        questions.len(),
        differences.len()
    );
    assert!(outcomes["merged"] > questions.len() / 5, "too few patches were merged to tell anything");
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        questions.len(),
        differences[..differences.len().min(4)].join("\n")
    );
}

fn without_left(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    outcome.as_object_mut().map(|fields| fields.remove("left"));
    outcome
}

/// Another seed may be tried as ATOLL_SEED=7.
fn seed() -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed);
    println!("seed {seed}");
    seed
}

fn questions(seed: u64) -> Vec<Question> {
    let types = Types::get();
    let mut generator = Generator::new(seed);
    let mut questions = Vec::new();
    for row in resources().iter().filter(|row| row.verbs.contains(&"patch")) {
        let id = row.type_id.expect("a resource that is patched has a type");
        // Most merge keys are in Pods.
        let many = if matches!(row.kind, "Pod" | "Deployment" | "Service" | "Node") { 10 } else { 1 };
        for _ in 0..OBJECTS * many {
            let text = generator.object(types, id, 0);
            let mut object =
                atoll_schema::decode(types, id, text.as_bytes()).expect("an object without mistakes").value;
            for _ in 0..PATCHES {
                each_once(&mut object);
                let patch = Patches { types, generator: &mut generator }.object(id, &object);
                let ours = merge(types, id, &object, &patch);
                // Lists grow from patch to patch.
                let next = ours.get("value").cloned();
                questions.push(Question { row, object: object.clone(), patch, ours });
                object = next.unwrap_or(object);
            }
        }
    }
    questions
}

/// Leaves each finalizer and address range once.
fn each_once(value: &mut Value) {
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
                each_once(field);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(each_once),
        _ => {}
    }
}

/// Our outcome, as Go's are written.
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
        Ok(strict) if strict.is_empty() => json!({"left": left, "value": read_again(&merged)}),
        Ok(strict) => json!({"left": left, "strict": strict, "value": read_again(&merged)}),
    }
}

/// Numbers as they are read, which is how Go's answers were.
fn read_again(value: &Value) -> Value {
    json::parse(&json::to_vec(value)).expect("what was written").value
}
