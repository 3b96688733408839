//! Which objects a request is about: by label, by field.

mod field;
mod label;

pub use field::{FieldOperator, FieldSelector, FieldTerm};
pub use label::{LabelOperator, LabelSelector, Requirement};
