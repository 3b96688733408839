//! Environment variables and where their values come from.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::names;

use super::volume_source::no_backsteps;
use crate::field_value::{Errors, FieldValue, StringRule};

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
pub(super) fn variables(errors: &mut Errors, container: &FieldValue<'_>) {
    for variable in container.get("env").items() {
        required(errors, &variable.get("name"), names::relaxed_env_var_name);
        if let Some(source) = variable.given("valueFrom") {
            value_from(errors, &source, variable.text_of("value"));
        }
    }
}

/// Checks a string that must not be empty.
fn required(errors: &mut Errors, text: &FieldValue<'_>, rule: StringRule) {
    if text.is_empty() {
        errors.push(text.required(""));
    } else {
        text.rules(errors, rule(text.text()));
    }
}

fn value_from(errors: &mut Errors, source: &FieldValue<'_>, value: &str) {
    let mut count = 0;
    if let Some(field) = source.given("fieldRef") {
        count += 1;
        object_field(errors, &field, FIELDS);
    }
    if let Some(resource) = source.given("resourceFieldRef") {
        count += 1;
        resource_field(errors, &resource, false);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(selector) = source.given(field) {
            count += 1;
            key_selector(errors, &selector);
        }
    }
    if let Some(selector) = source.given("fileKeyRef") {
        count += 1;
        file_key(errors, &selector);
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
    errors.push(source.invalid_as("", detail));
}

fn key_selector(errors: &mut Errors, selector: &FieldValue<'_>) {
    let name = selector.get("name");
    name.rules(errors, names::name_is_dns_subdomain(name.text(), false));
    required(errors, &selector.get("key"), names::config_map_key);
}

fn file_key(errors: &mut Errors, selector: &FieldValue<'_>) {
    required(errors, &selector.get("key"), names::relaxed_env_var_name);
    required(errors, &selector.get("volumeName"), names::dns1123_label);
    let file = selector.get("path");
    if file.is_empty() {
        errors.push(file.required(""));
    } else {
        no_backsteps(errors, &file);
    }
}

/// Splits `metadata.labels['key']` into the path and the key.
fn subscripted(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// Checks the selector of a field of the pod.
pub(super) fn object_field(errors: &mut Errors, selector: &FieldValue<'_>, supported: &[&str]) {
    let (version, path) = (selector.get("apiVersion"), selector.get("fieldPath"));
    if let Some(missing) = [&version, &path].into_iter().find(|text| text.is_empty()) {
        errors.push(missing.required(""));
        return;
    }
    let field = path.text();
    let subscript = subscripted(field);
    let reason = match subscript {
        _ if version.text() != "v1" => Some(format!("unsupported pod version: {}", version.text())),
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {field}")),
        None if KNOWN_FIELDS.contains(&field) => None,
        None => Some(format!("field label not supported: {field}")),
    };
    if let Some(reason) = reason {
        errors.push(path.invalid(format!("error converting fieldPath: {reason}")));
        return;
    }
    match subscript {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            selector.part_rules(errors, &key, names::qualified_name(&key));
        }
        Some((_, key)) => selector.part_rules(errors, key, names::qualified_name(key)),
        None => {
            // Legacy name of the field.
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !supported.contains(&field) {
                errors.push(path.unsupported_as(field, supported));
            }
        }
    }
}

/// Checks the selector of a limit or request of a container. Volumes must name the container.
pub(super) fn resource_field(errors: &mut Errors, selector: &FieldValue<'_>, in_volume: bool) {
    let (container, resource) = (selector.get("containerName"), selector.get("resource"));
    let divisor_field = selector.get("divisor");
    let huge_pages = ["requests.hugepages-", "limits.hugepages-"];
    let is_huge_page = huge_pages.iter().any(|prefix| resource.text().starts_with(prefix));
    if in_volume && container.is_empty() {
        errors.push(container.required(""));
    } else if resource.is_empty() {
        errors.push(resource.required(""));
    } else if !RESOURCES.contains(&resource.text()) && !is_huge_page {
        errors.push(resource.unsupported_text(RESOURCES));
    }
    let Some(divisor) = divisor_field.quantity().filter(|divisor| !divisor.is_zero()) else { return };
    let (description, supported) = match resource.text() {
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
        errors.push(divisor_field.invalid_as(resource.text(), detail));
    }
}

/// Checks `envFrom`.
pub(super) fn sources(errors: &mut Errors, container: &FieldValue<'_>) {
    let sources = container.get("envFrom");
    for source in sources.items() {
        let prefix = source.get("prefix");
        if !prefix.is_empty() {
            prefix.rules(errors, names::relaxed_env_var_name(prefix.text()));
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            let Some(reference) = source.given(field) else { continue };
            count += 1;
            required(errors, &reference.get("name"), |name| names::name_is_dns_subdomain(name, true));
        }
        let detail = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(sources.invalid_as("", detail));
    }
}
