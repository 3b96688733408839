//! What is known of the built-in Kubernetes types and resources, and what Go does to an object that passes through them.
//!
//! ```text
//! data/resources.txt ─ resources()            rows: names, scope, verbs, subresources
//!                          │ type_id
//! data/types.txt ──── Types::get()            kinds ─ structs ─ fields (JSON, Go, protobuf, merge facts)
//!                          │
//!             normalise(types, id, value)     decode into the Go struct, encode it again
//!                          │
//!             decode(types, id, text)         the same from text, with remarks in the order of the text
//!                          │
//!             restore(types, id, value)       the same from a merged value, with Go's words for that
//!                          │
//!         through_protobuf(types, id, value)  what storing it does besides
//! ```
//!
//! The data files hold facts only and are written by `cargo xtask codegen`. Nothing here reads a clock or does I/O.

mod decode;
mod error;
mod go;
mod normalise;
mod protobuf;
mod quantity;
mod resources;
mod restore;
mod text;
mod time;
mod types;

pub use decode::{Decoded, Document, decode};
pub use error::{Error, StrictRemark, TypeMismatch, UnknownField};
pub use normalise::normalise;
pub use protobuf::through_protobuf;
pub use quantity::{Canonical, QuantityError, canonical_quantity};
pub use resources::{Resource, Subresource, kubernetes_version, resources};
pub use restore::restore;
pub use time::{Rewritten, canonical_micro_time, canonical_time};
pub use types::{
    Field, List, ListType, Map, Numbered, Proto, Scalar, Slot, Type, TypeId, TypeRef, Types, Whole, Wire,
};
