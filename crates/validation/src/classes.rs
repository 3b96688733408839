//! PriorityClasses, RuntimeClasses and Leases.

// upstream: pkg/apis/scheduling/validation/validation.go
// upstream: pkg/apis/node/validation/validation.go
// upstream: pkg/apis/coordination/validation/validation.go

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use atoll_meta::{FieldError, FieldPath, json, names, object};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue, immutable_name, immutable_text};
use crate::pod::placement;
use crate::resources;

pub(crate) static PRIORITY_CLASSES: Checks = Checks {
    create: priority_class,
    update: |new, old| {
        let mut errors = Errors::new();
        let value = FieldValue::field(new, "value");
        if value.number() != FieldValue::field(old, "value").number() {
            errors.push(value.forbidden("may not be changed in an update."));
        }
        let field = "preemptionPolicy";
        immutable_name(&mut errors, &FieldValue::field(new, field), &FieldValue::field(old, field));
        errors
    },
    ..Checks::NONE
};

const HIGHEST_PRIORITY: i64 = 1_000_000_000;
const SYSTEM: &str = "system-";

/// Built-in classes and their values.
const SYSTEM_CLASSES: &[(&str, i64)] = &[
    ("system-node-critical", 2 * HIGHEST_PRIORITY + 1000),
    ("system-cluster-critical", 2 * HIGHEST_PRIORITY),
];

fn priority_class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    let (name, value) = (object::name(class), FieldValue::field(class, "value"));
    let number = value.number().unwrap_or_default();
    if name.starts_with(SYSTEM) {
        let fault = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, known)) if *known != number => {
                Some(format!("value of {name} PriorityClass must be {known}"))
            }
            Some(_) if FieldValue::field(class, "globalDefault").flag() => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        errors.extend(fault.map(|fault| {
            let path = FieldPath::new("metadata").child("name");
            let detail = format!(
                "priority class names with '{SYSTEM}' prefix are reserved for system use only. error: {fault}"
            );
            FieldError::forbidden(&path, detail)
        }));
    } else if number > HIGHEST_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        errors.push(value.forbidden(detail));
    }
    let policy = FieldValue::field(class, "preemptionPolicy");
    if policy.is_set() {
        policy.one_of(&mut errors, &["PreemptLowerPriority", "Never"]);
    }
    errors
}

pub(crate) static RUNTIME_CLASSES: Checks = Checks {
    create: runtime_class,
    update: |new, old| {
        let mut errors = runtime_class(new);
        immutable_text(&mut errors, &FieldValue::field(new, "handler"), &FieldValue::field(old, "handler"));
        errors
    },
    ..Checks::NONE
};

fn runtime_class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    let (handler, overhead) = (FieldValue::field(class, "handler"), FieldValue::field(class, "overhead"));
    if handler.is_empty() {
        errors.push(handler.required(""));
    } else {
        handler.rules(&mut errors, names::dns1123_label(handler.text()));
    }
    if overhead.is_set() {
        let fixed = overhead.get("podFixed");
        resources::check_overhead(&mut errors, &fixed.with_path(overhead.path.clone()));
    }
    let scheduling = FieldValue::field(class, "scheduling");
    let selector = scheduling.get("nodeSelector");
    errors.extend(object::validate_labels(selector.text_entries(), &selector.path));
    let tolerations = scheduling.get("tolerations");
    placement::tolerations(&mut errors, &tolerations);
    let mut seen = HashSet::new();
    for toleration in tolerations.items() {
        let parts = ["key", "operator", "value", "effect"].map(|part| toleration.text_of(part));
        if !seen.insert(parts) {
            let [key, operator, value, effect] = parts.map(BadValue::named_text);
            let seconds = json::to_string(toleration.get("tolerationSeconds").value);
            errors.push(FieldError::duplicate(&toleration.path, BadValue::Rendered(format!(
                "{{\"Key\":{key},\"Operator\":{operator},\"Value\":{value},\"Effect\":{effect},\"TolerationSeconds\":{seconds}}}"
            ))));
        }
    }
    errors
}

pub(crate) static LEASES: Checks = Checks { create: lease, update: |new, _| lease(new), ..Checks::NONE };

fn lease(lease: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(lease, "spec");
    let (duration, transitions) = (spec.get("leaseDurationSeconds"), spec.get("leaseTransitions"));
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        errors.push(duration.invalid("must be greater than 0"));
    }
    if transitions.number().is_some_and(|count| count < 0) {
        errors.push(transitions.invalid("must be greater than or equal to 0"));
    }
    errors
}
