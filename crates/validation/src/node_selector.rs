//! Node selectors of affinities and volumes.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::fields::{Fields, broken_rules, named};

const OPERATOR: &str = "not a valid selector operator";

/// Checks a `NodeSelector`.
pub(crate) fn check_selector(errors: &mut Vec<FieldError>, selector: &Value, path: &FieldPath) {
    let path = path.child("nodeSelectorTerms");
    let terms = selector.list("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(FieldError::required(&path, "must have at least one node selector term"));
    }
    for (index, term) in terms.iter().enumerate() {
        check_term(errors, term, true, &path.index(index));
    }
}

/// Checks a `NodeSelectorTerm`. Preferred terms may contain values that are not valid label values.
pub(crate) fn check_term(
    errors: &mut Vec<FieldError>,
    term: &Value,
    values_are_checked: bool,
    path: &FieldPath,
) {
    for (index, requirement) in term.list("matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        check_requirement(errors, requirement, values_are_checked, &path);
    }
    for (index, requirement) in term.list("matchFields").iter().enumerate() {
        check_field_requirement(errors, requirement, &path.child("matchFields").index(index));
    }
}

fn check_requirement(
    errors: &mut Vec<FieldError>,
    requirement: &Value,
    values_are_checked: bool,
    path: &FieldPath,
) {
    let values = requirement.list("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path.child("values"), detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(FieldError::invalid(&path.child("operator"), named(other), OPERATOR)),
    }
    let key = requirement.text("key");
    broken_rules(errors, || path.child("key"), key, names::qualified_name(key));
    if values_are_checked {
        for (index, value) in requirement.texts("values").enumerate() {
            broken_rules(errors, || path.child("values").index(index), value, names::label_value(value));
        }
    }
}

fn check_field_requirement(errors: &mut Vec<FieldError>, requirement: &Value, path: &FieldPath) {
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if requirement.list("values").len() != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(FieldError::required(&path.child("values"), detail));
            }
        }
        other => errors.push(FieldError::invalid(&path.child("operator"), named(other), OPERATOR)),
    }
    match requirement.text("key") {
        "metadata.name" => {
            for (index, value) in requirement.texts("values").enumerate() {
                let rules = names::name_is_dns_subdomain(value, false);
                broken_rules(errors, || path.child("values").index(index), value, rules);
            }
        }
        other => {
            errors.push(FieldError::invalid(&path.child("key"), other, "not a valid field selector key"));
        }
    }
}

/// Checks the `preferredDuringSchedulingIgnoredDuringExecution` of a node affinity.
pub(crate) fn check_preferences(errors: &mut Vec<FieldError>, terms: &[Value], path: &FieldPath) {
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index);
        let weight = term.integer("weight");
        if !(1..=100).contains(&weight) {
            errors.push(FieldError::invalid(&path.child("weight"), weight, "must be in the range 1-100"));
        }
        check_term(errors, term.part("preference"), false, &path.child("preference"));
    }
}
