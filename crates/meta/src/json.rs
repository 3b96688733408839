//! JSON as the Kubernetes API server reads and writes it.
//!
//! Objects stay [`Value`]s from the wire to the disk, so this module is on the path of every request. It differs
//! from a general JSON library where Go's does: what errors say, that duplicate keys are allowed (the last wins)
//! but reported, that broken UTF-8 is repaired instead of refused, and which characters are escaped in output.
//!
//! ```text
//! bytes ─ parse ─▶ Value ─ encode_object ─▶ stored bytes ─ splice_resource_version ─▶ response
//!                        └─ write ────────▶ everything else
//! ```

mod encode;
mod order;
mod parse;
mod write;

use std::fmt;

use crate::quote;

pub use encode::{encode_object, metadata_of, prefix_len, splice_resource_version};
pub use order::compare;
pub use parse::{Parsed, parse};
pub use serde_json::{Map, Number, Value};
pub use write::{write, write_string};

/// How deep a document may nest.
///
/// Go stops at 10,000 levels because its stacks grow; ours do not, and dropping, cloning, comparing and printing a
/// [`Value`] all recurse. 512 levels leave each of these, and a visitor of ours with a frame of two kilobytes,
/// within the two megabytes of a worker thread. No Kubernetes object comes near: a schema of a custom resource
/// spends two levels on each level it describes.
pub const MAX_DEPTH: usize = 512;

/// The compact form of a value, see [`write`].
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    out
}

/// The compact form of a value as text, see [`write`].
pub fn to_string(value: &Value) -> String {
    // The writer copies whole strings and ASCII only, so nothing can be lost here.
    String::from_utf8(to_vec(value)).unwrap_or_default()
}

/// Why a document could not be read. The text of each is what the real API server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// The document ends inside a value.
    UnexpectedEnd {
        /// How many bytes were read.
        offset: usize,
    },
    /// A byte cannot stand where it stands.
    InvalidCharacter {
        /// The byte.
        byte: u8,
        /// The character that starts with this byte, if it is one.
        character: Option<char>,
        /// What was expected there.
        context: &'static str,
        /// Where the byte is.
        offset: usize,
    },
    /// A number is too large even for a float.
    NumberOutOfRange {
        /// The number as written.
        literal: String,
    },
}

impl JsonError {
    /// How many bytes were good.
    pub fn offset(&self) -> Option<usize> {
        match self {
            JsonError::UnexpectedEnd { offset } | JsonError::InvalidCharacter { offset, .. } => Some(*offset),
            JsonError::NumberOutOfRange { .. } => None,
        }
    }

    /// The message of Go's own `encoding/json` since Go 1.27, which the API server uses for continue tokens.
    ///
    /// The decoder for request bodies is a fork from before, which takes a byte beyond ASCII for a Latin-1
    /// character.
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
