//! Pod topology spread constraints and label keys of pod affinity.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{HashMap, HashSet};

use atoll_meta::object::validate_label_selector;
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::fields::{Fields, POSITIVE, broken_rules, named, positive};

/// Checks `matchLabelKeys` and `mismatchLabelKeys` of a term.
///
/// The server has already merged them into the selector. A key that occurs there a second time was set by the
/// client.
pub(crate) fn check_label_keys(errors: &mut Vec<FieldError>, term: &Value, path: &FieldPath) {
    let selector = term.field("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        if term.list(field).is_empty() {
            continue;
        }
        if selector.is_none() {
            let detail = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(&path.child(field), detail));
            continue;
        }
        for (index, key) in term.texts(field).enumerate() {
            broken_rules(errors, || path.child(field).index(index), key, names::qualified_name(key));
        }
    }
    if term.list("matchLabelKeys").is_empty() {
        return;
    }
    if let Some(selector) = selector {
        let mut seen: HashSet<&str> = selector.entries("matchLabels").map(|(key, _)| key).collect();
        let keys = term.list("matchLabelKeys").iter().enumerate();
        let positions: HashMap<&str, usize> =
            keys.filter_map(|(index, key)| Some((key.as_str()?, index))).collect();
        for expression in selector.list("matchExpressions") {
            let key = expression.text("key");
            if let (Some(&position), false) = (positions.get(key), seen.insert(key)) {
                let detail = "exists in both matchLabelKeys and labelSelector";
                errors.push(FieldError::invalid(&path.index(position), key, detail));
            }
        }
    }
    let mismatched: HashSet<&str> = term.texts("mismatchLabelKeys").collect();
    for (index, key) in term.texts("matchLabelKeys").enumerate() {
        if mismatched.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(FieldError::invalid(&path.child("matchLabelKeys").index(index), key, detail));
        }
    }
}

/// Checks topology spread constraints.
pub(crate) fn check_spread_constraints(
    errors: &mut Vec<FieldError>,
    constraints: &[Value],
    path: &FieldPath,
) {
    let identity = |constraint: &'_ Value| -> (String, String) {
        (constraint.text("topologyKey").to_owned(), constraint.text("whenUnsatisfiable").to_owned())
    };
    // Number of constraints of each kind from the current one on.
    let mut left: HashMap<(String, String), usize> = HashMap::new();
    for constraint in constraints {
        *left.entry(identity(constraint)).or_default() += 1;
    }
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        positive(errors, constraint, "maxSkew", &path);
        if key.is_empty() {
            errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            let path = path.child("whenUnsatisfiable");
            errors.push(FieldError::not_supported(&path, named(action), &supported));
        }
        let is_repeated = left.get_mut(&identity(constraint)).is_some_and(|left| {
            *left -= 1;
            *left > 0
        });
        if is_repeated {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&path, format!("{{{key}, {action}}}")));
        }
        if let Some(domains) = constraint.optional_integer("minDomains") {
            let path = path.child("minDomains");
            if domains <= 0 {
                errors.push(FieldError::invalid(&path, domains, POSITIVE));
            }
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(FieldError::invalid(&path, domains, detail));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            match constraint.optional_text(field) {
                None | Some("Honor" | "Ignore") => {}
                Some(policy) => errors.push(FieldError::not_supported(
                    &path.child(field),
                    named(policy),
                    &["Honor", "Ignore"],
                )),
            }
        }
        check_label_keys(errors, constraint, &path);
        if let Some(selector) = constraint.field("labelSelector") {
            errors.extend(validate_label_selector(selector, &path.child("labelSelector")));
        }
    }
}
