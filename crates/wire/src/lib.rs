//! Kubernetes' protobuf, to and from the JSON that everything else here speaks.
//!
//! ```text
//!   k8s\0 ─ envelope (apiVersion, kind, raw) ─ message ──decode──► Value
//!                                                 └─ what each field is: atoll_schema's facts
//!   JSON text ── tape ── encode ──► message
//! ```
//!
//! Nothing is generated: fields, numbers and wire types come from the same table as everything else that is
//! known of the built-in types. Encoding writes what upstream's own encoder writes, byte for byte.

mod decode;
mod encode;
mod envelope;
mod tape;
mod varint;

use std::fmt;

pub use decode::decode;
pub use encode::{Encoder, encode};
pub use envelope::{Envelope, MAGIC, frame, open, seal, write_sealed};
pub use varint::{write_bytes, write_message, write_number};

/// Why bytes are not a message of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The bytes do not begin with the magic number of an envelope.
    NoMagic,
    /// They end inside a field.
    UnexpectedEnd,
    /// A number has too many bytes.
    Overflow,
    /// A field of a type has the wrong wire type.
    WrongWireType { owner: &'static str, field: &'static str, wire: u64 },
    /// A tag with a field number or wire type that cannot be.
    IllegalTag(u64),
    /// Text that is embedded as JSON and is none.
    Json(String),
    /// Messages within messages, beyond any type that there is.
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
