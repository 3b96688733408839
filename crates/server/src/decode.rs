//! From a request body to an object of the kind that the URL names.

use atoll_meta::{Status, json, object};
use atoll_registry::Row;
use atoll_schema::Types;
use atoll_wire::WireError;
use http::HeaderMap;
use serde_json::{Map, Value};

use crate::negotiate::Input;
use crate::options::FieldValidation;

/// An object, and what a lenient reader only warns about.
pub struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Where the scheme stands that upstream says a kind is not registered in.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// Reads the body as an object of `row`.
pub fn object(
    row: &Row,
    headers: &HeaderMap,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let expected = Expected { kind: &row.kind, group: &row.group, version: &row.version, row: Some(row) };
    decode(&expected, Input::negotiate(headers)?, body, validation)
}

/// Reads the body of a subresource whose kind is not its object's.
pub fn other_kind(
    group: &str,
    version: &str,
    kind: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Value, Status> {
    let expected = Expected { kind, group, version, row: None };
    decode(&expected, Input::negotiate(headers)?, body, FieldValidation::Ignore).map(|decoded| decoded.object)
}

/// Puts a value that was made by a patch into the form of its kind.
pub fn settle(row: &Row, object: Value, validation: FieldValidation) -> Result<Decoded, Status> {
    let expected = Expected { kind: &row.kind, group: &row.group, version: &row.version, row: Some(row) };
    typed(&expected, object, Vec::new(), validation)
}

struct Expected<'a> {
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    row: Option<&'a Row>,
}

impl Expected<'_> {
    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

fn decode(
    expected: &Expected<'_>,
    input: Input,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let unrecognized = |message: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {message} ({})",
            expected.kind,
            summary(body)
        ))
    };
    let (value, duplicates) = match input {
        Input::Json => {
            let parsed = json::parse(body).map_err(|error| {
                unrecognized(format!("couldn't get version/kind; json parse error: {error}"))
            })?;
            (parsed.value, parsed.duplicates)
        }
        Input::Protobuf => (protobuf(body).map_err(|error| unrecognized(error.to_string()))?, Vec::new()),
        Input::Yaml => {
            let value = yaml(body).map_err(|error| unrecognized(format!("yaml: {error}")))?;
            (value, Vec::new())
        }
    };
    if !value.is_object() {
        let found = match &value {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            _ => return typed(expected, Value::Object(Map::new()), duplicates, validation),
        };
        return Err(unrecognized(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type \
             struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    for (field, name) in [("apiVersion", "apiVersion"), ("kind", "kind")] {
        if let Some(found) = value.get(field).and_then(kind_of_non_string) {
            return Err(unrecognized(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field \
                 .{name} of type string"
            )));
        }
    }
    typed(expected, value, duplicates, validation)
}

fn typed(
    expected: &Expected<'_>,
    mut value: Value,
    duplicates: Vec<String>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let own = expected.api_version();
    let api_version =
        Some(object::api_version(&value)).filter(|text| !text.is_empty()).unwrap_or(&own).to_string();
    let kind =
        Some(object::kind(&value)).filter(|text| !text.is_empty()).unwrap_or(expected.kind).to_string();
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let unhandled = |message: String| {
        let wanted = expected.kind;
        Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {wanted}: {message}"
        ))
    };
    let types = Types::get();
    if api_version != own || kind != expected.kind {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        if types.by_kind(group, version, &kind).is_none() {
            return Err(unhandled(format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}"
            )));
        }
        if kind != expected.kind {
            let package = if expected.group.is_empty() {
                "core"
            } else {
                expected.group.split('.').next().unwrap_or_default()
            };
            return Err(unhandled(format!(
                "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
                expected.kind
            )));
        }
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({own})"
        )));
    }
    let mut remarks = Vec::new();
    let type_id = match expected.row {
        Some(row) => row.type_id,
        None => types.by_kind(expected.group, expected.version, expected.kind),
    };
    if let Some(id) = type_id {
        let unknown =
            atoll_schema::normalise(types, id, &mut value).map_err(|error| unhandled(error.to_string()))?;
        remarks.extend(unknown.iter().map(ToString::to_string));
    }
    remarks.extend(duplicates.iter().map(|path| format!("duplicate field {path:?}")));
    if !remarks.is_empty() && validation == FieldValidation::Strict {
        return Err(unhandled(format!("strict decoding error: {}", remarks.join(", "))));
    }
    if !value["metadata"].is_object() {
        value["metadata"] = Value::Object(Map::new());
    }
    object::set_type(&mut value, &own, expected.kind);
    let warnings = if validation == FieldValidation::Warn { remarks } else { Vec::new() };
    Ok(Decoded { object: value, warnings })
}

fn kind_of_non_string(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(_) | Value::Null => None,
        Value::Bool(_) => Some("bool"),
        Value::Number(_) => Some("number"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
    }
}

/// The beginning of a body, for an error message.
fn summary(body: &[u8]) -> String {
    const LENGTH: usize = 30;
    let shown = &body[..body.len().min(LENGTH)];
    let dots = if body.len() > LENGTH { " ..." } else { "" };
    match body.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + dots,
    }
}

/// An enveloped message as the object that it says it is; one of an unknown kind is left empty.
pub fn protobuf(body: &[u8]) -> Result<Value, WireError> {
    let envelope = atoll_wire::open(body)?;
    let (group, version) = envelope.api_version.rsplit_once('/').unwrap_or(("", &envelope.api_version));
    let types = Types::get();
    let mut value = match types.by_kind(group, version, &envelope.kind) {
        Some(id) => atoll_wire::decode(types, id, envelope.raw)?,
        None => Value::Object(Map::new()),
    };
    object::set_type(&mut value, &envelope.api_version, &envelope.kind);
    Ok(value)
}

pub fn yaml(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|_| "control characters are not allowed".to_string())?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let value: Value =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    Ok(value)
}
