//! Why an evaluation has no value.

use std::borrow::Cow;
use std::fmt;

/// What went wrong at run time, in upstream's words.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// No function takes arguments like these.
    NoSuchOverload,
    /// Anything else that a value cannot be had for. `||` and `&&` may absorb it.
    Failed(Cow<'static, str>),
    /// The budget is used up: nothing absorbs this.
    Cancelled,
}

impl Error {
    /// An error with these words.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Error {
        Error::Failed(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::NoSuchOverload => "no such overload",
            Error::Failed(message) => message,
            Error::Cancelled => "operation cancelled: actual cost limit exceeded",
        })
    }
}

impl std::error::Error for Error {}
