//! `podFailurePolicy`, `successPolicy` and `podReplacementPolicy` of a Job.

// upstream: pkg/apis/batch/validation/validation.go

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use atoll_meta::names;

use super::indexes;
use crate::field_value::{Errors, FieldValue, NOT_NEGATIVE};
use crate::internal;

const RULES: usize = 20;
const EXIT_CODES: usize = 255;
const PATTERNS: usize = 20;
const INDEXES_LENGTH: usize = 64 * 1024;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

/// Checks that a string of a named type is set to one of these values. Upstream's message about a missing
/// value lists them without commas.
fn required_choice(errors: &mut Errors, choice: &FieldValue<'_>, choices: &[&str]) {
    if choice.is_empty() {
        let list: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
        errors.push(choice.required(format!("valid values: [{}]", list.join(" "))));
    } else if !choices.contains(&choice.text()) {
        errors.push(choice.unsupported(choices));
    }
}

/// Checks `podFailurePolicy`.
pub(super) fn failure(errors: &mut Errors, spec: &FieldValue<'_>) {
    let Some(policy) = spec.given("podFailurePolicy") else { return };
    let rules = policy.get("rules");
    if rules.len() > RULES {
        errors.push(rules.too_many(RULES));
    }
    for rule in rules.items() {
        failure_rule(errors, &rule, spec);
    }
}

fn failure_rule(errors: &mut Errors, rule: &FieldValue<'_>, spec: &FieldValue<'_>) {
    let (action, codes, patterns) =
        (rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions"));
    required_choice(errors, &action, ACTIONS);
    if action.text() == "FailIndex" && !spec.has("backoffLimitPerIndex") {
        errors.push(action.invalid_named("requires the backoffLimitPerIndex to be set"));
    }
    if codes.is_set() {
        exit_codes(errors, &codes, spec);
    }
    if patterns.len() > PATTERNS {
        errors.push(patterns.too_many(PATTERNS));
    }
    for pattern in patterns.items() {
        let kind = pattern.get("type");
        kind.rules(errors, names::qualified_name(kind.text()));
        required_choice(errors, &pattern.get("status"), STATUSES);
    }
    let detail = match (codes.is_set(), !patterns.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(rule.invalid_as(BadValue::Omitted, detail));
}

fn exit_codes(errors: &mut Errors, codes: &FieldValue<'_>, spec: &FieldValue<'_>) {
    let (operator, values) = (codes.get("operator"), codes.get("values"));
    required_choice(errors, &operator, &["In", "NotIn"]);
    if let Some(name) = codes.given("containerName") {
        let pod = spec.get("template").get("spec");
        let is_named = |container: FieldValue<'_>| container.text_of("name") == name.text();
        if !["containers", "initContainers"].iter().any(|field| pod.get(field).items().any(is_named)) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.push(name.invalid(detail));
        }
    }
    if values.is_empty() {
        errors.push(values.invalid("at least one value is required"));
    } else if values.len() > EXIT_CODES {
        errors.push(values.too_many(EXIT_CODES));
    }
    let mut seen = HashSet::new();
    for code in values.items() {
        if code.integer() == 0 && operator.text() == "In" {
            errors.push(code.invalid_integer("must not be 0 for the In operator"));
        }
        if !seen.insert(code.integer()) {
            errors.push(code.duplicate_as(code.integer()));
        }
    }
    if !values.list().is_sorted_by_key(|value| value.as_i64()) {
        errors.push(values.invalid("must be ordered"));
    }
}

/// Checks `successPolicy`.
pub(super) fn success(errors: &mut Errors, spec: &FieldValue<'_>) {
    let Some(policy) = spec.given("successPolicy") else { return };
    if spec.text_of("completionMode") != "Indexed" {
        let rendered = internal::render("SuccessPolicy", policy.value);
        errors.push(policy.invalid_as(rendered, "requires indexed completion mode"));
        return;
    }
    let rules = policy.get("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(rules.required(detail));
    }
    if rules.len() > RULES {
        errors.push(rules.too_many(RULES));
    }
    for rule in rules.items() {
        success_rule(errors, &rule, spec.get("completions").integer());
    }
}

fn success_rule(errors: &mut Errors, rule: &FieldValue<'_>, completions: i64) {
    let (listed, count) = (rule.get("succeededIndexes"), rule.get("succeededCount"));
    if !listed.is_set() && !count.is_set() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(rule.required(detail));
    }
    let mut total = 0;
    if listed.is_set() {
        if listed.len() > INDEXES_LENGTH {
            errors.push(listed.too_long(INDEXES_LENGTH));
        }
        match indexes::count(listed.text(), completions) {
            Ok(count) => total = count,
            Err(reason) => {
                errors.push(listed.invalid(format!("error parsing succeededIndexes: {reason}")));
            }
        }
    }
    let Some(number) = count.number() else { return };
    let mut refuse = |detail: String| errors.push(count.invalid(detail));
    if number < 0 {
        refuse(NOT_NEGATIVE.to_owned());
    }
    if number > completions {
        refuse(format!("must be less than or equal to {completions} (the number of specified completions)"));
    }
    if listed.is_set() && number > total {
        refuse(format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        ));
    }
}

/// Checks `podReplacementPolicy`.
pub(super) fn replacement(errors: &mut Errors, spec: &FieldValue<'_>) {
    let Some(policy) = spec.given("podReplacementPolicy") else { return };
    let supported: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !supported.contains(&policy.text()) {
        errors.push(policy.unsupported(supported));
    }
}
