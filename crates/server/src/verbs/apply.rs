//! Server-side apply: PATCH with a configuration, of which all is said that its manager wants.

use atoll_merge::apply::Author;
use atoll_meta::{Status, json, object};
use atoll_registry::{Managed, Row};
use serde_json::{Map, Value};

use crate::decode;
use crate::options::{FieldValidation, WriteOptions};

/// A configuration that has been read.
pub struct Config {
    value: Value,
    /// Where the text says something twice.
    repeated: Option<String>,
}

impl Config {
    /// Reads YAML, of which JSON is a part.
    pub fn parse(body: &[u8]) -> Result<Self, Status> {
        let decoding = |error: String| Status::bad_request(format!("error decoding YAML: {error}"));
        let json = body.trim_ascii_start().starts_with(b"{").then(|| json::parse(body));
        let (value, repeated) = match json {
            Some(Ok(parsed)) if parsed.duplicates.is_empty() => (parsed.value, None),
            _ => decode::lenient_yaml(body)
                .map_err(|error| decoding(format!("error converting YAML to JSON: yaml: {error}")))?,
        };
        let value = match value {
            Value::Null => Value::Object(Map::new()),
            value @ Value::Object(_) => value,
            other => {
                let found = match other {
                    Value::Array(_) => "array",
                    Value::String(_) => "string",
                    Value::Bool(_) => "bool",
                    _ => "number",
                };
                return Err(decoding(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
                     map[string]interface {{}}"
                )));
            }
        };
        Ok(Config { value, repeated })
    }

    /// What the client is told about the text, if it can be lived with.
    pub fn heed(&self, validation: FieldValidation) -> Result<Option<String>, Status> {
        match (&self.repeated, validation) {
            (Some(repeated), FieldValidation::Strict) => Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {repeated}"
            ))),
            (repeated, FieldValidation::Warn) => Ok(repeated.clone()),
            _ => Ok(None),
        }
    }

    /// What comes of applying it to `live`, which is `None` if there is nothing yet.
    pub fn apply(
        &self,
        managed: &Managed,
        live: Option<&Value>,
        author: &Author<'_>,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        managed.apply(live.unwrap_or(managed.empty()), &self.value, author, options.force)
    }
}

/// The applied object in the form of its kind.
pub fn read(row: &Row, applied: Value, created: bool) -> Result<Value, Status> {
    if created && !object::uid(&applied).is_empty() {
        let message = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            object::uid(&applied)
        );
        return Err(Status::conflict(&row.group, &row.resource, object::name(&applied), message));
    }
    let named = format!("{}/{}; {}", object::namespace(&applied), object::name(&applied), gvk(row));
    decode::patched(row, applied).map(|(object, _)| object).map_err(|error| {
        Status::plain_internal(format!("failed to convert new object ({named}) to proper version: {error}"))
    })
}

fn gvk(row: &Row) -> String {
    format!("{}/{}, Kind={}", row.group, row.version, row.kind)
}
