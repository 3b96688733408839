//! Decoding of operations, with Go's messages about malformed documents.

// upstream: gopkg.in/evanphx/json-patch.v4/patch.go

use atoll_meta::quote::quote;
use serde_json::{Map, Value};

use crate::PatchError;

/// One operation. Fields of the wrong type have been rejected; null fields count as absent.
pub(super) struct Operation<'a> {
    pub kind: Option<&'a str>,
    pub path: Option<&'a str>,
    pub from: Option<&'a str>,
    /// Value of the operation, which may be null.
    pub value: Option<&'a Value>,
}

/// Returns Go's name for the type of a JSON value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(super) fn decode(patch: &Value) -> Result<Vec<Operation<'_>>, PatchError> {
    let operations = match patch {
        // Go decodes null as an empty list.
        Value::Null => return Ok(Vec::new()),
        Value::Array(operations) => operations,
        other => return Err(mismatch(other, "Go value of type []handlers.jsonPatchOp")),
    };
    operations.iter().map(operation).collect()
}

fn operation(value: &Value) -> Result<Operation<'_>, PatchError> {
    match value {
        Value::Null => Ok(Operation { kind: None, path: None, from: None, value: None }),
        Value::Object(fields) => Ok(Operation {
            kind: text(fields, "op")?,
            path: text(fields, "path")?,
            from: text(fields, "from")?,
            value: fields.get("value"),
        }),
        other => Err(mismatch(other, "Go value of type handlers.jsonPatchOp")),
    }
}

fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, PatchError> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(mismatch(other, &format!("Go struct field jsonPatchOp.{field} of type string"))),
    }
}

fn mismatch(value: &Value, target: &str) -> PatchError {
    PatchError::Malformed { message: format!("json: cannot unmarshal {} into {target}", go_type(value)) }
}

/// Returns the messages of strict field validation about unknown fields of operations.
pub fn unknown_fields(patch: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for (index, operation) in patch.as_array().into_iter().flatten().enumerate() {
        for field in operation.as_object().into_iter().flat_map(Map::keys) {
            if !matches!(field.as_str(), "op" | "path" | "from" | "value") {
                errors.push(format!("json patch unknown field {}", quote(&format!("[{index}].{field}"))));
            }
        }
    }
    errors
}
