//! Pod topology spread constraints and label keys of pod affinity.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{HashMap, HashSet};

use atoll_meta::object::validate_label_selector;
use atoll_meta::{FieldError, names};

use crate::field_value::{Errors, FieldValue, POSITIVE};

/// Checks `matchLabelKeys` and `mismatchLabelKeys` of a term.
///
/// The server has already merged them into the selector. A key that occurs there a second time was set by the
/// client.
pub(crate) fn check_label_keys(errors: &mut Errors, term: &FieldValue<'_>) {
    let selector = term.get("labelSelector");
    let (matched, mismatched) = (term.get("matchLabelKeys"), term.get("mismatchLabelKeys"));
    for keys in [&matched, &mismatched] {
        if !keys.is_empty() && !selector.is_set() {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
            continue;
        }
        for key in keys.items() {
            key.rules(errors, names::qualified_name(key.text()));
        }
    }
    if matched.is_empty() {
        return;
    }
    if selector.is_set() {
        let mut seen: HashSet<&str> = selector.get("matchLabels").keys().collect();
        let positions: HashMap<&str, usize> =
            matched.texts().enumerate().map(|(index, key)| (key, index)).collect();
        for expression in selector.get("matchExpressions").items() {
            let key = expression.text_of("key");
            if let (Some(&position), false) = (positions.get(key), seen.insert(key)) {
                let detail = "exists in both matchLabelKeys and labelSelector";
                errors.push(FieldError::invalid(&term.path.index(position), key, detail));
            }
        }
    }
    let mismatched: HashSet<&str> = mismatched.texts().collect();
    for key in matched.items() {
        if mismatched.contains(key.text()) {
            errors.push(key.invalid_text("exists in both matchLabelKeys and mismatchLabelKeys"));
        }
    }
}

/// Checks topology spread constraints.
pub(crate) fn check_spread_constraints(errors: &mut Errors, constraints: &FieldValue<'_>) {
    // Number of constraints of each kind from the current one on.
    let mut left: HashMap<[&str; 2], usize> = HashMap::new();
    for constraint in constraints.items() {
        *left.entry(identity(&constraint)).or_default() += 1;
    }
    for constraint in constraints.items() {
        let (skew, key) = (constraint.get("maxSkew"), constraint.get("topologyKey"));
        let action = constraint.get("whenUnsatisfiable");
        if skew.integer() <= 0 {
            errors.push(skew.invalid_integer(POSITIVE));
        }
        if key.is_empty() {
            errors.push(key.required("can not be empty"));
        }
        if !matches!(action.text(), "DoNotSchedule" | "ScheduleAnyway") {
            errors.push(action.unsupported(&["DoNotSchedule", "ScheduleAnyway"]));
        }
        let is_repeated = left.get_mut(&identity(&constraint)).is_some_and(|left| {
            *left -= 1;
            *left > 0
        });
        if is_repeated {
            let path = constraint.path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&path, format!("{{{}, {}}}", key.text(), action.text())));
        }
        if let Some(domains) = constraint.given("minDomains") {
            if domains.integer() <= 0 {
                errors.push(domains.invalid_integer(POSITIVE));
            }
            if action.text() != "DoNotSchedule" {
                errors.push(domains.invalid_integer(format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.text()
                )));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.get(field);
            if !matches!(policy.optional_text(), None | Some("Honor" | "Ignore")) {
                errors.push(policy.unsupported(&["Honor", "Ignore"]));
            }
        }
        check_label_keys(errors, &constraint);
        if let Some(selector) = constraint.given("labelSelector") {
            errors.extend(validate_label_selector(selector.value, &selector.path));
        }
    }
}

fn identity<'a>(constraint: &FieldValue<'a>) -> [&'a str; 2] {
    ["topologyKey", "whenUnsatisfiable"].map(|field| constraint.text_of(field))
}
