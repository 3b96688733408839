//! Runtime errors.

// upstream: github.com/google/cel-go/common/types/err.go

use std::borrow::Cow;
use std::fmt;

/// An evaluation error with upstream's message.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// No overload matches the arguments.
    NoSuchOverload,
    /// Any other failure. `||` and `&&` may absorb it.
    Failed(Cow<'static, str>),
    /// The cost limit or the deadline was exceeded. Never absorbed.
    Cancelled,
}

impl Error {
    /// Creates an error with this message.
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
