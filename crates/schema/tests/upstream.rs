//! Compares the decoding of random objects of every kind with Go's, both values and messages.
//!
//! A seeded generator builds objects from the facts, some of them valid and most with mistakes. Go runs
//! through `upstream/facts roundtrip`; without Go, or if its modules cannot be fetched, the comparison is
//! skipped with a message.
//!
//! Known differences, which the generator avoids:
//! - A struct or map field that occurs twice: Go decodes the second into the first and so merges them; here
//!   the last one wins. (Strict decoding rejects both.)
//! - A mistake in a value whose key occurs again: Go decodes both values, here only the last is decoded.
//! - A quantity with an escape in its string: Go does not unescape it.
//! - A number beyond a float64, such as 1e400, in a field that keeps raw JSON: Go keeps it, here it is
//!   rejected.
//! - More than 512 levels of nesting: Go allows 10000.

use std::path::Path;

use atoll_samples::Generator;
use atoll_schema::{Types, decode, resources, through_protobuf};
use atoll_upstream::{RoundTrip, round_trip};
use serde_json::json;

#[test]
fn random_objects_are_decoded_as_in_go() {
    compare(&cases(atoll_upstream::seed()));
}

#[test]
fn quantities_and_times_are_formatted_as_in_go() {
    let mut generator = Generator::new(atoll_upstream::seed() ^ 0xbeef);
    let mut cases = Vec::new();
    for _ in 0..1500 {
        let text = format!(
            r#"{{"spec":{{"capacity":{{"a":{}}}}},"status":{{"lastPhaseTransitionTime":{}}}}}"#,
            generator.quantity(),
            generator.time()
        );
        cases.push(RoundTrip { group: "", version: "v1", kind: "PersistentVolume", text, protobuf: false });
        let text = format!(r#"{{"spec":{{"renewTime":{}}}}}"#, generator.micro_time());
        cases.push(RoundTrip {
            group: "coordination.k8s.io",
            version: "v1",
            kind: "Lease",
            text,
            protobuf: false,
        });
    }
    compare(&cases);
}

#[test]
fn protobuf_storage_drops_the_same_fields_as_in_go() {
    let types = Types::get();
    let mut generator = Generator::new(atoll_upstream::seed() ^ 0x5707ed);
    let mut cases = Vec::new();
    for row in resources().iter().filter(|row| row.verbs.contains(&"list") && !stored_as_json(row.group)) {
        let id = row.type_id.expect("a listed resource has a type");
        for _ in 0..12 {
            let text = generator.object(types, id, 0);
            cases.push(RoundTrip {
                group: row.group,
                version: row.version,
                kind: row.kind,
                text,
                protobuf: true,
            });
        }
    }
    compare(&cases);
}

fn stored_as_json(group: &str) -> bool {
    matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io")
}

/// Generates a few objects of every kind, some of them with malformed text.
fn cases(seed: u64) -> Vec<RoundTrip> {
    let types = Types::get();
    let mut generator = Generator::new(seed);
    let mut cases = Vec::new();
    for (group, version, kind, id) in types.kinds() {
        for mistakes in [0, 0, 3, 10, 10, 30, 30, 30, 100] {
            let text = generator.object(types, id, mistakes);
            if mistakes == 3 {
                let text = generator.damage(&text);
                cases.push(RoundTrip { group, version, kind, text, protobuf: false });
            }
            cases.push(RoundTrip { group, version, kind, text, protobuf: false });
        }
    }
    cases
}

fn compare(cases: &[RoundTrip]) {
    let Some(results) = round_trip(Path::new(env!("CARGO_TARGET_TMPDIR")), cases) else { return };
    assert_eq!(results.len(), cases.len(), "one result per case");
    let types = Types::get();
    let mut differences = Vec::new();
    let (mut valid, mut strict) = (0, 0);
    for (case, mut result) in cases.iter().zip(results) {
        // Other tests compare the protobuf message.
        result.as_object_mut().map(|fields| fields.remove("message"));
        let id = types.by_kind(case.group, case.version, case.kind).expect("kind exists");
        let actual = match decode(types, id, case.text.as_bytes()) {
            Ok(mut decoded) => {
                if case.protobuf {
                    through_protobuf(types, id, &mut decoded.value);
                }
                let strict_errors: Vec<String> =
                    decoded.strict_errors.iter().map(ToString::to_string).collect();
                if strict_errors.is_empty() {
                    json!({"value": decoded.value})
                } else {
                    json!({"strict": strict_errors, "value": decoded.value})
                }
            }
            Err(error) => json!({"error": error.to_string()}),
        };
        // With strict errors Go's result has no value, because the decoder drops the object.
        valid += usize::from(result.get("error").is_none());
        strict += usize::from(result.get("strict").is_some());
        if actual != result {
            differences.push(format!("{} {}\n  go    {result}\n  atoll {actual}", case.kind, case.text));
        }
    }
    println!("{} objects, {valid} decoded by Go, {strict} of them with strict errors", cases.len());
    assert!(valid > cases.len() / 5, "too few objects were decoded");
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        cases.len(),
        differences.iter().take(4).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
}
