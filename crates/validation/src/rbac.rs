//! Roles and their bindings.

// upstream: pkg/apis/rbac/validation/validation.go

use atoll_meta::field::BadValue;
use atoll_meta::{LabelSelector, names, object};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::selectors;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) static ROLES: Checks =
    Checks { create: |role| rules(role, true), update: |new, _| rules(new, true), ..Checks::NONE };

pub(crate) static CLUSTER_ROLES: Checks = Checks {
    create: |role| cluster_role(role, None),
    update: |new, old| cluster_role(new, Some(old)),
    ..Checks::NONE
};

pub(crate) static ROLE_BINDINGS: Checks = Checks {
    create: |binding| validate_binding(binding, true),
    update: |new, old| validate_binding_update(new, old, true),
    ..Checks::NONE
};

pub(crate) static CLUSTER_ROLE_BINDINGS: Checks = Checks {
    create: |binding| validate_binding(binding, false),
    update: |new, old| validate_binding_update(new, old, false),
    ..Checks::NONE
};

fn rules(role: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    for rule in FieldValue::field(role, "rules").items() {
        rule_of(&mut errors, &rule, namespaced);
    }
    errors
}

fn rule_of(errors: &mut Errors, rule: &FieldValue<'_>, namespaced: bool) {
    let verbs = rule.get("verbs");
    if verbs.is_empty() {
        errors.push(verbs.required("verbs must contain at least one value"));
    }
    let urls = rule.get("nonResourceURLs");
    if !urls.is_empty() {
        if namespaced {
            errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !rule.get(field).is_empty()) {
            errors.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return;
    }
    let (groups, resources) = (rule.get("apiGroups"), rule.get("resources"));
    if groups.is_empty() {
        errors.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.is_empty() {
        errors.push(resources.required("resource rules must supply at least one resource"));
    }
}

fn cluster_role(role: &Value, old: Option<&Value>) -> Errors {
    let mut errors = rules(role, false);
    let aggregation = FieldValue::field(role, "aggregationRule");
    if !aggregation.is_set() {
        return errors;
    }
    let selectors = aggregation.get("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(selectors.required(detail));
    }
    let old = old.map(|old| FieldValue::field(old, "aggregationRule").get("clusterRoleSelectors"));
    let lenient = old.is_some_and(|old| old.items().any(|selector| selectors::has_bad_value(&selector)));
    for selector in selectors.items() {
        if lenient {
            selectors::without_values(&mut errors, &selector);
        } else {
            errors.extend(object::validate_label_selector(selector.value, &selector.path));
        }
        if LabelSelector::from_object(selector.value).is_err() {
            errors.push(selector.invalid_as(Value::Null, "invalid label selector."));
        }
    }
    errors
}

fn validate_binding(binding: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    let reference = FieldValue::field(binding, "roleRef");
    let (group, kind, name) = (reference.get("apiGroup"), reference.get("kind"), reference.get("name"));
    if group.text() != GROUP {
        errors.push(group.unsupported_text(&[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind.text()) {
        errors.push(kind.unsupported_text(kinds));
    }
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        name.rules(&mut errors, names::path_segment_name(name.text()));
    }
    for subject in FieldValue::field(binding, "subjects").items() {
        self::subject(&mut errors, &subject, namespaced);
    }
    errors
}

fn subject(errors: &mut Errors, subject: &FieldValue<'_>, namespaced: bool) {
    let (name, group, kind) = (subject.get("name"), subject.get("apiGroup"), subject.get("kind"));
    if name.is_empty() {
        errors.push(name.required(""));
    }
    match kind.text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                name.rules(errors, names::dns1123_subdomain(name.text()));
            }
            if !group.is_empty() {
                errors.push(group.unsupported_text(&[""]));
            }
            if !namespaced && subject.text_of("namespace").is_empty() {
                errors.push(subject.get("namespace").required(""));
            }
        }
        "User" | "Group" => {
            if group.text() != GROUP {
                errors.push(group.unsupported_text(&[GROUP]));
            }
        }
        _ => errors.push(kind.unsupported_text(&["ServiceAccount", "User", "Group"])),
    }
}

fn validate_binding_update(new: &Value, old: &Value, namespaced: bool) -> Errors {
    let mut errors = validate_binding(new, namespaced);
    let (reference, before) = (FieldValue::field(new, "roleRef"), FieldValue::field(old, "roleRef"));
    let parts = ["apiGroup", "kind", "name"];
    if parts.iter().any(|part| reference.text_of(part) != before.text_of(part)) {
        let [group, kind, name] = parts.map(|part| BadValue::named_text(reference.text_of(part)));
        let rendered = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        errors.push(reference.invalid_as(BadValue::Rendered(rendered), "cannot change roleRef"));
    }
    errors
}
