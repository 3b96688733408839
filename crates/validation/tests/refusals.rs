//! Compares validation errors with those recorded from kube-apiserver 1.36, one file per kind.
//!
//! A file contains objects and cases. A case takes one of the objects, sets or removes the value at a JSON
//! pointer, and lists all expected errors in order. `from` names the old object if it is a different one.
//! Objects are as the server returns them, with defaults.

use std::path::Path;

use atoll_schema::{Types, normalise};
use serde_json::Value;

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} is missing in {value}"))
}

/// Returns the object with one value set, or removed if there is none to set.
fn edited(mut object: Value, pointer: &str, value: Option<&Value>) -> Value {
    let (holder, last) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    let last = last.replace("~1", "/").replace("~0", "~");
    match (object.pointer_mut(holder).expect("the pointer leads somewhere"), value) {
        (Value::Object(fields), Some(value)) => drop(fields.insert(last, value.clone())),
        (Value::Object(fields), None) => drop(fields.remove(&last)),
        (Value::Array(list), Some(value)) => list[last.parse::<usize>().expect("an index")] = value.clone(),
        (Value::Array(list), None) => drop(list.remove(last.parse().expect("an index"))),
        _ => panic!("nothing can be at {pointer}"),
    }
    object
}

fn validation_errors(file: &Value, case: &Value) -> Vec<String> {
    let types = Types::get();
    let id = types
        .by_kind(text(file, "group"), text(file, "version"), text(file, "kind"))
        .expect("the kind is a built-in one");
    let checks = atoll_validation::checks_for(text(file, "group"), text(file, "resource"));
    let object = |role: &str| file["objects"][text(case, role)].clone();
    let mut old = object(if case.get("from").is_some() { "from" } else { "to" });
    let mut new = edited(object("to"), text(case, "at"), case.get("set"));
    for object in [&mut old, &mut new] {
        normalise(types, id, object).expect("the types are right");
    }
    let errors = match text(case, "do") {
        "create" => (checks.create)(&new),
        "update" => (checks.update)(&new, &old),
        subresource => (checks.subresource)(subresource, &new, &old),
    };
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn errors_match_kube_apiserver() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refusals");
    let (mut cases, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder can be read").path();
        let file = std::fs::read_to_string(&path).expect("the file can be read");
        let file: Value = serde_json::from_str(&file).expect("the file is JSON");
        for case in file["cases"].as_array().expect("there are cases") {
            cases += 1;
            let expected: Vec<&str> =
                case["refused"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            let found = validation_errors(&file, case);
            if found != expected {
                wrong.push(format!(
                    "{} {case}\n  found    {found:#?}\n  expected {expected:#?}",
                    text(&file, "kind")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cases} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 400, "only {cases} cases were found");
}
