//! Compares columns and cells with upstream's, for random objects of every kind.
//!
//! Without Go, the comparison is skipped; with ATOLL_REQUIRE_UPSTREAM=1 that is a failure.

#[path = "upstream/go.rs"]
mod go;

use std::time::{SystemTime, UNIX_EPOCH};

use atoll_columns::{Column, printer};
use atoll_meta::time::Timestamp;
use atoll_samples::Generator;
use atoll_schema::{Types, resources};
use go::{Question, ask};
use serde_json::{Value, json};

/// Number of objects of each kind.
const OBJECTS: usize = 60;

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    Timestamp::new(since.as_secs().cast_signed(), since.subsec_nanos())
}

fn definition(column: &Column) -> Value {
    json!({ "name": column.name, "type": column.kind, "format": column.format, "priority": column.priority })
}

#[test]
fn rows_match_upstream() {
    let types = Types::get();
    let mut generator = Generator::new(atoll_upstream::seed());
    let mut questions = Vec::new();
    for row in resources() {
        let Some(id) = row.type_id else { continue };
        // The server renders these two differently than the printers: CSIStorageCapacities without columns of
        // their own, and autoscalers in their storage version.
        if matches!((row.kind, row.version), ("CSIStorageCapacity", _) | ("HorizontalPodAutoscaler", "v1")) {
            continue;
        }
        for _ in 0..OBJECTS {
            let text = generator.object(types, id, 0);
            let mut object = atoll_schema::decode(types, id, text.as_bytes()).expect("it is right").value;
            atoll_schema::through_protobuf(types, id, &mut object);
            let members = object.as_object_mut().expect("it is an object");
            // stringData is never stored; kind and apiVersion are in the question.
            members.retain(|name, _| !matches!(name.as_str(), "stringData" | "kind" | "apiVersion"));
            questions.push(Question { group: row.group, version: row.version, kind: row.kind, object });
        }
    }
    let before = now();
    let Some(answers) = ask(&questions) else { return };
    let after = now();
    let (mut same, mut wrong) = (0, Vec::new());
    for (question, answer) in questions.iter().zip(&answers) {
        let Some(upstream_cells) = answer["cells"].as_array() else { continue };
        let printer = printer(question.group, question.kind);
        let columns: Vec<Value> = printer.columns.iter().map(definition).collect();
        let upstream_columns = answer["columns"].as_array().into_iter().flatten().map(|column| {
            let mut column = column.clone();
            column.as_object_mut().map(|column| column.remove("description"));
            column
        });
        let conditions = (printer.conditions)(&question.object).unwrap_or_default();
        let (early, late) = (printer.cells(&question.object, before), printer.cells(&question.object, after));
        // An age may have changed while Go was running.
        let cells = early.len() == upstream_cells.len()
            && upstream_cells
                .iter()
                .enumerate()
                .all(|(place, cell)| [&early[place], &late[place]].contains(&cell));
        match cells && columns == upstream_columns.collect::<Vec<_>>() && conditions == answer["conditions"] {
            true => same += 1,
            false => wrong.push(format!(
                "{} {}\n  go   {answer}\n  atoll {} {conditions}",
                question.kind,
                question.object,
                Value::Array(late)
            )),
        }
    }
    println!("{same} rows are the same");
    assert!(same > questions.len() * 3 / 4, "too few rows to tell anything: {same} of {}", questions.len());
    let shown: Vec<&str> = wrong.iter().take(3).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), shown.join("\n"));
}
