//! Types and rules that all Kubernetes objects and responses share, without I/O and without a clock.
//!
//! ```text
//! wire ─ json ─▶ Value ─ object ──┬─ names ──▶ Vec<FieldError> (field) ─▶ Status (status) ─▶ wire
//!                                 ├─ selector    matching of labels and fields
//!                                 ├─ views       fields of Pods and nodes by method
//!                                 └─ time, id    values that the server sets
//! ```
//!
//! Messages are part of the API: clients and tests compare them, so they are upstream's, word for word.

pub mod aggregation;
pub mod base64;
pub mod cron;
pub mod deadline;
pub mod field;
pub mod formats;
pub mod id;
pub mod json;
pub mod names;
pub mod object;
pub mod quantity;
pub mod quote;
pub mod selector;
pub mod status;
pub mod text;
pub mod time;
pub mod views;

pub use deadline::Deadline;
pub use field::{FieldError, FieldPath};
pub use selector::{FieldSelector, LabelSelector, LabelSet};
pub use status::Status;
