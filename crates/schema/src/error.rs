//! Decoding errors and strict decoding errors, with Go's messages.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go
// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/error.go

use std::fmt;

use atoll_meta::quote::quote;

/// The reason why text cannot be decoded as a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The text is not JSON.
    Syntax(String),
    /// The JSON does not match the type.
    Mismatch(TypeMismatch),
}

/// A value that does not match its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeMismatch {
    /// The value has the wrong JSON type.
    Kind {
        /// JSON type of the value: `number`, `object`, or a number that is out of range with its digits.
        found: String,
        /// Innermost struct and the path of Go field names to the value; `None` for the object itself.
        field: Option<(&'static str, String)>,
        /// Go's name of the expected type.
        expected: String,
    },
    /// A string that cannot be parsed: a time, a quantity, base64.
    Content(String),
}

/// A field that the type does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Path such as `spec.containers[0].foo`.
    pub path: String,
}

/// An error of strict decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictError {
    Unknown(UnknownField),
    /// Path of a key that occurs twice in one object.
    Duplicate(String),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax(message) => out.write_str(message),
            Error::Mismatch(mismatch) => mismatch.fmt(out),
        }
    }
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeMismatch::Kind { found, field: Some((owner, path)), expected } => {
                write!(
                    out,
                    "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}"
                )
            }
            TypeMismatch::Kind { found, field: None, expected } => {
                write!(out, "json: cannot unmarshal {found} into Go value of type {expected}")
            }
            TypeMismatch::Content(message) => out.write_str(message),
        }
    }
}

impl fmt::Display for UnknownField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "unknown field {}", quote(&self.path))
    }
}

impl fmt::Display for StrictError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrictError::Unknown(field) => field.fmt(out),
            StrictError::Duplicate(path) => write!(out, "duplicate field {}", quote(path)),
        }
    }
}

impl std::error::Error for Error {}
impl std::error::Error for TypeMismatch {}

impl From<TypeMismatch> for Error {
    fn from(mismatch: TypeMismatch) -> Error {
        Error::Mismatch(mismatch)
    }
}
