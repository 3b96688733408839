//! Decoding of custom resources, which have a schema instead of a Go type.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go

use atoll_crd::Origin;
use atoll_meta::quote::quote;
use atoll_meta::{Status, json, object};
use atoll_registry::Row;
use atoll_registry::definitions::CustomVersion;
use serde_json::Value;

use super::{Decoded, Source, apply_field_validation, check_type_meta, source, summary};
use crate::negotiate::Input;
use crate::options::FieldValidation;

pub fn object(
    row: &Row,
    custom: &CustomVersion,
    input: Input,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    if input == Input::Protobuf {
        return Err(Status::unsupported_media_type(&["application/json", "application/yaml"]));
    }
    let unrecognized = |message: String| {
        let (kind, body) = (&row.kind, summary(body));
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {message} ({body})"
        ))
    };
    let source = source(input, body).map_err(&unrecognized)?;
    check_type_meta(source.value()).map_err(&unrecognized)?;
    let text = |value: &Value| match input {
        Input::Json => String::from_utf8_lossy(body).into_owned(),
        _ => json::to_string(value),
    };
    if object::kind(source.value()).is_empty() {
        return Err(unrecognized(missing_kind(&text(source.value()))));
    }
    let (kind, api_version) =
        (object::kind(source.value()).to_owned(), object::api_version(source.value()).to_owned());
    let unhandled = |message: String| {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        Status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {}: {message}",
            quote(version),
            row.kind
        ))
    };
    let strict_findings = strict_findings(&source, body);
    let mut object = source.into_value();
    let is_own = kind == row.kind && api_version == row.api_version();
    let mut remarks = strict_findings;
    let unknown = read(custom, &mut object, is_own).map_err(&unhandled)?;
    remarks.extend(unknown.into_iter().map(unknown_field));
    let warnings = apply_field_validation(remarks, validation).map_err(&unhandled)?;
    if api_version != row.api_version() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            row.api_version()
        )));
    }
    Ok(Decoded { object, warnings })
}

/// Normalises the result of a patch. Errors are in upstream's words.
pub fn patched(custom: &CustomVersion, mut object: Value) -> Result<(Value, Vec<String>), String> {
    check_type_meta(&object)?;
    if object::kind(&object).is_empty() {
        return Err(missing_kind(&json::to_string(&object)));
    }
    let unknown = read(custom, &mut object, true)?;
    Ok((object, unknown.into_iter().map(unknown_field).collect()))
}

/// Applies the schema if the object is of this kind. Other objects are rejected later.
fn read(custom: &CustomVersion, object: &mut Value, is_own: bool) -> Result<Vec<String>, String> {
    let unknown = match is_own {
        true => custom.shape(object, Origin::Request)?,
        false => Vec::new(),
    };
    // Create `metadata`, because later code fills it in.
    object::metadata_mut(object);
    Ok(unknown)
}

fn missing_kind(text: &str) -> String {
    format!("Object 'Kind' is missing in '{text}'")
}

pub fn unknown_field(path: String) -> String {
    format!("unknown field \"{path}\"")
}

/// Returns the findings of strict parsing.
fn strict_findings(source: &Source<'_>, body: &[u8]) -> Vec<String> {
    match source {
        Source::Json { has_duplicates: true, .. } => {
            let parsed = json::parse(body).map(|parsed| parsed.duplicates).unwrap_or_default();
            parsed.iter().map(|path| format!("duplicate field {}", quote(path))).collect()
        }
        Source::Yaml(_, Some(strict_error)) => vec![strict_error.clone()],
        _ => Vec::new(),
    }
}
