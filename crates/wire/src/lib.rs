//! Kubernetes' protobuf, from and to JSON.
//!
//! ```text
//!   k8s\0 ─ envelope (apiVersion, kind, raw) ─ message ──decode──► Value
//!                                                 └─ type of each field: atoll_schema's facts
//!   JSON text ── tape ── encode ──► message
//! ```
//!
//! There is no generated code: fields, numbers and wire types come from the same table as all other facts
//! about the built-in types. Encoding writes the same bytes as upstream's encoder.

mod decode;
mod encode;
mod envelope;
mod tape;
mod varint;

use std::fmt;

pub use decode::decode;
pub use encode::{Encoder, encode};
pub use envelope::{Envelope, MAGIC, frame, open, wrap, write_envelope};
pub use varint::{write_bytes, write_message, write_number};

/// The reason why bytes are not a message of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The bytes do not start with the magic number of an envelope.
    NoMagic,
    /// The bytes end inside a field.
    UnexpectedEnd,
    /// A varint is too long.
    Overflow,
    /// A field has the wrong wire type.
    WrongWireType { owner: &'static str, field: &'static str, wire: u64 },
    /// A tag has an invalid field number or wire type.
    IllegalTag(u64),
    /// Embedded JSON is invalid.
    Json(String),
    /// Messages nest too deeply.
    TooDeep,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::NoMagic => f.write_str(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            ),
            WireError::UnexpectedEnd => f.write_str("unexpected EOF"),
            WireError::Overflow => f.write_str("proto: integer overflow"),
            WireError::WrongWireType { field, wire, .. } => {
                write!(f, "proto: wrong wireType = {wire} for field {field}")
            }
            WireError::IllegalTag(tag) => write!(f, "proto: illegal tag {tag}"),
            WireError::Json(message) => f.write_str(message),
            WireError::TooDeep => f.write_str("proto: messages nest too deeply"),
        }
    }
}

impl std::error::Error for WireError {}
