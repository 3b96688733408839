//! The Common Expression Language as Kubernetes uses it: from the text of an expression to a value, and what it costs.
//!
//! ```text
//! text ── parse ──► Expression ── check ──► Program ── evaluate ──► Value, and what it cost
//!         lexer,     (tree with    types,      │
//!         macros      positions)   overloads   └── estimate ──► what it may cost at most
//! ```
//!
//! [`Environment`] knows the functions and the variables; [`Environment::compile`] gives a [`Program`] or [`Issues`] in
//! the words in which the API server shows them. What variables look like is described by [`Shape`]s: these give types to the
//! checker, values to the evaluator and sizes to the estimator.
//!
//! Adding a library of functions: a file in `library/` with
//!
//! ```ignore
//! pub static LIBRARY: Library = Library { name: "kubernetes.urls", functions: &[
//!     Function { name: "isURL", overloads: &[
//!         Overload::new("is_url_string", "(string) -> bool", is_url).costs(runtime_cost, estimate),
//!     ] },
//!     Function { name: "getHost", overloads: &[
//!         Overload::new("url_get_host", "kubernetes.URL.() -> string", get_host),
//!     ] },
//! ] };
//! ```
//!
//! and its name in `LIBRARIES` in `library.rs`. Signatures are written as [`signature`] says. An implementation gets
//! arguments (the receiver first) that fit the signature, or it is not called. Without `costs` a call costs 1. Values of types
//! of their own implement [`Opaque`].

#[allow(dead_code)]
pub mod cost;
mod error;
#[allow(dead_code)]
mod library;
mod shape;
pub mod signature;
#[allow(dead_code)]
mod time;
mod types;
mod value;

pub use cost::{CallEstimate, CostEstimate, Node, SizeEstimate, Sizes, traversal_cost};
pub use error::Error;
pub use library::{Function, Implementation, Library, Overload};
pub use shape::{Field, ListKind, Object, Shape, ShapeKind, escape, unescape};
pub use types::Type;
pub use value::{Key, List, Map, Opaque, Text, Value};
