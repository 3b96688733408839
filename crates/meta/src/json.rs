//! JSON as the Kubernetes API server reads and writes it.
//!
//! Objects stay [`Value`]s from the wire to the disk, so this module is on the path of every request. It
//! differs from a general JSON library where Go's does: error messages, duplicate keys (allowed and reported;
//! the last wins), invalid UTF-8 (replaced, not rejected), and the characters that are escaped in output.
//!
//! ```text
//! bytes ─ parse ─▶ Value ─ encode_object ─▶ stored bytes ─ splice_resource_version ─▶ response
//!                        └─ write ────────▶ everything else
//! ```

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/scanner.go
// Go standard library: src/encoding/json/scanner.go

mod encode;
mod order;
mod parse;
mod scan;
mod write;

use std::fmt;

use crate::quote;

pub use encode::{encode_object, metadata_fields, metadata_of, prefix_len, splice_resource_version};
pub use order::compare;
pub use parse::{Builder, DocumentNode, Nodes, Parsed, Values, build, parse};
pub use scan::{StringEnd, string_end, unescape};
pub use serde_json::{Map, Number, Value};
pub use write::{write, write_string};

/// Maximum nesting depth of a document.
///
/// Go stops at 10,000 levels, because its stacks grow. Rust's do not, and dropping, cloning, comparing and
/// printing a [`Value`] all recurse. 512 levels leave each of these, and a visitor with a stack frame of two
/// kilobytes, within the two megabytes of a worker thread. Kubernetes objects are far below that: the schema
/// of a custom resource uses two levels for each level that it describes.
pub const MAX_DEPTH: usize = 512;

/// Returns the compact form of a value, see [`write`].
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    out
}

/// Returns the compact form of a value as a string, see [`write`].
pub fn to_string(value: &Value) -> String {
    // The writer's output is always valid UTF-8.
    String::from_utf8(to_vec(value)).unwrap_or_default()
}

/// The reason why a document cannot be parsed. The messages are those of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// The document ends inside a value.
    UnexpectedEnd {
        /// Number of bytes read.
        offset: usize,
    },
    /// Unexpected byte.
    InvalidCharacter {
        /// The byte.
        byte: u8,
        /// The character that starts with this byte, if it is valid.
        character: Option<char>,
        /// Expected syntax.
        context: &'static str,
        /// Offset of the byte.
        offset: usize,
    },
    /// A number is out of the range of floats.
    NumberOutOfRange {
        /// The number as written.
        literal: String,
    },
}

impl JsonError {
    /// Returns the number of valid bytes.
    pub fn offset(&self) -> Option<usize> {
        match self {
            JsonError::UnexpectedEnd { offset } | JsonError::InvalidCharacter { offset, .. } => Some(*offset),
            JsonError::NumberOutOfRange { .. } => None,
        }
    }

    /// Returns the message of Go's `encoding/json` since Go 1.27, which the API server uses for continue
    /// tokens.
    ///
    /// The decoder for request bodies is an older fork, which treats a non-ASCII byte as a Latin-1 character.
    pub fn standard_library_message(&self) -> String {
        match self {
            JsonError::InvalidCharacter { byte, character, context, .. } if !byte.is_ascii() => {
                match character {
                    Some(character) => {
                        format!("invalid character {} {context}", quote::quote_character(*character))
                    }
                    None => format!("invalid character '\\x{byte:02x}' {context}"),
                }
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::UnexpectedEnd { .. } => f.write_str("unexpected end of JSON input"),
            JsonError::InvalidCharacter { byte, context, .. } => {
                write!(f, "invalid character {} {context}", quote::quote_character(char::from(*byte)))
            }
            JsonError::NumberOutOfRange { literal } => {
                write!(f, "json: cannot unmarshal number {literal} into Go value of type float64")
            }
        }
    }
}

impl std::error::Error for JsonError {}
