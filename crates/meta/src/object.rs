//! Objects as JSON: access to the fields that all kinds share.
//!
//! Absent fields and fields of the wrong type read as empty: the schema has already rejected wrong types.

mod access;
mod validate;

pub use access::*;
pub use validate::{
    ANNOTATIONS_LIMIT, FIELD_IS_IMMUTABLE, FIELD_MANAGER_LIMIT, validate_annotations, validate_field_manager,
    validate_finalizers, validate_immutable, validate_label_selector, validate_labels,
    validate_managed_fields, validate_no_new_finalizers, validate_object_meta, validate_object_meta_update,
    validate_owner_references,
};
