//! ControllerRevisions.

// upstream: pkg/apis/apps/validation/validation.go

use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use crate::Checks;
use crate::fields::{Fields, NOT_NEGATIVE};

pub(crate) static CHECKS: Checks = Checks { create, update, ..Checks::NONE };

fn revision(object: &Value) -> Vec<FieldError> {
    let revision = object.integer("revision");
    if revision >= 0 {
        return Vec::new();
    }
    vec![FieldError::invalid(&FieldPath::new("revision"), revision, NOT_NEGATIVE)]
}

fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = revision(object);
    let detail = match object.part("data") {
        Value::Object(_) => return errors,
        Value::Null => "data is mandatory",
        _ => "data must be a valid JSON object",
    };
    errors.push(FieldError::required(&FieldPath::new("data"), detail));
    errors
}

fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = revision(new);
    if new.part("data") != old.part("data") {
        let rendered = new.part("data").clone();
        errors.push(FieldError::invalid(&FieldPath::new("data"), rendered, FIELD_IS_IMMUTABLE));
    }
    errors
}
