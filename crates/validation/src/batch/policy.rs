//! `podFailurePolicy`, `successPolicy` and `podReplacementPolicy` of a Job.

// upstream: pkg/apis/batch/validation/validation.go

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::indexes;
use crate::fields::{Errors, Fields, NOT_NEGATIVE, broken_rules, named};
use crate::internal;

const RULES: usize = 20;
const EXIT_CODES: usize = 255;
const PATTERNS: usize = 20;
const INDEXES_LENGTH: usize = 64 * 1024;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

/// Checks that a string of a named type is set to one of these values. Upstream's message about a missing
/// value lists them without commas.
fn required_choice(
    errors: &mut Errors,
    object: &Value,
    field: &'static str,
    choices: &[&str],
    path: &FieldPath,
) {
    let text = object.text(field);
    if text.is_empty() {
        let list: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
        let detail = format!("valid values: [{}]", list.join(" "));
        errors.push(FieldError::required(&path.child(field), detail));
    } else if !choices.contains(&text) {
        errors.push(FieldError::not_supported(&path.child(field), named(text), choices));
    }
}

/// Checks `podFailurePolicy`.
pub(super) fn failure(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let Some(policy) = spec.field("podFailurePolicy") else { return };
    let path = path.child("rules");
    let rules = policy.list("rules");
    if rules.len() > RULES {
        errors.push(FieldError::too_many(&path, rules.len(), RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        failure_rule(errors, rule, spec, &path.index(index));
    }
}

fn failure_rule(errors: &mut Errors, rule: &Value, spec: &Value, path: &FieldPath) {
    required_choice(errors, rule, "action", ACTIONS, path);
    if rule.text("action") == "FailIndex" && spec.field("backoffLimitPerIndex").is_none() {
        let detail = "requires the backoffLimitPerIndex to be set";
        errors.push(FieldError::invalid(&path.child("action"), named("FailIndex"), detail));
    }
    let codes = rule.field("onExitCodes");
    if let Some(codes) = codes {
        exit_codes(errors, codes, spec, &path.child("onExitCodes"));
    }
    let patterns = rule.list("onPodConditions");
    if patterns.len() > PATTERNS {
        errors.push(FieldError::too_many(&path.child("onPodConditions"), patterns.len(), PATTERNS));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.child("onPodConditions").index(index);
        let kind = pattern.text("type");
        broken_rules(errors, || path.child("type"), kind, names::qualified_name(kind));
        required_choice(errors, pattern, "status", STATUSES, &path);
    }
    let detail = match (codes.is_some(), !patterns.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(FieldError::invalid(path, BadValue::Omitted, detail));
}

fn exit_codes(errors: &mut Errors, codes: &Value, spec: &Value, path: &FieldPath) {
    required_choice(errors, codes, "operator", &["In", "NotIn"], path);
    if let Some(name) = codes.optional_text("containerName") {
        let pod = spec.part("template").part("spec");
        let mut containers = pod.list("containers").iter().chain(pod.list("initContainers"));
        if !containers.any(|container| container.text("name") == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.push(FieldError::invalid(&path.child("containerName"), name, detail));
        }
    }
    let values_path = path.child("values");
    let values = codes.list("values");
    if values.is_empty() {
        let rendered = codes.part("values").clone();
        errors.push(FieldError::invalid(&values_path, rendered, "at least one value is required"));
    } else if values.len() > EXIT_CODES {
        errors.push(FieldError::too_many(&values_path, values.len(), EXIT_CODES));
    }
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        let code = value.as_i64().unwrap_or_default();
        if code == 0 && codes.text("operator") == "In" {
            let detail = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(&values_path.index(index), code, detail));
        }
        if !seen.insert(code) {
            errors.push(FieldError::duplicate(&values_path.index(index), code));
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64()) {
        errors.push(FieldError::invalid(&values_path, values.to_vec(), "must be ordered"));
    }
}

/// Checks `successPolicy`.
pub(super) fn success(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let Some(policy) = spec.field("successPolicy") else { return };
    if spec.text("completionMode") != "Indexed" {
        let rendered = internal::render("SuccessPolicy", policy);
        errors.push(FieldError::invalid(path, rendered, "requires indexed completion mode"));
        return;
    }
    let path = path.child("rules");
    let rules = policy.list("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&path, detail));
    }
    if rules.len() > RULES {
        errors.push(FieldError::too_many(&path, rules.len(), RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        success_rule(errors, rule, spec.integer("completions"), &path.index(index));
    }
}

fn success_rule(errors: &mut Errors, rule: &Value, completions: i64, path: &FieldPath) {
    let listed = rule.optional_text("succeededIndexes");
    let count = rule.optional_integer("succeededCount");
    if listed.is_none() && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let mut total = 0;
    if let Some(text) = listed {
        let path = path.child("succeededIndexes");
        if text.len() > INDEXES_LENGTH {
            errors.push(FieldError::too_long(&path, INDEXES_LENGTH));
        }
        match indexes::count(text, completions) {
            Ok(count) => total = count,
            Err(reason) => {
                let detail = format!("error parsing succeededIndexes: {reason}");
                errors.push(FieldError::invalid(&path, text, detail));
            }
        }
    }
    let Some(count) = count else { return };
    let mut refuse = |detail: String| {
        errors.push(FieldError::invalid(&path.child("succeededCount"), count, detail));
    };
    if count < 0 {
        refuse(NOT_NEGATIVE.to_owned());
    }
    if count > completions {
        refuse(format!("must be less than or equal to {completions} (the number of specified completions)"));
    }
    if listed.is_some() && count > total {
        refuse(format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        ));
    }
}

/// Checks `podReplacementPolicy`.
pub(super) fn replacement(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let Some(policy) = spec.optional_text("podReplacementPolicy") else { return };
    let supported: &[&str] = if spec.field("podFailurePolicy").is_some() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if !supported.contains(&policy) {
        errors.push(FieldError::not_supported(path, named(policy), supported));
    }
}
