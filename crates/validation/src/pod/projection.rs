//! Downward API volumes and projected volumes.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::HashSet;

use super::environment::{object_field, resource_field};
use super::volume_source::{key_to_path, local_path, mode, required};
use crate::field_value::{Errors, FieldValue};

const TWICE: &str = "conflicting duplicate paths";
const FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

pub(super) fn downward_api(errors: &mut Errors, volume: &FieldValue<'_>) {
    mode(errors, &volume.get("defaultMode"));
    for file in volume.get("items").items() {
        downward_file(errors, &file.with_path(volume.path.clone()));
    }
}

/// Checks a file. Upstream reports the path of the volume, not that of the file.
fn downward_file(errors: &mut Errors, file: &FieldValue<'_>) {
    required(errors, file, &["path"]);
    local_path(errors, &file.get("path"));
    match (file.given("fieldRef"), file.given("resourceFieldRef")) {
        (Some(field), resource) => {
            object_field(errors, &field, FIELDS);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(file.invalid_as("resource", detail));
            }
        }
        (None, Some(resource)) => resource_field(errors, &resource, true),
        (None, None) => {
            errors.push(file.required("one of fieldRef and resourceFieldRef is required"));
        }
    }
    mode(errors, &file.get("mode"));
}

/// Checks a projected volume. Sources behind disabled feature gates have been dropped before.
pub(super) fn projected(errors: &mut Errors, volume: &FieldValue<'_>) {
    mode(errors, &volume.get("defaultMode"));
    let mut paths = HashSet::new();
    for source in volume.get("sources").items() {
        let mut count = 0;
        for field in ["secret", "configMap"] {
            let Some(projection) = source.given(field) else { continue };
            count += 1;
            required(errors, &projection, &["name"]);
            for item in projection.get("items").items() {
                key_to_path(errors, &item);
                let file = item.text_of("path");
                if !file.is_empty() && !paths.insert(file) {
                    errors.push(volume.invalid_as(projection.text_of("name"), TWICE));
                }
            }
        }
        if let Some(projection) = source.given("downwardAPI") {
            count += 1;
            for item in projection.get("items").items() {
                downward_file(errors, &item.with_path(projection.path.clone()));
                let file = item.text_of("path");
                if !file.is_empty() && !paths.insert(file) {
                    errors.push(volume.invalid_as(file, TWICE));
                }
            }
        }
        if let Some(token) = source.given("serviceAccountToken") {
            count += 1;
            service_account_token(errors, &token, volume);
        }
        if count > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

fn service_account_token(errors: &mut Errors, token: &FieldValue<'_>, volume: &FieldValue<'_>) {
    let seconds = token.get("expirationSeconds");
    let detail = match seconds.integer() {
        ..600 => Some("may not specify a duration less than 10 minutes"),
        0x1_0000_0001.. => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    errors.extend(detail.map(|detail| seconds.invalid_integer(detail)));
    // Upstream reports the path as a field of the volume.
    let file = token.with_path(volume.path.clone()).get("path");
    if file.is_empty() {
        errors.push(file.required(""));
    } else {
        local_path(errors, &file);
    }
}
