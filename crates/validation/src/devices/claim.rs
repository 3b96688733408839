//! What a claim asks for.

use atoll_meta::FieldError;
use atoll_meta::field::BadValue;
use serde_json::Value;

use super::{
    MOST_CONFIGURATIONS, MOST_REQUESTS, MOST_SELECTORS, configuration, listed, named, names, unique,
};
use crate::at::{At, Errors};
use crate::fields::{Fields, broken_rules};

const MOST_CONSTRAINTS: usize = 32;
const MOST_ALTERNATIVES: usize = 8;
pub(super) const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

pub(super) fn check(errors: &mut Errors, spec: &At<'_>) {
    let devices = spec.get("devices");
    let requests = devices.get("requests");
    let known = Requests(requests.list());
    named(errors, &requests, MOST_REQUESTS, "name", request);
    listed(errors, &devices.get("constraints"), MOST_CONSTRAINTS, |errors, one| {
        constraint(errors, one, &known);
    });
    listed(errors, &devices.get("config"), MOST_CONFIGURATIONS, |errors, one| {
        known.check_list(errors, &one.get("requests"));
        configuration::check(errors, one, false);
    });
}

/// The requests of a claim, which other parts of it refer to.
pub(super) struct Requests<'a>(pub &'a [Value]);

impl Requests<'_> {
    /// References to requests, each once.
    pub fn check_list(&self, errors: &mut Errors, list: &At<'_>) {
        if listed(errors, list, MOST_REQUESTS, |errors, one| self.check(errors, one)) {
            unique(errors, list, At::text, BadValue::from);
        }
    }

    /// A reference to a request: its name, or that and the name of one of its alternatives.
    pub fn check(&self, errors: &mut Errors, reference: &At<'_>) {
        const WORDS: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let text = reference.text();
        let mut parts = text.split('/');
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        if parts.next().is_some() {
            errors.push(reference.invalid_as(text, WORDS));
            return;
        }
        for part in std::iter::once(first).chain(second) {
            let rules = atoll_meta::names::dns1123_label(part);
            broken_rules(errors, || reference.path.clone(), part, rules);
        }
        if !self.has(first, second) {
            errors.push(reference.invalid_as(text, WORDS));
        }
    }

    fn has(&self, name: &str, alternative: Option<&str>) -> bool {
        let request = self.0.iter().rfind(|request| request.text("name") == name);
        request.is_some_and(|request| {
            alternative.is_none_or(|wanted| {
                request.list("firstAvailable").iter().any(|one| one.text("name") == wanted)
            })
        })
    }
}

fn request(errors: &mut Errors, request: &At<'_>) {
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
        (false, true) => named(errors, &alternatives, MOST_ALTERNATIVES, "name", |errors, one| {
            names::label(errors, &one.get("name"));
            wanted(errors, one);
        }),
        (true, false) => wanted(errors, &exactly),
    }
}

/// What a request, or one alternative of it, wants.
fn wanted(errors: &mut Errors, request: &At<'_>) {
    let class = request.get("deviceClassName");
    if class.is_empty() {
        errors.push(class.required(""));
    } else {
        class.rules(errors, atoll_meta::names::dns1123_subdomain(class.text()));
    }
    listed(errors, &request.get("selectors"), MOST_SELECTORS, configuration::selector);
    allocation_mode(errors, request);
    for toleration in request.get("tolerations").items() {
        check_toleration(errors, &toleration);
    }
}

fn allocation_mode(errors: &mut Errors, request: &At<'_>) {
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

fn check_toleration(errors: &mut Errors, toleration: &At<'_>) {
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

fn constraint(errors: &mut Errors, constraint: &At<'_>, known: &Requests<'_>) {
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
