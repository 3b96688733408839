//! Environment variables and where their values come from.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::volume_source::no_backsteps;
use crate::fields::{Errors, Fields, broken_rules};

const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// All fields of a pod that can be selected. Which of them are allowed depends on the use.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTE_DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Checks `env`.
pub(super) fn variables(errors: &mut Errors, container: &Value, path: &FieldPath) {
    for (index, variable) in container.list("env").iter().enumerate() {
        let path = || path.child("env").index(index);
        let name = variable.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(&path().child("name"), ""));
        } else {
            broken_rules(errors, || path().child("name"), name, names::relaxed_env_var_name(name));
        }
        if let Some(source) = variable.field("valueFrom") {
            value_from(errors, source, variable.text("value"), &path().child("valueFrom"));
        }
    }
}

fn value_from(errors: &mut Errors, source: &Value, value: &str, path: &FieldPath) {
    let mut count = 0;
    if let Some(field) = source.field("fieldRef") {
        count += 1;
        object_field(errors, field, FIELDS, &path.child("fieldRef"));
    }
    if let Some(resource) = source.field("resourceFieldRef") {
        count += 1;
        resource_field(errors, resource, false, &path.child("resourceFieldRef"));
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(selector) = source.field(field) {
            count += 1;
            key_selector(errors, selector, &path.child(field));
        }
    }
    if let Some(selector) = source.field("fileKeyRef") {
        count += 1;
        file_key(errors, selector, &path.child("fileKeyRef"));
    }
    let detail = if count == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if !value.is_empty() {
        "may not be specified when `value` is not empty"
    } else if count > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    errors.push(FieldError::invalid(path, "", detail));
}

fn key_selector(errors: &mut Errors, selector: &Value, path: &FieldPath) {
    let (name, key) = (selector.text("name"), selector.text("key"));
    broken_rules(errors, || path.child("name"), name, names::name_is_dns_subdomain(name, false));
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("key"), ""));
    } else {
        broken_rules(errors, || path.child("key"), key, names::config_map_key(key));
    }
}

fn file_key(errors: &mut Errors, selector: &Value, path: &FieldPath) {
    let (key, volume, file) = (selector.text("key"), selector.text("volumeName"), selector.text("path"));
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("key"), ""));
    } else {
        broken_rules(errors, || path.child("key"), key, names::relaxed_env_var_name(key));
    }
    if volume.is_empty() {
        errors.push(FieldError::required(&path.child("volumeName"), ""));
    } else {
        broken_rules(errors, || path.child("volumeName"), volume, names::dns1123_label(volume));
    }
    if file.is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    } else {
        no_backsteps(errors, file, || path.child("path"));
    }
}

/// Splits `metadata.labels['key']` into the path and the key.
fn subscripted(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// Checks the selector of a field of the pod.
pub(super) fn object_field(errors: &mut Errors, selector: &Value, supported: &[&str], path: &FieldPath) {
    let (version, field) = (selector.text("apiVersion"), selector.text("fieldPath"));
    for (name, text) in [("apiVersion", version), ("fieldPath", field)] {
        if text.is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
            return;
        }
    }
    let subscript = subscripted(field);
    let reason = match subscript {
        _ if version != "v1" => Some(format!("unsupported pod version: {version}")),
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {field}")),
        None if KNOWN_FIELDS.contains(&field) => None,
        None => Some(format!("field label not supported: {field}")),
    };
    if let Some(reason) = reason {
        let detail = format!("error converting fieldPath: {reason}");
        errors.push(FieldError::invalid(&path.child("fieldPath"), field, detail));
        return;
    }
    match subscript {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            broken_rules(errors, || path.clone(), &key, names::qualified_name(&key));
        }
        Some((_, key)) => broken_rules(errors, || path.clone(), key, names::qualified_name(key)),
        None => {
            // Legacy name of the field.
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !supported.contains(&field) {
                errors.push(FieldError::not_supported(&path.child("fieldPath"), field, supported));
            }
        }
    }
}

/// Checks the selector of a limit or request of a container. Volumes must name the container.
pub(super) fn resource_field(errors: &mut Errors, selector: &Value, in_volume: bool, path: &FieldPath) {
    let resource = selector.text("resource");
    let huge_pages = ["requests.hugepages-", "limits.hugepages-"];
    let is_huge_page = huge_pages.iter().any(|prefix| resource.starts_with(prefix));
    if in_volume && selector.text("containerName").is_empty() {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !is_huge_page {
        errors.push(FieldError::not_supported(&path.child("resource"), resource, RESOURCES));
    }
    let Some(divisor) = selector.quantity("divisor").filter(|divisor| !divisor.is_zero()) else { return };
    let (description, supported) = match resource {
        "limits.cpu" | "requests.cpu" => ("1m and 1 are supported with the cpu", &["1m", "1"][..]),
        "limits.memory" | "requests.memory" => ("memory", BYTE_DIVISORS),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            ("local ephemeral storage", BYTE_DIVISORS)
        }
        _ if is_huge_page => ("hugepages", BYTE_DIVISORS),
        _ => return,
    };
    if !supported.contains(&divisor.to_string().as_str()) {
        let detail = if description.starts_with('1') {
            format!("only divisor's values {description} resource")
        } else {
            format!(
                "only divisor's values {} are supported with the {description} resource",
                supported.join(", ")
            )
        };
        errors.push(FieldError::invalid(&path.child("divisor"), resource, detail));
    }
}

/// Checks `envFrom`.
pub(super) fn sources(errors: &mut Errors, container: &Value, path: &FieldPath) {
    for (index, source) in container.list("envFrom").iter().enumerate() {
        let list_path = || path.child("envFrom");
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            let rules = names::relaxed_env_var_name(prefix);
            broken_rules(errors, || list_path().index(index).child("prefix"), prefix, rules);
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            let Some(reference) = source.field(field) else { continue };
            count += 1;
            let name = reference.text("name");
            let path = || list_path().index(index).child(field).child("name");
            if name.is_empty() {
                errors.push(FieldError::required(&path(), ""));
            } else {
                broken_rules(errors, path, name, names::name_is_dns_subdomain(name, true));
            }
        }
        let detail = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(&list_path(), "", detail));
    }
}
