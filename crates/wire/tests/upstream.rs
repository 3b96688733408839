//! Compares the protobuf of random objects of every kind with Go's, in both directions.
//!
//! Without Go the comparison is skipped with a message; with ATOLL_REQUIRE_UPSTREAM=1 that is a failure.

use std::path::Path;

use atoll_samples::Generator;
use atoll_schema::{Types, normalise, resources};
use atoll_upstream::{RoundTrip, round_trip};
use atoll_wire::{decode, encode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

#[test]
fn messages_match_go() {
    let types = Types::get();
    let mut generator = Generator::new(atoll_upstream::seed());
    let mut cases = Vec::new();
    for row in resources() {
        let Some(id) = row.type_id else { continue };
        for _ in 0..12 {
            // The state after decoding JSON: for example, a zero time equals an absent one.
            let text = generator.object(types, id, 0);
            let text = atoll_schema::decode(types, id, text.as_bytes()).unwrap().value.to_string();
            cases.push(RoundTrip {
                group: row.group,
                version: row.version,
                kind: row.kind,
                text,
                protobuf: true,
            });
        }
    }
    let Some(results) = round_trip(Path::new(env!("CARGO_TARGET_TMPDIR")), &cases) else { return };
    let mut differences = Vec::new();
    let mut compared = 0;
    for (case, result) in cases.iter().zip(&results) {
        let Some(expected) = result["message"].as_str().and_then(|text| STANDARD.decode(text).ok()) else {
            continue;
        };
        compared += 1;
        let id = types.by_kind(case.group, case.version, case.kind).unwrap();
        let object = atoll_schema::decode(types, id, case.text.as_bytes()).unwrap().value;
        let actual = encode(types, id, &object);
        if actual != expected {
            let at = actual.iter().zip(&expected).position(|(own, other)| own != other);
            differences.push(format!(
                "{} {}\n  written differently at {at:?}\n  go   {expected:?}\n  atoll {actual:?}",
                case.kind, case.text
            ));
            continue;
        }
        let mut read = decode(types, id, &expected).unwrap();
        // The kind is beside the message.
        read["kind"] = object["kind"].clone();
        read["apiVersion"] = object["apiVersion"].clone();
        normalise(types, id, &mut read).unwrap();
        if read != result["value"] {
            differences.push(format!(
                "{} {}\n  read differently\n  go   {}\n  atoll {read}",
                case.kind, case.text, result["value"]
            ));
        }
    }
    println!("{compared} messages compared");
    assert!(compared > cases.len() / 2, "too few messages: {compared} of {}", cases.len());
    assert!(
        differences.is_empty(),
        "{} of {compared} differ:\n{}",
        differences.len(),
        differences.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
}
