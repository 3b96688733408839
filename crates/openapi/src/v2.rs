//! The document of version 2, which holds everything.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::downgrade::{self, DEFINITIONS};
use crate::operations::{Operation, Shown};
use crate::parameters::Parameter;
use crate::text::Text;
use crate::v3::{self, Paths, by_path, common, meaning, mentioned};
use crate::{Author, gnostic};

type Object = Map<String, Value>;

/// The members of the document that are written piece by piece.
const SECTIONS: [&str; 3] = ["paths", "definitions", "parameters"];

/// As JSON.
pub fn write(author: &Author<'_>, out: &mut dyn Write) -> io::Result<()> {
    let paths = paths(author);
    let mut text = Text::new(out)?;
    for (name, value) in &head() {
        text.member(name, value)?;
    }
    for section in SECTIONS {
        text.open(section)?;
        each(author, &paths, section, |name, value| text.member(name, &value))?;
        text.close()?;
    }
    text.close()
}

/// As protobuf, where the parts of a message may come one by one.
pub fn write_protobuf(author: &Author<'_>, out: &mut dyn Write) -> io::Result<()> {
    let paths = paths(author);
    out.write_all(&gnostic::message(&head().into()))?;
    for section in SECTIONS {
        each(author, &paths, section, |name, value| {
            out.write_all(&gnostic::message(&json!({ section: { name: value } })))
        })?;
    }
    Ok(())
}

/// All operations of all documents.
fn paths(author: &Author<'_>) -> Paths {
    let operations = v3::paths(author).into_iter().filter_map(|path| v3::operations_of(author, &path));
    by_path(operations.flat_map(|(operations, _)| operations))
}

fn head() -> Object {
    let mut head = Object::new();
    head.insert("swagger".into(), "2.0".into());
    head.insert("info".into(), v3::info());
    head.insert("securityDefinitions".into(), json!({ "BearerToken": v3::bearer_token() }));
    head.insert("security".into(), json!([{ "BearerToken": [] }]));
    head
}

/// Calls `with` for all members of a section.
fn each(
    author: &Author<'_>,
    paths: &Paths,
    section: &str,
    mut with: impl FnMut(&str, Value) -> io::Result<()>,
) -> io::Result<()> {
    let mut shared = Shared::default();
    match section {
        "paths" => {
            paths.iter().try_for_each(|(path, operations)| with(path, path_item(operations, &mut shared)))
        }
        "definitions" => {
            let served = author.api.group_versions();
            let with = |name: &str, schema| with(name, downgrade::schema(schema));
            author.definitions.closure(true, mentioned(paths), &served, &author.descriptions, with)
        }
        _ => {
            for operations in paths.values() {
                path_item(operations, &mut shared);
            }
            shared.by_name.into_iter().try_for_each(|(name, parameter)| with(&name, parameter))
        }
    }
}

/// Parameters that are written once and referred to.
#[derive(Default)]
struct Shared {
    by_name: BTreeMap<String, Value>,
}

impl Shared {
    fn refer(&mut self, name: &str, parameter: Value) -> Value {
        let mut hash: u32 = 0x811c_9dc5;
        for byte in parameter.to_string().bytes() {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        let name = format!("{name}-{hash:08x}");
        let reference = json!({ "$ref": format!("#/parameters/{name}") });
        self.by_name.entry(name).or_insert(parameter);
        reference
    }

    /// Older clients look for these two without following references, and a name is its kind's own.
    fn of_parameter(&mut self, parameter: &Parameter) -> Value {
        let mut shown = json!({
            "name": parameter.name,
            "in": parameter.place,
            "description": parameter.description,
            "type": parameter.kind,
            "uniqueItems": true,
        });
        if parameter.place == "path" {
            shown["required"] = true.into();
        }
        match parameter.name {
            "dryRun" | "fieldValidation" | "name" => shown,
            name => self.refer(name, shown),
        }
    }
}

fn path_item(operations: &[Operation], shared: &mut Shared) -> Value {
    let common = common(operations);
    let mut item = Object::new();
    for operation in operations {
        item.insert(operation.method.to_owned(), of_operation(operation, &common, shared));
    }
    if !common.is_empty() {
        let parameters = common.iter().map(|parameter| shared.of_parameter(parameter)).collect();
        item.insert("parameters".into(), parameters);
    }
    item.into()
}

fn of_operation(operation: &Operation, common: &[Parameter], shared: &mut Shared) -> Value {
    let mut shown = Object::new();
    shown.insert("description".into(), operation.description.as_str().into());
    if !operation.consumes.is_empty() {
        shown.insert("consumes".into(), json!(operation.consumes));
    }
    shown.insert("produces".into(), json!(operation.produces));
    shown.insert("schemes".into(), json!(["https"]));
    shown.insert("tags".into(), json!([operation.tag]));
    shown.insert("operationId".into(), operation.id.as_str().into());
    let mut parameters = Vec::new();
    if let Some(body) = &operation.body {
        let mut parameter = json!({ "name": "body", "in": "body", "schema": refer(&body.definition) });
        if body.required {
            parameter["required"] = true.into();
        }
        let own = body.required && operation.method != "patch";
        parameters.push(if own { parameter } else { shared.refer("body", parameter) });
    }
    let own = operation.parameters.iter().filter(|parameter| !common.contains(parameter));
    parameters.extend(own.map(|parameter| shared.of_parameter(parameter)));
    if !parameters.is_empty() {
        shown.insert("parameters".into(), parameters.into());
    }
    let schema = match &operation.shown {
        Shown::Definition(name) => refer(name),
        Shown::Text => json!({ "type": "string" }),
    };
    let mut answers = Object::new();
    for &code in &operation.answers {
        answers.insert(code.to_string(), json!({ "description": meaning(code), "schema": schema }));
    }
    answers.insert("401".into(), json!({ "description": meaning(401) }));
    shown.insert("responses".into(), answers.into());
    v3::extensions(operation, &mut shown);
    shown.into()
}

fn refer(name: &str) -> Value {
    json!({ "$ref": format!("{DEFINITIONS}{name}") })
}
