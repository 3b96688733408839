//! The OpenAPI v2 document, which contains everything.

// upstream: k8s.io/kube-openapi/pkg/builder/openapi.go

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::downgrade::{self, DEFINITIONS};
use crate::json_writer::JsonWriter;
use crate::operations::{Operation, ResponseContent};
use crate::parameters::Parameter;
use crate::v3::{self, Paths, by_path, common, mentioned, status_text};
use crate::{DocumentWriter, gnostic};

type Object = Map<String, Value>;

/// Members of the document that are written incrementally.
const SECTIONS: [&str; 3] = ["paths", "definitions", "parameters"];

/// Writes the document as JSON.
pub fn write(writer: &DocumentWriter<'_>, out: &mut dyn Write) -> io::Result<()> {
    let paths = paths(writer);
    let mut text = JsonWriter::new(out)?;
    for (name, value) in &head() {
        text.member(name, value)?;
    }
    for section in SECTIONS {
        text.open(section)?;
        each(writer, &paths, section, |name, value| text.member(name, &value))?;
        text.close()?;
    }
    text.close()
}

/// Writes the document as protobuf, whose message parts may be written separately.
pub fn write_protobuf(writer: &DocumentWriter<'_>, out: &mut dyn Write) -> io::Result<()> {
    let paths = paths(writer);
    out.write_all(&gnostic::message(&head().into()))?;
    for section in SECTIONS {
        each(writer, &paths, section, |name, value| {
            out.write_all(&gnostic::message(&json!({ section: { name: value } })))
        })?;
    }
    Ok(())
}

/// Returns all operations of all documents.
fn paths(writer: &DocumentWriter<'_>) -> Paths {
    let operations = v3::paths(writer).into_iter().filter_map(|path| v3::operations_of(writer, &path));
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
    writer: &DocumentWriter<'_>,
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
            let served = writer.api.group_versions();
            let with = |name: &str, schema| with(name, downgrade::schema(schema));
            writer.definitions.closure(true, mentioned(paths), &served, &writer.descriptions, with)
        }
        _ => {
            for operations in paths.values() {
                path_item(operations, &mut shared);
            }
            shared.by_name.into_iter().try_for_each(|(name, parameter)| with(&name, parameter))
        }
    }
}

/// Parameters that are defined once and referenced.
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

    /// Returns a parameter or a reference to it. `dryRun` and `fieldValidation` are inlined because older
    /// clients do not follow references, `name` because its description depends on the kind.
    fn of_parameter(&mut self, parameter: &Parameter) -> Value {
        let mut rendered = json!({
            "name": parameter.name,
            "in": parameter.location,
            "description": parameter.description,
            "type": parameter.kind,
            "uniqueItems": true,
        });
        if parameter.location == "path" {
            rendered["required"] = true.into();
        }
        match parameter.name {
            "dryRun" | "fieldValidation" | "name" => rendered,
            name => self.refer(name, rendered),
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
    let mut rendered = Object::new();
    rendered.insert("description".into(), operation.description.as_str().into());
    if !operation.consumes.is_empty() {
        rendered.insert("consumes".into(), json!(operation.consumes));
    }
    rendered.insert("produces".into(), json!(operation.produces));
    rendered.insert("schemes".into(), json!(["https"]));
    rendered.insert("tags".into(), json!([operation.tag]));
    rendered.insert("operationId".into(), operation.id.as_str().into());
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
        rendered.insert("parameters".into(), parameters.into());
    }
    let schema = match &operation.content {
        ResponseContent::Definition(name) => refer(name),
        ResponseContent::Text => json!({ "type": "string" }),
    };
    let mut status_codes = Object::new();
    for &code in &operation.status_codes {
        status_codes.insert(code.to_string(), json!({ "description": status_text(code), "schema": schema }));
    }
    status_codes.insert("401".into(), json!({ "description": status_text(401) }));
    rendered.insert("responses".into(), status_codes.into());
    v3::extensions(operation, &mut rendered);
    rendered.into()
}

fn refer(name: &str) -> Value {
    json!({ "$ref": format!("{DEFINITIONS}{name}") })
}
