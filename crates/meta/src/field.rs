//! Field paths and field errors.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go

mod path;

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use crate::{json, quote};

pub use path::FieldPath;

/// The type of a field error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// A referenced object does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// A value that must be unique occurs twice.
    Duplicate,
    /// A value is malformed.
    Invalid,
    /// A value is not one of the known ones.
    NotSupported,
    /// A value is well-formed but not allowed here.
    Forbidden,
    /// A string is too long.
    TooLong,
    /// A list has too many elements.
    TooMany,
    /// A list has too few elements.
    TooFew,
    /// A string is too short.
    TooShort,
    /// The server could not check the value.
    Internal,
    /// A value has the wrong type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// Returns the machine-readable name, the `reason` of a cause.
    pub fn reason(self) -> &'static str {
        match self {
            FieldErrorKind::NotFound => "FieldValueNotFound",
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Duplicate => "FieldValueDuplicate",
            FieldErrorKind::Invalid => "FieldValueInvalid",
            FieldErrorKind::NotSupported => "FieldValueNotSupported",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany => "FieldValueTooMany",
            FieldErrorKind::TooFew => "FieldValueTooFew",
            FieldErrorKind::TooShort => "FieldValueTooShort",
            FieldErrorKind::Internal => "InternalError",
            FieldErrorKind::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn description(self) -> &'static str {
        match self {
            FieldErrorKind::NotFound => "Not found",
            FieldErrorKind::Required => "Required value",
            FieldErrorKind::Duplicate => "Duplicate value",
            FieldErrorKind::Invalid | FieldErrorKind::TypeInvalid => "Invalid value",
            FieldErrorKind::NotSupported => "Unsupported value",
            FieldErrorKind::Forbidden => "Forbidden",
            FieldErrorKind::TooLong => "Too long",
            FieldErrorKind::TooMany => "Too many",
            FieldErrorKind::TooFew => "Too few",
            FieldErrorKind::TooShort => "Too short",
            FieldErrorKind::Internal => "Internal error",
        }
    }

    /// Whether the message contains the invalid value.
    fn shows_value(self) -> bool {
        !matches!(
            self,
            FieldErrorKind::Required
                | FieldErrorKind::Forbidden
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooShort
                | FieldErrorKind::Internal
        )
    }
}

/// The invalid value as a message shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// The message contains only the type of the error.
    Omitted,
    /// Strings are quoted, numbers and booleans printed, everything else is JSON.
    Value(Value),
    /// Printed as it is: JSON whose field order a [`Value`] would lose, or a string of a named type, which
    /// upstream prints as JSON.
    Rendered(String),
}

impl BadValue {
    /// Creates a value for a Go string of a named type (a UID, an enum), which is printed as JSON.
    pub fn named_text(text: &str) -> BadValue {
        let mut out = Vec::new();
        json::write_string(text, &mut out);
        BadValue::Rendered(String::from_utf8(out).unwrap_or_default())
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadValue::Omitted => Ok(()),
            BadValue::Rendered(text) => f.write_str(text),
            BadValue::Value(Value::String(text)) => f.write_str(&quote::quote(text)),
            BadValue::Value(Value::Number(number)) => match number.as_f64() {
                Some(float) if number.is_f64() => f.write_str(&quote::print_float(float)),
                _ => write!(f, "{number}"),
            },
            BadValue::Value(value) => f.write_str(&json::to_string(value)),
        }
    }
}

impl<T: Into<Value>> From<T> for BadValue {
    fn from(value: T) -> BadValue {
        BadValue::Value(value.into())
    }
}

/// An error about one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    kind: FieldErrorKind,
    field: String,
    bad_value: BadValue,
    detail: String,
}

impl FieldError {
    fn new(
        kind: FieldErrorKind,
        path: &FieldPath,
        bad_value: BadValue,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError { kind, field: path.to_string(), bad_value, detail: detail.into() }
    }

    /// Creates an error about a missing value.
    pub fn required(path: &FieldPath, detail: impl Into<String>) -> FieldError {
        FieldError::new(FieldErrorKind::Required, path, BadValue::Omitted, detail)
    }

    /// Creates an error about a malformed value.
    pub fn invalid(path: &FieldPath, value: impl Into<BadValue>, detail: impl Into<String>) -> FieldError {
        FieldError::new(FieldErrorKind::Invalid, path, value.into(), detail)
    }

    /// Creates an error about a value of the wrong type.
    pub fn type_invalid(
        path: &FieldPath,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::new(FieldErrorKind::TypeInvalid, path, value.into(), detail)
    }

    /// Creates an error about a value that must be unique.
    pub fn duplicate(path: &FieldPath, value: impl Into<BadValue>) -> FieldError {
        FieldError::new(FieldErrorKind::Duplicate, path, value.into(), "")
    }

    /// Creates an error about a referenced object that does not exist.
    pub fn not_found(path: &FieldPath, value: impl Into<BadValue>) -> FieldError {
        FieldError::new(FieldErrorKind::NotFound, path, value.into(), "")
    }

    /// Creates an error about an unknown value. The supported values are listed in the given order.
    pub fn not_supported<S: AsRef<str>>(
        path: &FieldPath,
        value: impl Into<BadValue>,
        supported: &[S],
    ) -> FieldError {
        let quoted: Vec<String> = supported.iter().map(|value| quote::quote(value.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        FieldError::new(FieldErrorKind::NotSupported, path, value.into(), detail)
    }

    /// Creates an error about a value that is well-formed but not allowed.
    pub fn forbidden(path: &FieldPath, detail: impl Into<String>) -> FieldError {
        FieldError::new(FieldErrorKind::Forbidden, path, BadValue::Omitted, detail)
    }

    /// Creates an error about a string with too many bytes.
    pub fn too_long(path: &FieldPath, limit: usize) -> FieldError {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {limit} {unit}");
        FieldError::new(FieldErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// Creates an error about a string with too many characters.
    pub fn too_long_characters(path: &FieldPath, limit: usize) -> FieldError {
        let unit = if limit == 1 { "character" } else { "characters" };
        let detail = format!("may not be more than {limit} {unit}");
        FieldError::new(FieldErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// Creates an error about a string with too few characters.
    pub fn too_short(path: &FieldPath, limit: usize) -> FieldError {
        let unit = if limit == 1 { "character" } else { "characters" };
        let detail = format!("must be at least {limit} {unit}");
        FieldError::new(FieldErrorKind::TooShort, path, BadValue::Omitted, detail)
    }

    /// Creates an error about a list with too many elements.
    pub fn too_many(path: &FieldPath, actual: usize, limit: usize) -> FieldError {
        let unit = if limit == 1 { "item" } else { "items" };
        FieldError::new(
            FieldErrorKind::TooMany,
            path,
            BadValue::from(actual),
            format!("must have at most {limit} {unit}"),
        )
    }

    /// Creates an error about a list with too few elements.
    pub fn too_few(path: &FieldPath, actual: usize, limit: usize) -> FieldError {
        let unit = if limit == 1 { "item" } else { "items" };
        FieldError::new(
            FieldErrorKind::TooFew,
            path,
            BadValue::from(actual),
            format!("must have at least {limit} {unit}"),
        )
    }

    /// Creates an error about a value that the server could not check.
    pub fn internal(path: &FieldPath, error: impl Into<String>) -> FieldError {
        FieldError::new(FieldErrorKind::Internal, path, BadValue::Omitted, error)
    }

    /// Replaces the detail.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> FieldError {
        FieldError { detail: detail.into(), ..self }
    }

    /// Returns the type of the error.
    pub fn kind(&self) -> FieldErrorKind {
        self.kind
    }

    /// Returns the path of the field.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the detail.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the approximate length of the message.
    pub fn size(&self) -> usize {
        let value = match &self.bad_value {
            BadValue::Omitted => 0,
            BadValue::Rendered(text) | BadValue::Value(Value::String(text)) => text.len(),
            BadValue::Value(value @ (Value::Array(_) | Value::Object(_))) => json::to_string(value).len(),
            BadValue::Value(_) => 8,
        };
        self.field.len() + self.detail.len() + value + self.kind.description().len()
    }

    /// Returns the message without the path.
    pub fn body(&self) -> String {
        let mut body = self.kind.description().to_owned();
        if self.kind.shows_value() && self.bad_value != BadValue::Omitted {
            body.push_str(": ");
            body.push_str(&self.bad_value.to_string());
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// Joins the messages of all errors: a single one as it is, several as `[a, b]`, without duplicates.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let mut messages = Vec::with_capacity(errors.len());
    for error in errors {
        let message = error.to_string();
        if seen.insert(message.clone()) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [single] => single.clone(),
        _ => format!("[{}]", messages.join(", ")),
    }
}

#[cfg(test)]
mod tests;
