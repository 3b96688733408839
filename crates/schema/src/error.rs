//! Why an object cannot be read as its type, and what strict reading remarks on. The words are Go's: clients see them.

use std::fmt;

use crate::go::Quoted;

/// Why text cannot be read as a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The text is not JSON.
    Syntax(String),
    /// The text is JSON and does not fit the type.
    Mismatch(TypeMismatch),
}

/// A value that does not fit its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeMismatch {
    /// JSON of one kind where Go has another.
    Kind {
        /// What was found: `number`, `object`, or a number that does not fit with its digits.
        found: String,
        /// The innermost struct and the path of Go's field names to the value; nothing for the object itself.
        field: Option<(&'static str, String)>,
        /// Go's name for what was expected.
        expected: String,
    },
    /// Text of the right kind that does not parse: a time, a quantity, base64.
    Content(String),
}

/// A field that the type does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// As in `spec.containers[0].foo`.
    pub path: String,
}

/// What strict reading objects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictRemark {
    Unknown(UnknownField),
    /// A key that stands twice in one object; its path.
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
        write!(out, "unknown field {}", Quoted(&self.path))
    }
}

impl fmt::Display for StrictRemark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrictRemark::Unknown(field) => field.fmt(out),
            StrictRemark::Duplicate(path) => write!(out, "duplicate field {}", Quoted(path)),
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
