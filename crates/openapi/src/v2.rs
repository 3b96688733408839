//! The document of version 2, which holds everything.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::Author;
use crate::downgrade::{self, DEFINITIONS};
use crate::operations::{Operation, Shown};
use crate::parameters::Parameter;
use crate::v3::{self, by_path, common, meaning, mentioned};

type Object = Map<String, Value>;

pub fn document(author: &Author<'_>) -> Value {
    let operations = v3::paths(author).into_iter().filter_map(|path| v3::operations_of(author, &path));
    let paths = by_path(operations.flat_map(|(operations, _)| operations));
    let served = author.api.group_versions();
    let definitions = author.definitions.closure(mentioned(&paths), &served, &author.descriptions);
    let definitions: Object =
        definitions.into_iter().map(|(name, schema)| (name, downgrade::schema(schema))).collect();
    let mut shared = Shared::default();
    let shown: Object =
        paths.into_iter().map(|(path, operations)| (path, path_item(&operations, &mut shared))).collect();
    json!({
        "swagger": "2.0",
        "info": v3::info(),
        "paths": shown,
        "definitions": definitions,
        "parameters": shared.by_name.into_iter().collect::<Object>(),
        "securityDefinitions": { "BearerToken": v3::bearer_token() },
        "security": [{ "BearerToken": [] }],
    })
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
    shown.insert("consumes".into(), json!(operation.consumes));
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
