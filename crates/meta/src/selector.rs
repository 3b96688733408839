//! Label and field selectors.

mod field;
mod label;

pub use field::{FieldOperator, FieldSelector, FieldTerm};
pub use label::{LabelOperator, LabelSelector, LabelSet, Requirement};

/// Returns the approximate number of bytes of an allocation: many of a selector's texts are shorter than the
/// smallest one.
fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16).max(32) }
}
