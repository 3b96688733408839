//! Rules with operations of webhooks and policies.

// upstream: pkg/apis/admissionregistration/validation/validation.go

use std::collections::HashSet;

use crate::field_value::{Errors, FieldValue};

pub(crate) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(crate) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
pub(crate) const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

pub(crate) fn with_operations(errors: &mut Errors, rule: &FieldValue<'_>) {
    let operations = rule.get("operations");
    if operations.is_empty() {
        errors.push(operations.required(""));
    }
    if operations.len() > 1 && operations.texts().any(|operation| operation == "*") {
        errors.push(operations.invalid("if '*' is present, must not specify other operations"));
    }
    let unknown = operations.items().filter(|operation| !OPERATIONS.contains(&operation.text()));
    errors.extend(unknown.map(|operation| operation.unsupported(OPERATIONS)));
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = rule.get(field);
        if list.is_empty() {
            errors.push(list.required(""));
        }
        if list.len() > 1 && list.texts().any(|text| text == "*") {
            errors.push(list.invalid(format!("if '*' is present, must not specify other {what}")));
        }
        if field == "apiVersions" {
            errors.extend(list.items().filter(FieldValue::is_empty).map(|version| version.required("")));
        }
    }
    resources(errors, &rule.get("resources"));
    super::optional(errors, &rule.get("scope"), SCOPES);
}

fn resources(errors: &mut Errors, resources: &FieldValue<'_>) {
    if resources.is_empty() {
        errors.push(resources.required(""));
    }
    // Resources with the subresource `*`, and subresources of the resource `*`.
    let (mut all_of, mut for_all) = (HashSet::new(), HashSet::new());
    // Upstream only considers the last resource without a subresource.
    let mut plain = false;
    for field in resources.items() {
        let text = field.text();
        if text.is_empty() {
            errors.push(field.required(""));
            continue;
        }
        let Some((resource, subresource)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if all_of.contains(resource) {
            errors.push(field.invalid(format!("if '{resource}/*' is present, must not specify {text}")));
        }
        if for_all.contains(subresource) {
            errors.push(field.invalid(format!("if '*/{subresource}' is present, must not specify {text}")));
        }
        if subresource == "*" {
            all_of.insert(resource);
        }
        if resource == "*" {
            for_all.insert(subresource);
        }
    }
    let has = |resource: &str| resources.texts().any(|text| text == resource);
    if resources.len() > 1 && has("*/*") {
        errors.push(resources.invalid("if '*/*' is present, must not specify other resources"));
    }
    if plain && has("*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(resources.invalid(detail));
    }
}
