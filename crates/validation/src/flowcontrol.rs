//! FlowSchemas and PriorityLevelConfigurations.

// upstream: pkg/apis/flowcontrol/validation/validation.go

mod mandatory;

use std::collections::HashSet;

use atoll_meta::{FieldError, FieldPath, names, object};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::go_json;

pub(crate) static SCHEMAS: Checks = Checks {
    create: schema,
    update: |new, _| schema(new),
    subresource: |name, new, _| if name == "status" { conditions(new) } else { Errors::new() },
};

pub(crate) static LEVELS: Checks = Checks {
    create: level,
    update: |new, _| level(new),
    subresource: |name, new, _| if name == "status" { conditions(new) } else { Errors::new() },
};

const LAST_PRECEDENCE: i64 = 10_000;
const MAX_QUEUES: i64 = 10_000_000;
const HASH_BITS: f64 = 60.0;
const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const ZERO_SHARES: &str = "flowcontrol.k8s.io/preserve-zero-concurrency-shares";

fn conditions(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut seen = HashSet::new();
    for condition in FieldValue::field(object, "status").get("conditions").items() {
        let kind = condition.get("type");
        if !seen.insert(kind.text()) {
            errors.push(FieldError::duplicate(&kind.path, kind.named()));
        }
        if kind.is_empty() {
            errors.push(kind.required(""));
        }
    }
    errors
}

fn schema(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, name) = (FieldValue::field(object, "spec"), object::name(object));
    let precedence = spec.get("matchingPrecedence");
    let number = precedence.number().unwrap_or_default();
    let mut wrong = |detail: String| errors.push(precedence.invalid_as(number, detail));
    if number <= 0 {
        wrong("must be a positive value".to_owned());
    }
    if number > LAST_PRECEDENCE {
        wrong(format!("must not be greater than {LAST_PRECEDENCE}"));
    }
    if number == 1 && name != "exempt" {
        wrong("only the schema named 'exempt' may have matchingPrecedence 1".to_owned());
    }
    let method = spec.get("distinguisherMethod");
    let methods = &["ByNamespace", "ByUser"];
    if method.is_set() && !methods.contains(&method.text_of("type")) {
        let rendered = go_json::value("flowcontrol/v1.FlowDistinguisherMethod", method.value);
        errors.push(FieldError::not_supported(&method.get("type").path, rendered, methods));
    }
    let level = spec.get("priorityLevelConfiguration").get("name");
    if level.is_empty() {
        errors.push(level.required("must reference a priority level"));
    } else {
        level.rules(&mut errors, names::dns1123_subdomain(level.text()));
    }
    for rule in spec.get("rules").items() {
        rules_with_subjects(&mut errors, &rule);
    }
    if mandatory::schema(name).is_some_and(|fixed| fixed != spec.value) {
        let rendered = go_json::value("flowcontrol/v1.FlowSchemaSpec", spec.value);
        errors.push(spec.invalid_as(rendered, format!("spec of '{name}' must equal the fixed value")));
    }
    errors.extend(conditions(object));
    errors
}

fn rules_with_subjects(errors: &mut Errors, field: &FieldValue<'_>) {
    let subjects = field.get("subjects");
    if subjects.is_empty() {
        errors.push(subjects.required("subjects must contain at least one value"));
    }
    for subject in subjects.items() {
        self::subject(errors, &subject);
    }
    let (resources, others) = (field.get("resourceRules"), field.get("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(field.required(detail));
    }
    for rule in resources.items() {
        resource_rule(errors, &rule);
    }
    for rule in others.items() {
        verbs(errors, &rule.get("verbs"));
        let urls = rule.get("nonResourceURLs");
        if urls.is_empty() {
            errors.push(urls.required("nonResourceURLs must contain at least one value"));
        } else if !wildcard_only(errors, &urls, "non-resource URLs") {
            for url in urls.items() {
                errors.extend(url_error(url.text()).map(|detail| url.invalid_as(url.text(), detail)));
            }
        }
    }
}

/// Kinds of subjects and the fields that describe them.
const SUBJECTS: [(&str, &str); 3] =
    [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

fn subject(errors: &mut Errors, at: &FieldValue<'_>) {
    let kind = at.get("kind");
    let Some((_, field)) = SUBJECTS.into_iter().find(|(name, _)| *name == kind.text()) else {
        errors.push(kind.unsupported(&["Group", "ServiceAccount", "User"]));
        return;
    };
    let described = at.get(field);
    let name = described.get("name");
    if !described.is_set() {
        errors
            .push(described.required(format!("{field} is required when subject kind is '{}'", kind.text())));
    } else if name.is_empty() {
        errors.push(name.required(""));
    } else if field == "serviceAccount" && name.text() != "*" {
        name.rules(errors, names::dns1123_subdomain(name.text()));
    }
    if described.is_set() && field == "serviceAccount" {
        let namespace = described.get("namespace");
        if namespace.is_empty() {
            errors.push(namespace.required("must specify namespace for service account"));
        } else {
            namespace.rules(errors, names::dns1123_label(namespace.text()));
        }
    }
    // Upstream checks the other fields in this order.
    let others = match field {
        "serviceAccount" => [SUBJECTS[1], SUBJECTS[2]],
        "user" => [SUBJECTS[0], SUBJECTS[2]],
        _ => [SUBJECTS[0], SUBJECTS[1]],
    };
    for (name, other) in others.into_iter().filter(|(_, other)| at.has(other)) {
        let detail = format!("{other} is forbidden when subject kind is not '{name}'");
        errors.push(at.get(other).forbidden(detail));
    }
}

/// Whether a list contains the wildcard, which must then be the only element.
fn wildcard_only(errors: &mut Errors, list: &FieldValue<'_>, what: &str) -> bool {
    let found = list.texts().any(|text| text == "*");
    if found && list.len() > 1 {
        errors.push(list.invalid(format!("if '*' is present, must not specify other {what}")));
    }
    found
}

fn verbs(errors: &mut Errors, verbs: &FieldValue<'_>) {
    if verbs.is_empty() {
        errors.push(verbs.required("verbs must contain at least one value"));
    } else if !wildcard_only(errors, verbs, "verbs") && verbs.texts().any(|verb| !VERBS.contains(&verb)) {
        errors.push(FieldError::not_supported(&verbs.path, verbs.value.clone(), VERBS));
    }
}

fn resource_rule(errors: &mut Errors, rule: &FieldValue<'_>) {
    verbs(errors, &rule.get("verbs"));
    for (field, what, many) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let list = rule.get(field);
        if list.is_empty() {
            errors.push(list.required(format!("resource rules must supply at least one {what}")));
        } else {
            wildcard_only(errors, &list, many);
        }
    }
    let namespaces = rule.get("namespaces");
    if namespaces.is_empty() && !rule.get("clusterScope").flag() {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(namespaces.required(detail));
    } else if !wildcard_only(errors, &namespaces, "namespaces") {
        for namespace in namespaces.items() {
            let broken = names::dns1123_label(namespace.text()).into_iter();
            let intro = "each member of this list must be '*' or a DNS-1123 label; ";
            namespace.rules(errors, broken.map(|rule| format!("{intro}{rule}")).collect());
        }
    }
}

fn url_error(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    if path.is_empty() {
        Some("must not be empty")
    } else if path == "/" {
        None
    } else if !path.starts_with('/') {
        Some("must start with slash")
    } else if path.contains(' ') {
        Some("must not contain white-space")
    } else if path.contains("//") {
        Some("must not contain double slash")
    } else if stars > 1 || (stars == 1 && !path.ends_with("/*")) {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}

fn level(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, name) = (FieldValue::field(object, "spec"), object::name(object));
    if object::annotation(object, ZERO_SHARES).is_some() {
        let path = FieldPath::new("metadata").child("annotations");
        errors.push(FieldError::forbidden(&path, format!("annotation '{ZERO_SHARES}' is forbidden")));
    }
    let (kind, limited, exempt) = (spec.get("type"), spec.get("limited"), spec.get("exempt"));
    if (name == "exempt") != (kind.text() == "Exempt") {
        errors.push(kind.invalid_as(kind.named(), "must be 'Exempt' if and only if `name` is 'exempt'"));
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                errors.push(limited.forbidden("must be nil if the type is not Limited"));
            }
            shares(&mut errors, &exempt);
            lendable(&mut errors, &exempt);
        }
        "Limited" => {
            if exempt.is_set() {
                errors.push(exempt.forbidden("must be nil if the type is Limited"));
            }
            if limited.is_set() {
                self::limited(&mut errors, &limited);
            } else {
                errors.push(limited.required("must not be empty when type is Limited"));
            }
        }
        _ => kind.one_of(&mut errors, &["Exempt", "Limited"]),
    }
    if let Some((fixed, detail)) = mandatory::level(name) {
        let mut actual = spec.value.clone();
        if name == "exempt" {
            actual["exempt"] = fixed["exempt"].clone();
        }
        if actual != *fixed {
            let rendered = go_json::value("flowcontrol/v1.PriorityLevelConfigurationSpec", spec.value);
            errors.push(spec.invalid_as(rendered, detail));
        }
    }
    errors.extend(conditions(object));
    errors
}

fn shares(errors: &mut Errors, field: &FieldValue<'_>) {
    let shares = field.get("nominalConcurrencyShares");
    if shares.number().is_some_and(|number| number < 0) {
        errors.push(shares.invalid("must be a non-negative integer"));
    }
}

fn lendable(errors: &mut Errors, field: &FieldValue<'_>) {
    let percent = field.get("lendablePercent");
    if percent.number().is_some_and(|number| !(0..=100).contains(&number)) {
        errors.push(percent.invalid("must be between 0 and 100, inclusive"));
    }
}

fn limited(errors: &mut Errors, field: &FieldValue<'_>) {
    shares(errors, field);
    let response = field.get("limitResponse");
    let (kind, queuing) = (response.get("type"), response.get("queuing"));
    match kind.text() {
        "Reject" if queuing.is_set() => {
            errors.push(queuing.forbidden("must be nil if limited.limitResponse.type is not Limited"));
        }
        "Queue" if !queuing.is_set() => {
            errors.push(queuing.required("must not be empty if limited.limitResponse.type is Limited"));
        }
        "Queue" => self::queuing(errors, &queuing),
        _ => kind.one_of(errors, &["Queue", "Reject"]),
    }
    lendable(errors, field);
    let borrowing = field.get("borrowingLimitPercent");
    if borrowing.number().is_some_and(|percent| percent < 0) {
        errors.push(borrowing.invalid("if specified, must be a non-negative integer"));
    }
}

fn queuing(errors: &mut Errors, at: &FieldValue<'_>) {
    let parts = ["queueLengthLimit", "queues", "handSize"].map(|field| at.get(field));
    let [length, queues, hand] = parts.each_ref().map(|part| part.number().unwrap_or_default());
    let positive = "must be positive";
    if length <= 0 {
        errors.push(parts[0].invalid_as(length, positive));
    }
    if queues <= 0 {
        errors.push(parts[1].invalid_as(queues, positive));
    } else if queues > MAX_QUEUES {
        errors.push(parts[1].invalid_as(queues, format!("must not be greater than {MAX_QUEUES}")));
    }
    if hand <= 0 {
        errors.push(parts[2].invalid_as(hand, positive));
    } else if hand > queues {
        errors.push(parts[2].invalid_as(hand, format!("should not be greater than queues ({queues})")));
    } else if entropy(queues, hand) > HASH_BITS {
        errors.push(parts[2].invalid_as(
            hand,
            format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
            ),
        ));
    }
}

#[allow(clippy::cast_precision_loss)]
fn entropy(queues: i64, hand: i64) -> f64 {
    ((queues as f64).log2() * hand as f64).ceil()
}
