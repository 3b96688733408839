//! Label and field selectors.

mod field;
mod label;

pub use field::{FieldOperator, FieldSelector, FieldTerm};
pub use label::{LabelOperator, LabelSelector, LabelSet, Requirement};
