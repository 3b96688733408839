//! Names of CSI and DRA drivers.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};

use crate::field_value::{Errors, FieldValue};

const MAX_LENGTH: usize = 63;

pub(crate) fn driver(errors: &mut Errors, name: &FieldValue<'_>) {
    driver_name(errors, name.text(), &name.path);
}

/// Checks a driver name that is part of another string.
pub(crate) fn driver_name(errors: &mut Errors, name: &str, path: &FieldPath) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > MAX_LENGTH {
        errors.push(FieldError::too_long(path, MAX_LENGTH));
    }
    let broken = names::dns1123_subdomain(&name.to_lowercase());
    errors.extend(broken.into_iter().map(|rule| FieldError::invalid(path, name, rule)));
}
