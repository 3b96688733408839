//! ConfigMaps: keys, the size limit, and immutability.

// upstream: pkg/registry/core/configmap/strategy.go
// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::effects::Effects;
use super::{MetadataChecks, Strategy};

/// Maximum total size of the data of a ConfigMap or Secret.
pub(super) const MAX_BYTES: usize = 1 << 20;

pub static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, old| immutable(new, old, &["data", "binaryData"]),
    metadata_checks: MetadataChecks::TwiceAndFull,
    effects: Effects {
        check: Some(|registry, row, object_ref, new, old| {
            registry.check_enabled_dialects(row, object_ref, new, old)
        }),
        ..Effects::NONE
    },
    ..Strategy::GENERIC
};

fn validate(config_map: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut total = 0;
    let binary = entries(config_map, "binaryData");
    for (key, value) in entries(config_map, "data").into_iter().flatten() {
        let path = FieldPath::new("data").key(key);
        errors.extend(
            names::config_map_key(key)
                .into_iter()
                .map(|message| FieldError::invalid(&path, key.as_str(), message)),
        );
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let message = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(&path, key.as_str(), message));
        }
        total += value.as_str().map_or(0, str::len);
    }
    for (key, value) in binary.into_iter().flatten() {
        let path = FieldPath::new("binaryData").key(key);
        errors.extend(
            names::config_map_key(key)
                .into_iter()
                .map(|message| FieldError::invalid(&path, key.as_str(), message)),
        );
        total += decoded_len(value);
    }
    if total > MAX_BYTES {
        // The empty path, as upstream prints it.
        errors.push(FieldError::too_long(&FieldPath::nil().key(""), MAX_BYTES));
    }
    errors
}

/// Once `immutable` is set, it and the data stay as they are.
pub(super) fn immutable(new: &Value, old: &Value, fields: &[&'static str]) -> Vec<FieldError> {
    let is_set = |object: &Value| object.get("immutable").and_then(Value::as_bool).unwrap_or(false);
    if !is_set(old) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if !is_set(new) {
        let message = "field is immutable when `immutable` is set";
        errors.push(FieldError::forbidden(&FieldPath::new("immutable"), message));
    }
    for field in fields {
        if new.get(*field) != old.get(*field) {
            let message = "field is immutable when `immutable` is set";
            errors.push(FieldError::forbidden(&FieldPath::new(*field), message));
        }
    }
    errors
}

pub(super) fn entries<'a>(object: &'a Value, field: &str) -> Option<&'a serde_json::Map<String, Value>> {
    object.get(field).and_then(Value::as_object)
}

/// Decoded length of a base64 value.
pub(super) fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.trim_end_matches('=').len() * 3 / 4
}
