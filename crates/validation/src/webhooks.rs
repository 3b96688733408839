//! Configurations of webhooks, and the rules that they share with policies.

mod client;
mod expressions;
pub(crate) mod rules;

pub(crate) use client::{service, url};

use std::collections::HashSet;

use atoll_meta::{FieldError, names, object};
use serde_json::Value;

use crate::Checks;
use crate::at::{At, Errors};
use crate::selectors;

pub(crate) static VALIDATING: Checks = Checks {
    create: |configuration| whole(configuration, &Demands::ALL, false),
    update: |new, old| whole(new, &Demands::beside(new, old), false),
    ..Checks::NONE
};

pub(crate) static MUTATING: Checks = Checks {
    create: |configuration| whole(configuration, &Demands::ALL, true),
    update: |new, old| whole(new, &Demands::beside(new, old), true),
    ..Checks::NONE
};

const REVIEWS: &[&str] = &["v1", "v1beta1"];
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const MOST_CONDITIONS: usize = 64;

/// What is asked of new configurations, but not of old ones that never had it.
struct Demands {
    conditions: bool,
    no_side_effects: bool,
    known_reviews: bool,
    unique_names: bool,
    label_values: bool,
}

impl Demands {
    const ALL: Demands = Demands {
        conditions: true,
        no_side_effects: true,
        known_reviews: true,
        unique_names: true,
        label_values: true,
    };

    fn beside(new: &Value, old: &Value) -> Demands {
        let (hooks, before) = (At::field(new, "webhooks"), At::field(old, "webhooks"));
        let conditions = |hook: &Value| hook.get("matchConditions").cloned();
        let same_conditions = hooks.len() == before.len()
            && hooks.list().iter().zip(before.list()).all(|(new, old)| conditions(new) == conditions(old));
        let mut names = HashSet::new();
        let bad_selector = |hook: At<'_>| {
            ["namespaceSelector", "objectSelector"].iter().map(|field| hook.get(field)).any(|selector| {
                selector.is_set()
                    && !object::validate_label_selector(selector.value, &selector.path).is_empty()
            })
        };
        Demands {
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

fn whole(configuration: &Value, demands: &Demands, mutating: bool) -> Errors {
    let mut errors = Errors::new();
    let mut seen = HashSet::new();
    for hook in At::field(configuration, "webhooks").items() {
        self::hook(&mut errors, &hook, demands, mutating);
        reviews(&mut errors, &hook.get("admissionReviewVersions"), demands.known_reviews);
        let name = hook.get("name");
        if demands.unique_names && !name.is_empty() && !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
    errors
}

fn hook(errors: &mut Errors, hook: &At<'_>, demands: &Demands, mutating: bool) {
    let name = hook.get("name");
    errors.extend(names::fully_qualified_name(&name.path, name.text()));
    for rule in hook.get("rules").items() {
        rules::with_operations(errors, &rule);
    }
    optional(errors, &hook.get("failurePolicy"), rules::FAILURE_POLICIES);
    optional(errors, &hook.get("matchPolicy"), rules::MATCH_POLICIES);
    let effects = hook.get("sideEffects");
    let allowed = if demands.no_side_effects { NO_SIDE_EFFECTS } else { SIDE_EFFECTS };
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
            selectors::check(errors, &selector, !demands.label_values);
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
    if demands.conditions {
        let conditions = hook.get("matchConditions");
        each_condition(errors, &conditions, expressions::check);
    }
}

/// A text of a named type that need not be there.
pub(crate) fn optional(errors: &mut Errors, at: &At<'_>, known: &[&str]) {
    if at.is_set() && !known.contains(&at.text()) {
        errors.push(at.unsupported(known));
    }
}

/// Checks the conditions of a policy, but for their expressions themselves.
pub(crate) fn match_conditions(errors: &mut Errors, conditions: &At<'_>) {
    each_condition(errors, conditions, |_, _| {});
}

fn each_condition(errors: &mut Errors, conditions: &At<'_>, check: fn(&mut Errors, &At<'_>)) {
    if conditions.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many(&conditions.path, conditions.len(), MOST_CONDITIONS));
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

fn reviews(errors: &mut Errors, versions: &At<'_>, known: bool) {
    if versions.is_empty() {
        errors.push(versions.required(format!("must specify one of {}", REVIEWS.join(", "))));
        return;
    }
    self::versions(errors, versions, known);
}

/// Versions of reviews, of which there are some; one of them is to be known.
pub(crate) fn versions(errors: &mut Errors, versions: &At<'_>, known: bool) {
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
