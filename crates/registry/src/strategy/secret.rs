//! Secrets: `stringData`, the type, what each type must contain, and immutability.

use atoll_meta::{FieldError, FieldPath, names};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::config_map::{MAX_BYTES, decoded_len, entries, immutable};
use super::{Context, Strategy, field, text};

pub static STRATEGY: Strategy = Strategy {
    fields: &[field("type")],
    prepare_create,
    prepare_update,
    validate,
    validate_update,
    ..Strategy::GENERIC
};

const OPAQUE: &str = "Opaque";

fn prepare_create(secret: &mut Value, _: &Context) {
    settle(secret);
}

fn prepare_update(new: &mut Value, old: &Value) {
    // An update that leaves the type out keeps it.
    if text(new, "type").is_empty() && !text(old, "type").is_empty() {
        new["type"] = old["type"].clone();
    }
    settle(new);
}

/// Moves `stringData` into `data` and names the type.
fn settle(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    if let Some(Value::Object(plain)) = fields.remove("stringData") {
        let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if let Some(data) = data.as_object_mut() {
            for (key, value) in plain {
                let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
                data.insert(key, encoded.into());
            }
        }
    }
    if fields.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fields.insert("type".into(), OPAQUE.into());
    }
}

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
        "kubernetes.io/dockercfg" => all(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => all(&[".dockerconfigjson"]),
        "kubernetes.io/tls" => all(&["tls.crt", "tls.key"]),
        "kubernetes.io/ssh-auth" => all(&["ssh-privatekey"]),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            vec![required("username"), required("password")]
        }
        _ => Vec::new(),
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(new, "type") != text(old, "type") {
        let path = FieldPath::new("type");
        errors.push(FieldError::invalid(&path, text(new, "type"), "field is immutable"));
    }
    errors.extend(immutable(new, old, &["data"]));
    errors.extend(validate(new));
    errors
}
