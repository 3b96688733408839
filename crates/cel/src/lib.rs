//! The Common Expression Language as Kubernetes uses it: parsing, type checking, cost estimation and
//! evaluation.
//!
//! ```text
//! text ── parse ──► Expression ── check ──► Program ── evaluate ──► Value and cost
//!         lexer,     (tree with    types,      │
//!         macros      positions)   overloads   └── estimate ──► maximum cost
//! ```
//!
//! [`Environment`] declares functions and variables; [`Environment::compile`] returns an [`Expression`] or
//! [`Issues`] with the API server's messages. [`Shape`]s describe variables: the checker derives types from
//! them, the evaluator values and the estimator sizes.
//!
//! To add a library of functions, add a file in `library/` with
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
//! and add it to `LIBRARIES` in `library.rs`. The syntax of signatures is that of [`signature`]. An
//! implementation is only called with arguments (the receiver first) that match the signature. Without
//! `costs` a call costs 1. Values of custom types implement [`Opaque`].

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
mod reserved;
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
pub use reserved::is_reserved;
pub use shape::{Field, ListKind, Object, Shape, ShapeKind, escape, unescape};
pub use source::{CompileError, Issues, Location};
pub use types::Type;
pub use value::{Key, List, Map, Opaque, Text, Value};
