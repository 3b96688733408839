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
//! pub static LIBRARY: Library = Library { name: "kubernetes.urls", types: &[], functions: &[
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

mod check;
pub mod cost;
mod environment;
mod error;
mod evaluate;
mod expression;
mod functions;
mod library;
mod plan;
pub mod regexp;
mod shape;
pub mod signature;
mod source;
mod standard;
mod syntax;
pub mod time;
mod types;
mod value;

pub use cost::{CallEstimate, CostEstimate, Node, SizeEstimate, Sizes, traversal_cost};
pub use environment::Environment;
pub use error::Error;
pub use expression::{Evaluation, Expression, Program};
pub use library::{Estimate, Function, Implementation, Library, Overload, RuntimeCost};
pub use shape::{Field, ListKind, Object, Shape, ShapeKind, escape, unescape};
pub use source::{Issue, Issues, Place};
pub use types::Type;
pub use value::{Key, List, Map, Opaque, Text, Value};
