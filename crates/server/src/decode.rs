//! Decoding of a request body to an object of the kind that the URL names.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go
// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go

mod custom;
pub mod yaml;

use atoll_crd::Origin;
use atoll_meta::quote::quote;
use atoll_meta::{Status, json, object};
use atoll_registry::Row;
use atoll_schema::{Document, TypeId, Types};
use atoll_wire::WireError;
use http::HeaderMap;
use serde_json::{Map, Value};

use crate::negotiate::Input;
use crate::options::FieldValidation;

/// A decoded object and warnings of lenient decoding.
pub struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// The source of the scheme of options in upstream's error messages.
const OPTIONS_SCHEME: &str = "pkg/apis/meta/internalversion/scheme/register.go:27";

/// Versions that upstream can decode but does not serve, of groups with a `v1`.
const RETIRED: [(&str, &str); 24] = [
    ("admissionregistration.k8s.io", "v1alpha1"),
    ("admissionregistration.k8s.io", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication.k8s.io", "v1alpha1"),
    ("authentication.k8s.io", "v1beta1"),
    ("authorization.k8s.io", "v1beta1"),
    ("batch", "v1beta1"),
    ("certificates.k8s.io", "v1alpha1"),
    ("certificates.k8s.io", "v1beta1"),
    ("coordination.k8s.io", "v1alpha2"),
    ("coordination.k8s.io", "v1beta1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("networking.k8s.io", "v1beta1"),
    ("node.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1alpha1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("scheduling.k8s.io", "v1alpha1"),
    ("scheduling.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1alpha1"),
    ("storage.k8s.io", "v1beta1"),
];

/// The source of the scheme in upstream's error messages.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// Decodes the body as an object of `row`.
pub fn object(
    row: &Row,
    headers: &HeaderMap,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    match &row.custom {
        Some(custom) => custom::object(row, custom, Input::negotiate(headers)?, body, validation),
        None => decode(&Expected::of(row), Input::negotiate(headers)?, body, validation),
    }
}

/// Decodes the body of a subresource whose kind differs from its object's: group, version and kind.
pub fn other_kind(
    (group, version, kind): (&str, &str, &str),
    headers: &HeaderMap,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let expected = Expected { kind, group, version, row: None };
    decode(&expected, Input::negotiate(headers)?, body, validation)
}

/// Decodes options in a body. Their apiVersion may be that of any group.
pub fn options(
    group: &str,
    version: &str,
    kind: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Value, Status> {
    let source = source(Input::negotiate(headers)?, body).map_err(Status::bad_request)?;
    check_type_meta(source.value()).map_err(Status::bad_request)?;
    let given = object::kind(source.value());
    if !given.is_empty() && given != kind {
        let api_version = or_default(object::api_version(source.value()), version);
        return Err(Status::bad_request(format!(
            "no kind {} is registered for version {} in scheme {OPTIONS_SCHEME:?}",
            quote(given),
            quote(api_version)
        )));
    }
    let Some(id) = Types::get().by_kind(group, version, kind) else { return Ok(source.into_value()) };
    let read = read(source, Some(id)).map_err(|error| Status::bad_request(error.message));
    read.map(|(value, _)| value)
}

/// Normalises the result of a patch to the form of its kind. Errors are in upstream's words.
pub fn patched(row: &Row, object: Value) -> Result<(Value, Vec<String>), String> {
    if let Some(custom) = &row.custom {
        return custom::patched(custom, object);
    }
    if object::kind(&object).is_empty() && object::api_version(&object).is_empty() {
        // Upstream then decodes into a type without any of these fields.
        let fields = object.as_object().into_iter().flat_map(Map::keys);
        let fields = fields.filter(|field| !matches!(field.as_str(), "kind" | "apiVersion"));
        let remarks = fields.map(|field| format!("unknown field {}", quote(field))).collect();
        return Ok((Value::Object(Map::new()), remarks));
    }
    typed(&Expected::of(row), Source::Value(object)).map_err(|error| error.message)
}

/// Normalises the result of a patch of a Scale.
pub fn patched_scale(scale: Value) -> Result<(Value, Vec<String>), String> {
    let expected = Expected { kind: "Scale", group: "autoscaling", version: "v1", row: None };
    typed(&expected, Source::Value(scale)).map_err(|error| error.message)
}

/// Turns findings of strict decoding into an error or warnings, or drops them.
pub fn apply_field_validation(
    remarks: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Strict if !remarks.is_empty() => {
            Err(format!("strict decoding error: {}", remarks.join(", ")))
        }
        FieldValidation::Warn => Ok(remarks.into_iter().flat_map(yaml::warnings).collect()),
        _ => Ok(Vec::new()),
    }
}

struct Expected<'a> {
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    row: Option<&'a Row>,
}

/// A parsed body.
enum Source<'t> {
    /// JSON with its text. On errors, the text is parsed again by a slower parser with exact messages.
    Json {
        value: Value,
        has_duplicates: bool,
        text: &'t [u8],
    },
    /// YAML and the error of strict parsing.
    Yaml(Value, Option<String>),
    Value(Value),
}

/// A decoding error.
struct DecodeError {
    message: String,
    /// Whether `message` is complete. Otherwise a prefix says that one kind cannot be handled as
    /// another.
    is_complete: bool,
}

impl DecodeError {
    fn new(message: impl ToString) -> Self {
        DecodeError { message: message.to_string(), is_complete: false }
    }
}

impl<'a> Expected<'a> {
    fn of(row: &'a Row) -> Self {
        Expected { kind: &row.kind, group: &row.group, version: &row.version, row: Some(row) }
    }

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
    let source = source(input, body).map_err(&unrecognized)?;
    check_type_meta(source.value()).map_err(&unrecognized)?;
    let api_version = object::api_version(source.value()).to_string();
    if api_version.matches('/').count() > 1 {
        return Err(unrecognized(format!("unexpected GroupVersion string: {api_version}")));
    }
    let kind = or_default(object::kind(source.value()), expected.kind).to_string();
    let unhandled = |message: String| {
        let version =
            or_default(&api_version, expected.version).rsplit('/').next().unwrap_or_default().to_string();
        let wanted = expected.kind;
        Status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {wanted}: {message}",
            quote(&version)
        ))
    };
    let (object, remarks) = typed(expected, source).map_err(|error| match error.is_complete {
        true => Status::bad_request(error.message),
        false => unhandled(error.message),
    })?;
    let warnings = apply_field_validation(remarks, validation).map_err(unhandled)?;
    Ok(Decoded { object, warnings })
}

fn source(input: Input, body: &[u8]) -> Result<Source<'_>, String> {
    Ok(match input {
        Input::Json => match json::parse(body) {
            Ok(parsed) => Source::Json {
                value: parsed.value,
                has_duplicates: !parsed.duplicates.is_empty(),
                text: body,
            },
            Err(error) => return Err(format!("couldn't get version/kind; json parse error: {error}")),
        },
        Input::Protobuf => Source::Value(protobuf(body).map_err(|error| error.to_string())?),
        Input::Yaml => {
            let (value, strict_error) = yaml::parse(body).map_err(|error| format!("yaml: {error}"))?;
            Source::Yaml(value, strict_error)
        }
    })
}

impl Source<'_> {
    fn into_value(self) -> Value {
        match self {
            Source::Json { value, .. } | Source::Yaml(value, _) | Source::Value(value) => value,
        }
    }

    fn value(&self) -> &Value {
        match self {
            Source::Json { value, .. } | Source::Yaml(value, _) | Source::Value(value) => value,
        }
    }
}

/// Checks that kind and apiVersion can be read from a body.
fn check_type_meta(value: &Value) -> Result<(), String> {
    let problem = "couldn't get version/kind; json parse error: json: cannot unmarshal";
    let found = match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null | Value::Object(_) => {
            return match ["apiVersion", "kind"]
                .iter()
                .find_map(|name| Some((name, kind_of_non_string(value.get(*name)?)?)))
            {
                Some((name, found)) => {
                    Err(format!("{problem} {found} into Go struct field .{name} of type string"))
                }
                None => Ok(()),
            };
        }
    };
    Err(format!(
        "{problem} {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind \
         string \"json:\\\"kind,omitempty\\\"\" }}"
    ))
}

fn or_default<'a>(given: &'a str, otherwise: &'a str) -> &'a str {
    if given.is_empty() { otherwise } else { given }
}

/// Returns the object in the form of its kind and the findings of strict decoding.
fn typed(expected: &Expected<'_>, source: Source<'_>) -> Result<(Value, Vec<String>), DecodeError> {
    let own = expected.api_version();
    let types = Types::get();
    {
        let api_version = or_default(object::api_version(source.value()), &own);
        let kind = or_default(object::kind(source.value()), expected.kind);
        if api_version != own || kind != expected.kind {
            let mismatch = wrong_kind(expected, api_version, kind);
            // Upstream decodes the given kind before it compares it with the expected one.
            let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
            let given = types.by_kind(group, version, kind);
            return Err(given.and_then(|id| read(source, Some(id)).err()).unwrap_or(mismatch));
        }
    }
    let managed = source.value().pointer("/metadata/managedFields").and_then(Value::as_array);
    let resets_managers = managed.is_some_and(Vec::is_empty);
    let type_id = match expected.row {
        Some(row) => row.type_id,
        None => types.by_kind(expected.group, expected.version, expected.kind),
    };
    let (mut value, mut remarks) = read(source, type_id)?;
    if let Some(schema) = expected.row.and_then(|row| row.schema.as_ref()) {
        let unknown = schema.read(&mut value, Origin::Request).map_err(DecodeError::new)?;
        remarks.extend(unknown.into_iter().map(custom::unknown_field));
    }
    if !value["metadata"].is_object() {
        value["metadata"] = Value::Object(Map::new());
    }
    object::set_type(&mut value, &own, expected.kind);
    if resets_managers {
        // An empty list resets the managers, so it must be distinguishable from an absent one.
        value["metadata"]["managedFields"] = Value::Array(vec![Value::Object(Map::new())]);
    }
    Ok((value, remarks))
}

/// Returns the value normalised to its type and the findings of strict decoding.
fn read(source: Source<'_>, type_id: Option<TypeId>) -> Result<(Value, Vec<String>), DecodeError> {
    let types = Types::get();
    let (mut value, text) = match source {
        Source::Json { value, has_duplicates: true, text } if value.is_object() => {
            return decode_exactly(text, type_id);
        }
        Source::Json { value, text, .. } => (value, Some(text)),
        Source::Yaml(value, strict_error) => {
            let (value, remarks) = read(Source::Value(value), type_id)?;
            return Ok((value, strict_error.into_iter().chain(remarks).collect()));
        }
        Source::Value(value) => (value, None),
    };
    if !value.is_object() {
        value = Value::Object(Map::new());
    }
    let Some(id) = type_id else { return Ok((value, Vec::new())) };
    match (atoll_schema::normalise(types, id, &mut value), text) {
        (Ok(unknown), _) if unknown.is_empty() => Ok((value, Vec::new())),
        (_, Some(text)) => decode_exactly(text, type_id),
        (Ok(unknown), None) => Ok((value, unknown.iter().map(ToString::to_string).collect())),
        (Err(error), None) => Err(DecodeError::new(error)),
    }
}

/// The same with the order and spelling of the text.
#[cold]
fn decode_exactly(text: &[u8], type_id: Option<TypeId>) -> Result<(Value, Vec<String>), DecodeError> {
    let document = Document::parse(text).map_err(DecodeError::new)?;
    let decoded = match type_id {
        Some(id) => document.decode(Types::get(), id).map_err(DecodeError::new)?,
        None => document.untyped(),
    };
    Ok((decoded.value, decoded.strict_errors.iter().map(ToString::to_string).collect()))
}

fn wrong_kind(expected: &Expected<'_>, api_version: &str, kind: &str) -> DecodeError {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let types = Types::get();
    // Upstream can decode versions that it no longer serves.
    let retired = RETIRED.contains(&(group, version)) && types.by_kind(group, "v1", kind).is_some();
    if types.by_kind(group, version, kind).is_none() && !retired {
        return DecodeError::new(format!(
            "no kind {} is registered for version {} in scheme {SCHEME:?}",
            quote(kind),
            quote(api_version)
        ));
    }
    if kind != expected.kind {
        let package = match expected.group {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        return DecodeError::new(format!(
            "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
            expected.kind
        ));
    }
    let own = expected.api_version();
    let message = format!(
        "the API version in the data ({api_version}) does not match the expected API version ({own})"
    );
    DecodeError { message, is_complete: true }
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

/// Returns the start of a body, for an error message.
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

/// Decodes an enveloped message. An unknown kind results in an empty object.
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
