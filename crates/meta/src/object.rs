//! Objects as JSON: reading and writing what all kinds have in common.
//!
//! Fields that are not there, or have the wrong type, read as empty: the schema complains about types before anything
//! here is asked.

mod access;
mod validate;

pub use access::*;
pub use validate::{
    ANNOTATIONS_LIMIT, FIELD_IS_IMMUTABLE, FIELD_MANAGER_LIMIT, validate_annotations, validate_field_manager,
    validate_finalizers, validate_immutable, validate_label_selector, validate_labels,
    validate_managed_fields, validate_no_new_finalizers, validate_object_meta, validate_object_meta_update,
    validate_owner_references,
};
