//! Our reading of random objects of every kind against Go's own, values and messages alike.
//!
//! The objects come from the facts by a seeded generator, some of them valid and most with mistakes. Go answers through
//! `upstream/facts roundtrip`; without Go, or where its modules cannot be fetched, the comparison is skipped and says so.
//!
//! Known differences, which the generator leaves out:
//! - A struct or map field that stands twice: Go decodes the second over the first and so merges them; here the last
//!   counts. (Strict reading refuses both.)
//! - A mistake in a value whose key comes again: Go reads both values, here only the last is looked at.
//! - A quantity with an escape in its string: Go does not unescape it there.
//! - A number beyond a float64, as 1e400, in a field that keeps raw JSON: Go keeps it, here it is refused.
//! - More than 512 levels of nesting: Go permits 10000.

#[path = "upstream/generator.rs"]
mod generator;
#[path = "upstream/go.rs"]
mod go;

use atoll_schema::{Types, decode, resources, through_protobuf};
use generator::Generator;
use go::{Question, ask};
use serde_json::json;

#[test]
fn random_objects_are_read_as_go_reads_them() {
    compare(&questions(seed()));
}

#[test]
fn quantities_and_times_are_written_as_go_writes_them() {
    let mut generator = Generator::new(seed() ^ 0xbeef);
    let mut questions = Vec::new();
    for _ in 0..1500 {
        let text = format!(
            r#"{{"spec":{{"capacity":{{"a":{}}}}},"status":{{"lastPhaseTransitionTime":{}}}}}"#,
            generator.quantity(),
            generator.time()
        );
        questions.push(Question {
            group: "",
            version: "v1",
            kind: "PersistentVolume",
            text,
            protobuf: false,
        });
        let text = format!(r#"{{"spec":{{"renewTime":{}}}}}"#, generator.micro_time());
        questions.push(Question {
            group: "coordination.k8s.io",
            version: "v1",
            kind: "Lease",
            text,
            protobuf: false,
        });
    }
    compare(&questions);
}

#[test]
fn stored_objects_lose_what_they_lose_in_go() {
    let types = Types::get();
    let mut generator = Generator::new(seed() ^ 0x5707ed);
    let mut questions = Vec::new();
    for row in resources().iter().filter(|row| row.verbs.contains(&"list") && !stored_as_json(row.group)) {
        let id = row.type_id.expect("a listed resource has a type");
        for _ in 0..12 {
            let text = generator.object(types, id, 0);
            questions.push(Question {
                group: row.group,
                version: row.version,
                kind: row.kind,
                text,
                protobuf: true,
            });
        }
    }
    compare(&questions);
}

fn stored_as_json(group: &str) -> bool {
    matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io")
}

/// Another seed may be tried as ATOLL_SEED=7.
fn seed() -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed);
    println!("seed {seed}");
    seed
}

/// A few objects of every kind, and some of them damaged as text.
fn questions(seed: u64) -> Vec<Question> {
    let types = Types::get();
    let mut generator = Generator::new(seed);
    let mut questions = Vec::new();
    for (group, version, kind, id) in types.kinds() {
        for mistakes in [0, 0, 3, 10, 10, 30, 30, 30, 100] {
            let text = generator.object(types, id, mistakes);
            if mistakes == 3 {
                let text = generator.damage(&text);
                questions.push(Question { group, version, kind, text, protobuf: false });
            }
            questions.push(Question { group, version, kind, text, protobuf: false });
        }
    }
    questions
}

fn compare(questions: &[Question]) {
    let Some(answers) = ask(questions) else { return };
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    let types = Types::get();
    let mut differences = Vec::new();
    let (mut valid, mut strict) = (0, 0);
    for (question, mut answer) in questions.iter().zip(answers) {
        // The protobuf form itself is for others to compare.
        answer.as_object_mut().map(|fields| fields.remove("message"));
        let id = types.by_kind(question.group, question.version, question.kind).expect("a kind of ours");
        let ours = match decode(types, id, question.text.as_bytes()) {
            Ok(mut decoded) => {
                if question.protobuf {
                    through_protobuf(types, id, &mut decoded.value);
                }
                let remarks: Vec<String> = decoded.remarks.iter().map(ToString::to_string).collect();
                if remarks.is_empty() {
                    json!({"value": decoded.value})
                } else {
                    json!({"strict": remarks, "value": decoded.value})
                }
            }
            Err(error) => json!({"error": error.to_string()}),
        };
        // With remarks Go's answer has no value: the decoder gives up the object.
        valid += usize::from(answer.get("error").is_none());
        strict += usize::from(answer.get("strict").is_some());
        if ours != answer {
            differences.push(format!("{} {}\n  go   {answer}\n  ours {ours}", question.kind, question.text));
        }
    }
    println!("{} objects, {valid} read by Go, {strict} of them with remarks", questions.len());
    assert!(valid > questions.len() / 5, "too few objects were read to tell anything");
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        questions.len(),
        differences.iter().take(4).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
}
