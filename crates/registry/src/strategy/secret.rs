//! Secrets: required keys of each type, and immutability.

// upstream: pkg/registry/core/secret/strategy.go
// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, json, names};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::config_map::{MAX_BYTES, decoded_len, entries, immutable};
use super::{MetadataChecks, Strategy, field, text};

pub static STRATEGY: Strategy = Strategy {
    fields: &[field("type")],
    validate,
    validate_update,
    metadata_checks: MetadataChecks::TwiceAndFull,
    ..Strategy::GENERIC
};

fn validate(secret: &Value) -> Vec<FieldError> {
    let data = FieldPath::new("data");
    let mut errors = Vec::new();
    let mut total = 0;
    for (key, value) in entries(secret, "data").into_iter().flatten() {
        let path = data.key(key);
        errors.extend(
            names::config_map_key(key)
                .into_iter()
                .map(|message| FieldError::invalid(&path, key.as_str(), message)),
        );
        total += decoded_len(value);
    }
    if total > MAX_BYTES {
        errors.push(FieldError::too_long(&data, MAX_BYTES));
    }
    errors.extend(missing_for_type(secret));
    errors
}

fn missing_for_type(secret: &Value) -> Vec<FieldError> {
    let has = |key: &str| entries(secret, "data").is_some_and(|data| data.contains_key(key));
    let required = |key: &str| FieldError::required(&FieldPath::new("data").key(key), "");
    let all = |keys: &[&str]| keys.iter().filter(|key| !has(key)).map(|key| required(key)).collect();
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let annotation = secret
                .get("metadata")
                .and_then(|metadata| metadata.get("annotations"))
                .and_then(|annotations| annotations.get("kubernetes.io/service-account.name"))
                .and_then(Value::as_str)
                .unwrap_or_default();
            let path =
                FieldPath::new("metadata").child("annotations").key("kubernetes.io/service-account.name");
            if annotation.is_empty() { vec![FieldError::required(&path, "")] } else { Vec::new() }
        }
        "kubernetes.io/dockercfg" => registry_credentials(secret, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => registry_credentials(secret, ".dockerconfigjson"),
        "kubernetes.io/tls" => all(&["tls.crt", "tls.key"]),
        "kubernetes.io/ssh-auth" if decoded(secret, "ssh-privatekey").is_none_or(|key| key.is_empty()) => {
            vec![required("ssh-privatekey")]
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            vec![required("username"), required("password")]
        }
        _ => Vec::new(),
    }
}

/// The decoded value of one key.
fn decoded(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let value = entries(secret, "data")?.get(key)?;
    Some(STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default())
}

/// Validates registry credentials, which must be a JSON object.
fn registry_credentials(secret: &Value, key: &str) -> Vec<FieldError> {
    let path = FieldPath::new("data").key(key);
    let Some(bytes) = decoded(secret, key) else { return vec![FieldError::required(&path, "")] };
    let found = match json::parse(&bytes).map(|parsed| parsed.value) {
        Ok(Value::Object(_) | Value::Null) => return Vec::new(),
        Ok(Value::Array(_)) => "array",
        Ok(Value::String(_)) => "string",
        Ok(Value::Number(_)) => "number",
        Ok(Value::Bool(_)) => "bool",
        Err(error) => {
            let message = error.standard_library_message();
            return vec![FieldError::invalid(&path, "<secret contents redacted>", message)];
        }
    };
    let message = format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
    vec![FieldError::invalid(&path, "<secret contents redacted>", message)]
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(new, "type") != text(old, "type") {
        let path = FieldPath::new("type");
        errors.push(FieldError::invalid(&path, text(new, "type"), "field is immutable"));
    }
    errors.extend(immutable(new, old, &["data"]));
    errors
}
