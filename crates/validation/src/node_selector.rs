//! Node selectors of affinities and volumes.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::names;

use crate::field_value::{Errors, FieldValue};

const OPERATOR: &str = "not a valid selector operator";

/// Checks a `NodeSelector`.
pub(crate) fn check_selector(errors: &mut Errors, selector: &FieldValue<'_>) {
    let terms = selector.get("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    for term in terms.items() {
        check_term(errors, &term, true);
    }
}

/// Checks a `NodeSelectorTerm`. Preferred terms may contain values that are not valid label values.
pub(crate) fn check_term(errors: &mut Errors, term: &FieldValue<'_>, values_are_checked: bool) {
    for requirement in term.get("matchExpressions").items() {
        check_requirement(errors, &requirement, values_are_checked);
    }
    for requirement in term.get("matchFields").items() {
        check_field_requirement(errors, &requirement);
    }
}

fn check_requirement(errors: &mut Errors, requirement: &FieldValue<'_>, values_are_checked: bool) {
    let (key, operator, values) =
        (requirement.get("key"), requirement.get("operator"), requirement.get("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(values.forbidden(detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(operator.invalid_named(OPERATOR)),
    }
    key.rules(errors, names::qualified_name(key.text()));
    if values_are_checked {
        for value in values.items() {
            value.rules(errors, names::label_value(value.text()));
        }
    }
}

fn check_field_requirement(errors: &mut Errors, requirement: &FieldValue<'_>) {
    let (key, operator, values) =
        (requirement.get("key"), requirement.get("operator"), requirement.get("values"));
    match operator.text() {
        "In" | "NotIn" => {
            if values.len() != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(values.required(detail));
            }
        }
        _ => errors.push(operator.invalid_named(OPERATOR)),
    }
    if key.text() == "metadata.name" {
        for value in values.items() {
            value.rules(errors, names::name_is_dns_subdomain(value.text(), false));
        }
    } else {
        errors.push(key.invalid_text("not a valid field selector key"));
    }
}

/// Checks the `preferredDuringSchedulingIgnoredDuringExecution` of a node affinity.
pub(crate) fn check_preferences(errors: &mut Errors, terms: &FieldValue<'_>) {
    for term in terms.items() {
        check_weight(errors, &term.get("weight"));
        check_term(errors, &term.get("preference"), false);
    }
}

/// Checks the weight of a preferred term.
pub(crate) fn check_weight(errors: &mut Errors, weight: &FieldValue<'_>) {
    if !(1..=100).contains(&weight.integer()) {
        errors.push(weight.invalid_integer("must be in the range 1-100"));
    }
}
