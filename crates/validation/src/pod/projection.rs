//! Downward API volumes and projected volumes.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::HashSet;

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::environment::{object_field, resource_field};
use super::volume_source::{key_to_path, local_path, mode, required};
use crate::fields::{Errors, Fields};

const TWICE: &str = "conflicting duplicate paths";
const FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

pub(super) fn downward_api(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    mode(errors, volume, "defaultMode", path);
    for file in volume.list("items") {
        downward_file(errors, file, path);
    }
}

/// Checks a file. Upstream reports the path of the volume, not that of the file.
fn downward_file(errors: &mut Errors, file: &Value, path: &FieldPath) {
    required(errors, file, &["path"], path);
    local_path(errors, file.text("path"), || path.child("path"));
    match (file.field("fieldRef"), file.field("resourceFieldRef")) {
        (Some(field), resource) => {
            object_field(errors, field, FIELDS, &path.child("fieldRef"));
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", detail));
            }
        }
        (None, Some(resource)) => resource_field(errors, resource, true, &path.child("resourceFieldRef")),
        (None, None) => {
            errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required"));
        }
    }
    mode(errors, file, "mode", path);
}

/// Checks a projected volume. Sources behind disabled feature gates have been dropped before.
pub(super) fn projected(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    mode(errors, volume, "defaultMode", path);
    let mut paths = HashSet::new();
    for (index, source) in volume.list("sources").iter().enumerate() {
        let source_path = path.child("sources").index(index);
        let mut count = 0;
        for field in ["secret", "configMap"] {
            let Some(projection) = source.field(field) else { continue };
            count += 1;
            let projection_path = source_path.child(field);
            required(errors, projection, &["name"], &projection_path);
            for (index, item) in projection.list("items").iter().enumerate() {
                key_to_path(errors, item, &projection_path.child("items").index(index));
                let file = item.text("path");
                if !file.is_empty() && !paths.insert(file) {
                    errors.push(FieldError::invalid(path, projection.text("name"), TWICE));
                }
            }
        }
        if let Some(projection) = source.field("downwardAPI") {
            count += 1;
            for item in projection.list("items") {
                downward_file(errors, item, &source_path.child("downwardAPI"));
                let file = item.text("path");
                if !file.is_empty() && !paths.insert(file) {
                    errors.push(FieldError::invalid(path, file, TWICE));
                }
            }
        }
        if let Some(token) = source.field("serviceAccountToken") {
            count += 1;
            service_account_token(errors, token, &source_path.child("serviceAccountToken"), path);
        }
        if count > 1 {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(&source_path, detail));
        }
    }
}

fn service_account_token(errors: &mut Errors, token: &Value, path: &FieldPath, volume_path: &FieldPath) {
    let seconds = token.integer("expirationSeconds");
    let detail = match seconds {
        ..600 => Some("may not specify a duration less than 10 minutes"),
        0x1_0000_0001.. => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(detail) = detail {
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, detail));
    }
    let file = token.text("path");
    if file.is_empty() {
        errors.push(FieldError::required(&volume_path.child("path"), ""));
    } else {
        local_path(errors, file, || volume_path.child("path"));
    }
}
