//! Our protobuf against Go's own, for random objects of every kind: the same bytes out, the same object in.
//!
//! Without Go the comparison is skipped and says so; with ATOLL_REQUIRE_UPSTREAM=1 that is a failure.

// Made for the comparison of JSON, which also asks for damaged texts.
#[allow(dead_code)]
#[path = "../../schema/tests/upstream/generator.rs"]
mod generator;
#[path = "../../schema/tests/upstream/go.rs"]
mod go;

use atoll_schema::{Types, normalise, resources};
use atoll_wire::{decode, encode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use generator::Generator;
use go::{Question, ask};

/// Another seed may be tried as ATOLL_SEED=7.
fn seed() -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed);
    println!("seed {seed}");
    seed
}

#[test]
fn messages_are_those_of_go() {
    let types = Types::get();
    let mut generator = Generator::new(seed());
    let mut questions = Vec::new();
    for row in resources() {
        let Some(id) = row.type_id else { continue };
        for _ in 0..12 {
            // As it is after JSON has been read: a time of zero, say, is then the same as none.
            let text = generator.object(types, id, 0);
            let text = atoll_schema::decode(types, id, text.as_bytes()).unwrap().value.to_string();
            questions.push(Question {
                group: row.group,
                version: row.version,
                kind: row.kind,
                text,
                protobuf: true,
            });
        }
    }
    let Some(answers) = ask(&questions) else { return };
    let mut differences = Vec::new();
    let mut compared = 0;
    for (question, answer) in questions.iter().zip(&answers) {
        let Some(theirs) = answer["message"].as_str().and_then(|text| STANDARD.decode(text).ok()) else {
            continue;
        };
        compared += 1;
        let id = types.by_kind(question.group, question.version, question.kind).unwrap();
        let object = atoll_schema::decode(types, id, question.text.as_bytes()).unwrap().value;
        let ours = encode(types, id, &object);
        if ours != theirs {
            let at = ours.iter().zip(&theirs).position(|(own, other)| own != other);
            differences.push(format!(
                "{} {}\n  written differently at {at:?}\n  go   {theirs:?}\n  ours {ours:?}",
                question.kind, question.text
            ));
            continue;
        }
        let mut read = decode(types, id, &theirs).unwrap();
        // The kind stands beside the message.
        read["kind"] = object["kind"].clone();
        read["apiVersion"] = object["apiVersion"].clone();
        normalise(types, id, &mut read).unwrap();
        if read != answer["value"] {
            differences.push(format!(
                "{} {}\n  read differently\n  go   {}\n  ours {read}",
                question.kind, question.text, answer["value"]
            ));
        }
    }
    println!("{compared} messages compared");
    assert!(
        compared > questions.len() / 2,
        "too few messages to tell anything: {compared} of {}",
        questions.len()
    );
    assert!(
        differences.is_empty(),
        "{} of {compared} differ:\n{}",
        differences.len(),
        differences.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
}
