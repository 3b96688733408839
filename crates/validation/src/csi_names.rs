//! Names of storage drivers.

use atoll_meta::{FieldError, names};

use crate::at::{At, Errors};

const LONGEST: usize = 63;

pub(crate) fn driver(errors: &mut Errors, name: &At<'_>) {
    if name.is_empty() {
        errors.push(name.required(""));
        return;
    }
    if name.len() > LONGEST {
        errors.push(FieldError::too_long(&name.path, LONGEST));
    }
    name.rules(errors, names::dns1123_subdomain(&name.text().to_lowercase()));
}
