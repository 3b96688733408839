//! The spec of a ResourceClaim.

// upstream: pkg/apis/resource/validation/validation.go

use atoll_meta::FieldError;
use atoll_meta::field::BadValue;
use serde_json::Value;

use super::{MAX_CONFIGURATIONS, MAX_REQUESTS, MAX_SELECTORS, configuration, listed, named, names, unique};
use crate::field_value::{Errors, FieldValue};

const MAX_CONSTRAINTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
pub(super) const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

pub(super) fn check(errors: &mut Errors, spec: &FieldValue<'_>) {
    let devices = spec.get("devices");
    let requests = devices.get("requests");
    let known = Requests(requests.clone());
    named(errors, &requests, MAX_REQUESTS, "name", request);
    listed(errors, &devices.get("constraints"), MAX_CONSTRAINTS, |errors, one| {
        constraint(errors, one, &known);
    });
    listed(errors, &devices.get("config"), MAX_CONFIGURATIONS, |errors, one| {
        known.check_list(errors, &one.get("requests"));
        configuration::check(errors, one, false);
    });
}

/// The requests of a claim, which other parts of it refer to.
pub(super) struct Requests<'a>(pub FieldValue<'a>);

impl Requests<'_> {
    /// Checks references to requests, which must be unique.
    pub fn check_list(&self, errors: &mut Errors, list: &FieldValue<'_>) {
        if listed(errors, list, MAX_REQUESTS, |errors, one| self.check(errors, one)) {
            unique(errors, list, FieldValue::text, BadValue::from);
        }
    }

    /// Checks a reference to a request: its name, optionally followed by the name of a subrequest.
    pub fn check(&self, errors: &mut Errors, reference: &FieldValue<'_>) {
        const WORDS: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let text = reference.text();
        let mut parts = text.split('/');
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        if parts.next().is_some() {
            errors.push(reference.invalid_as(text, WORDS));
            return;
        }
        for part in std::iter::once(first).chain(second) {
            reference.part_rules(errors, part, atoll_meta::names::dns1123_label(part));
        }
        if !self.has(first, second) {
            errors.push(reference.invalid_as(text, WORDS));
        }
    }

    fn has(&self, name: &str, alternative: Option<&str>) -> bool {
        let request = self.0.items().rfind(|request| request.text_of("name") == name);
        request.is_some_and(|request| {
            alternative.is_none_or(|alternative| {
                request.get("firstAvailable").items().any(|one| one.text_of("name") == alternative)
            })
        })
    }
}

fn request(errors: &mut Errors, request: &FieldValue<'_>) {
    names::label(errors, &request.get("name"));
    let (exactly, alternatives) = (request.get("exactly"), request.get("firstAvailable"));
    match (exactly.is_set(), !alternatives.is_empty()) {
        (false, false) => {
            errors.push(request.required("exactly one of `exactly` or `firstAvailable` is required"));
        }
        (true, true) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(request.invalid_as(Value::Null, detail));
        }
        (false, true) => named(errors, &alternatives, MAX_ALTERNATIVES, "name", |errors, one| {
            names::label(errors, &one.get("name"));
            request_fields(errors, one);
        }),
        (true, false) => request_fields(errors, &exactly),
    }
}

/// Checks a request or a subrequest.
fn request_fields(errors: &mut Errors, request: &FieldValue<'_>) {
    let class = request.get("deviceClassName");
    if class.is_empty() {
        errors.push(class.required(""));
    } else {
        class.rules(errors, atoll_meta::names::dns1123_subdomain(class.text()));
    }
    listed(errors, &request.get("selectors"), MAX_SELECTORS, configuration::selector);
    allocation_mode(errors, request);
    for toleration in request.get("tolerations").items() {
        check_toleration(errors, &toleration);
    }
}

fn allocation_mode(errors: &mut Errors, request: &FieldValue<'_>) {
    let (mode, count) = (request.get("allocationMode"), request.get("count"));
    let number = count.number().unwrap_or_default();
    match mode.text() {
        "All" if number != 0 => {
            errors.push(count.invalid_as(number, "must not be specified when allocationMode is 'All'"));
        }
        "ExactCount" if number <= 0 => errors.push(count.invalid_as(number, "must be greater than zero")),
        "All" | "ExactCount" => {}
        _ => errors.push(mode.unsupported(&["All", "ExactCount"])),
    }
}

fn check_toleration(errors: &mut Errors, toleration: &FieldValue<'_>) {
    let (key, value) = (toleration.get("key"), toleration.get("value"));
    if !key.is_empty() {
        names::qualified_label(errors, &key);
    }
    let operator = toleration.get("operator");
    match operator.text() {
        "Exists" if !value.is_empty() => {
            errors.push(value.invalid("must be empty for operator `Exists`"));
        }
        "Exists" => {}
        "Equal" => value.rules(errors, atoll_meta::names::label_value(value.text())),
        _ => operator.one_of(errors, &["Equal", "Exists"]),
    }
    let effect = toleration.get("effect");
    if !effect.is_empty() {
        effect.one_of(errors, EFFECTS);
    }
}

fn constraint(errors: &mut Errors, constraint: &FieldValue<'_>, known: &Requests<'_>) {
    known.check_list(errors, &constraint.get("requests"));
    let (equal, distinct) = (constraint.get("matchAttribute"), constraint.get("distinctAttribute"));
    if equal.is_set() {
        names::fully_qualified(errors, &equal);
    } else if distinct.is_set() {
        names::fully_qualified(errors, &distinct);
    } else {
        let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        errors.push(FieldError::required(&constraint.path, detail));
    }
}
