//! ControllerRevisions.

// upstream: pkg/apis/apps/validation/validation.go

use atoll_meta::object::FIELD_IS_IMMUTABLE;
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};

pub(crate) static CHECKS: Checks = Checks { create, update, ..Checks::NONE };

fn create(object: &Value) -> Errors {
    let mut errors = Errors::new();
    FieldValue::field(object, "revision").not_negative(&mut errors);
    let data = FieldValue::field(object, "data");
    let detail = match data.value {
        Value::Object(_) => return errors,
        Value::Null => "data is mandatory",
        _ => "data must be a valid JSON object",
    };
    errors.push(data.required(detail));
    errors
}

fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    FieldValue::field(new, "revision").not_negative(&mut errors);
    let data = FieldValue::field(new, "data");
    if data.value != FieldValue::field(old, "data").value {
        errors.push(data.invalid(FIELD_IS_IMMUTABLE));
    }
    errors
}
