//! Names of drivers, of storage and of devices.

use atoll_meta::{FieldError, FieldPath, names};

use crate::at::{At, Errors};
use crate::fields::broken_rules;

const LONGEST: usize = 63;

pub(crate) fn driver(errors: &mut Errors, name: &At<'_>) {
    driver_name(errors, name.text(), &name.path);
}

/// The same for a name that is part of another text.
pub(crate) fn driver_name(errors: &mut Errors, name: &str, path: &FieldPath) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > LONGEST {
        errors.push(FieldError::too_long(path, LONGEST));
    }
    broken_rules(errors, || path.clone(), name, names::dns1123_subdomain(&name.to_lowercase()));
}
