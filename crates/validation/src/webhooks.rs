//! Webhook configurations, and the rules that they share with admission policies.

// upstream: pkg/apis/admissionregistration/validation/validation.go

mod client;
mod expressions;
pub(crate) mod rules;

pub(crate) use client::{service, url};

use std::collections::HashSet;

use atoll_meta::{FieldError, names, object};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::selectors;

pub(crate) static VALIDATING: Checks = Checks {
    create: |configuration| validate(configuration, &ValidationOptions::ALL, false),
    update: |new, old| validate(new, &ValidationOptions::for_update(new, old), false),
    ..Checks::NONE
};

pub(crate) static MUTATING: Checks = Checks {
    create: |configuration| validate(configuration, &ValidationOptions::ALL, true),
    update: |new, old| validate(new, &ValidationOptions::for_update(new, old), true),
    ..Checks::NONE
};

const REVIEWS: &[&str] = &["v1", "v1beta1"];
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const MAX_CONDITIONS: usize = 64;

/// Validation that is relaxed because the old object already violates it.
struct ValidationOptions {
    conditions: bool,
    no_side_effects: bool,
    known_reviews: bool,
    unique_names: bool,
    label_values: bool,
}

impl ValidationOptions {
    const ALL: ValidationOptions = ValidationOptions {
        conditions: true,
        no_side_effects: true,
        known_reviews: true,
        unique_names: true,
        label_values: true,
    };

    fn for_update(new: &Value, old: &Value) -> ValidationOptions {
        let (hooks, before) = (FieldValue::field(new, "webhooks"), FieldValue::field(old, "webhooks"));
        let conditions = |hook: &Value| hook.get("matchConditions").cloned();
        let same_conditions = hooks.len() == before.len()
            && hooks.list().iter().zip(before.list()).all(|(new, old)| conditions(new) == conditions(old));
        let mut names = HashSet::new();
        let bad_selector = |hook: FieldValue<'_>| {
            ["namespaceSelector", "objectSelector"].iter().map(|field| hook.get(field)).any(|selector| {
                selector.is_set()
                    && !object::validate_label_selector(selector.value, &selector.path).is_empty()
            })
        };
        ValidationOptions {
            conditions: !same_conditions,
            no_side_effects: before
                .items()
                .all(|hook| NO_SIDE_EFFECTS.contains(&hook.text_of("sideEffects"))),
            known_reviews: before.items().all(|hook| {
                let versions = hook.get("admissionReviewVersions");
                versions.is_empty() || versions.texts().any(|version| REVIEWS.contains(&version))
            }),
            unique_names: before.items().all(|hook| names.insert(hook.text_of("name"))),
            label_values: !before.items().any(bad_selector),
        }
    }
}

fn validate(configuration: &Value, options: &ValidationOptions, mutating: bool) -> Errors {
    let mut errors = Errors::new();
    let mut seen = HashSet::new();
    for hook in FieldValue::field(configuration, "webhooks").items() {
        self::hook(&mut errors, &hook, options, mutating);
        reviews(&mut errors, &hook.get("admissionReviewVersions"), options.known_reviews);
        let name = hook.get("name");
        if options.unique_names && !name.is_empty() && !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
    errors
}

fn hook(errors: &mut Errors, hook: &FieldValue<'_>, options: &ValidationOptions, mutating: bool) {
    let name = hook.get("name");
    errors.extend(names::fully_qualified_name(&name.path, name.text()));
    for rule in hook.get("rules").items() {
        rules::with_operations(errors, &rule);
    }
    optional(errors, &hook.get("failurePolicy"), rules::FAILURE_POLICIES);
    optional(errors, &hook.get("matchPolicy"), rules::MATCH_POLICIES);
    let effects = hook.get("sideEffects");
    let allowed = if options.no_side_effects { NO_SIDE_EFFECTS } else { SIDE_EFFECTS };
    if !effects.is_set() {
        errors.push(effects.required(format!("must specify one of {}", allowed.join(", "))));
    }
    optional(errors, &effects, allowed);
    let timeout = hook.get("timeoutSeconds");
    if timeout.number().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    for selector in [hook.get("namespaceSelector"), hook.get("objectSelector")] {
        if selector.is_set() {
            selectors::check(errors, &selector, !options.label_values);
        }
    }
    if mutating {
        optional(errors, &hook.get("reinvocationPolicy"), rules::REINVOCATION_POLICIES);
    }
    let client = hook.get("clientConfig");
    let (url, service) = (client.get("url"), client.get("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => client::url(errors, &url),
        (false, true) => client::service(errors, &service),
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
    if options.conditions {
        let conditions = hook.get("matchConditions");
        each_condition(errors, &conditions, expressions::check);
    }
}

/// Checks that a string of a named type is absent or one of these values.
pub(crate) fn optional(errors: &mut Errors, field: &FieldValue<'_>, known: &[&str]) {
    if field.is_set() && !known.contains(&field.text()) {
        errors.push(field.unsupported(known));
    }
}

/// Checks match conditions, without compiling their expressions.
pub(crate) fn match_conditions(errors: &mut Errors, conditions: &FieldValue<'_>) {
    each_condition(errors, conditions, |_, _| {});
}

fn each_condition(errors: &mut Errors, conditions: &FieldValue<'_>, check: fn(&mut Errors, &FieldValue<'_>)) {
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(&conditions.path, conditions.len(), MAX_CONDITIONS));
    }
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let (expression, name) = (condition.get("expression"), condition.get("name"));
        if expression.text().trim().is_empty() {
            errors.push(expression.required(""));
        } else {
            check(errors, &expression);
        }
        if name.is_empty() {
            errors.push(name.required(""));
        } else {
            name.rules(errors, names::qualified_name(name.text()));
            if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
        }
    }
}

fn reviews(errors: &mut Errors, versions: &FieldValue<'_>, known: bool) {
    if versions.is_empty() {
        errors.push(versions.required(format!("must specify one of {}", REVIEWS.join(", "))));
        return;
    }
    self::versions(errors, versions, known);
}

/// Checks versions of reviews: at least one is required, and if `known`, a supported one.
pub(crate) fn versions(errors: &mut Errors, versions: &FieldValue<'_>, known: bool) {
    let mut seen = HashSet::new();
    for version in versions.items() {
        if seen.insert(version.text()) {
            version.rules(errors, names::dns1035_label(version.text()));
        } else {
            errors.push(version.invalid("duplicate version"));
        }
    }
    if known && !versions.texts().any(|version| REVIEWS.contains(&version)) {
        errors.push(versions.invalid(format!("must include at least one of {}", REVIEWS.join(", "))));
    }
}
