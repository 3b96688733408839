//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings. Expressions are not compiled.

// upstream: pkg/apis/admissionregistration/validation/validation.go

use std::collections::HashSet;

use atoll_meta::{names, object};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue, equal};
use crate::webhooks::{match_conditions, optional, rules};
use crate::{conditions, go_json};

pub(crate) static VALIDATING: Checks = Checks {
    create: |policy| validating(policy, None),
    update: |new, old| validating(new, Some(old)),
    subresource: |name, new, _| if name == "status" { status(new) } else { Errors::new() },
};

pub(crate) static MUTATING: Checks = Checks {
    create: |policy| mutating(policy, None),
    update: |new, old| mutating(new, Some(old)),
    ..Checks::NONE
};

pub(crate) static VALIDATING_BINDINGS: Checks =
    Checks { create: validating_binding, update: |new, _| validating_binding(new), ..Checks::NONE };

pub(crate) static MUTATING_BINDINGS: Checks =
    Checks { create: mutating_binding, update: |new, _| mutating_binding(new), ..Checks::NONE };

const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_LENGTH: usize = 5 * 1024;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

/// Checks the fields that both kinds of policies share, up to their variables.
fn common_fields(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&Value>, is_mutating: bool) {
    let (policy, kind, constraints) =
        (spec.get("failurePolicy"), spec.get("paramKind"), spec.get("matchConstraints"));
    if !policy.is_set() {
        errors.push(policy.required(""));
    }
    optional(errors, &policy, rules::FAILURE_POLICIES);
    if kind.is_set() {
        param_kind(errors, &kind);
    }
    if constraints.is_set() {
        match_resources(errors, &constraints);
        let resources = constraints.get("resourceRules");
        if resources.is_empty() {
            errors.push(resources.required(""));
        }
        if is_mutating {
            mutating_operations(errors, &constraints);
        }
    } else {
        errors.push(constraints.required(""));
    }
    let kept = old.is_some_and(|old| {
        let before = FieldValue::field(old, "spec");
        ["paramKind", "matchConditions"]
            .iter()
            .all(|field| equal(spec.get(field).value, before.get(field).value))
    });
    if !kept {
        match_conditions(errors, &spec.get("matchConditions"));
    }
    for variable in spec.get("variables").items() {
        let (name, expression) = (variable.get("name"), variable.get("expression"));
        if name.text().trim().is_empty() {
            errors.push(name.required("name is not specified"));
        } else if !is_identifier(name.text()) {
            errors.push(name.invalid("must be a valid CEL identifier"));
        }
        if expression.text().trim().is_empty() {
            errors.push(expression.required("expression is not specified"));
        }
    }
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !atoll_cel::is_reserved(name)
}

fn validating(policy: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(policy, "spec");
    common_fields(&mut errors, &spec, old, false);
    let (validations, annotations) = (spec.get("validations"), spec.get("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.extend([validations.required(detail), annotations.required(detail)]);
        return errors;
    }
    for validation in validations.items() {
        self::validation(&mut errors, &validation);
    }
    if annotations.len() > MAX_ANNOTATIONS {
        let list: Vec<String> = annotations
            .list()
            .iter()
            .map(|annotation| go_json::text("admissionregistration/v1.AuditAnnotation", annotation))
            .collect();
        let rendered = atoll_meta::field::BadValue::Rendered(format!("[{}]", list.join(",")));
        let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        errors.push(annotations.invalid_as(rendered, detail));
    }
    let mut seen = HashSet::new();
    for annotation in annotations.items() {
        let (key, value) = (annotation.get("key"), annotation.get("valueExpression"));
        let name = object::name(policy);
        if name.is_empty() {
            errors.push(key.invalid_as(key.text(), "requires metadata.name be non-empty"));
        } else {
            let full = format!("{name}/{}", key.text());
            let broken = names::qualified_name(&full);
            errors.extend(broken.into_iter().map(|rule| key.invalid_as(full.as_str(), rule)));
        }
        let expression = value.text().trim();
        if expression.is_empty() {
            errors.push(value.required("valueExpression is not specified"));
        } else if expression.len() > MAX_ANNOTATION_LENGTH {
            errors.push(value.required(format!("must not exceed {MAX_ANNOTATION_LENGTH} bytes in length")));
        }
        if !seen.insert(key.text()) {
            errors.push(key.duplicate());
        }
    }
    errors
}

fn validation(errors: &mut Errors, field: &FieldValue<'_>) {
    let (expression, message) = (field.get("expression"), field.get("message"));
    if expression.text().trim().is_empty() {
        errors.push(expression.required("expression is not specified"));
    }
    let empty = "must be non-empty if specified";
    let computed = field.get("messageExpression");
    if !computed.is_empty() && computed.text().trim().is_empty() {
        errors.push(computed.invalid(empty));
    }
    let trimmed = message.text().trim();
    if !message.is_empty() && trimmed.is_empty() {
        errors.push(message.invalid(empty));
    } else if trimmed.contains(['\n', '\r']) {
        errors.push(message.invalid("must not contain line breaks"));
    }
    optional(errors, &field.get("reason"), REASONS);
}

fn mutating(policy: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(policy, "spec");
    common_fields(&mut errors, &spec, old, true);
    let (mutations, reinvocation) = (spec.get("mutations"), spec.get("reinvocationPolicy"));
    if mutations.is_empty() {
        errors.push(mutations.required("mutations must contain at least one item"));
    }
    for mutation in mutations.items() {
        self::mutation(&mut errors, &mutation);
    }
    reinvocation.one_of(&mut errors, rules::REINVOCATION_POLICIES);
    errors
}

fn mutation(errors: &mut Errors, field: &FieldValue<'_>) {
    let kind = field.get("patchType");
    let (expected, other) = match kind.text() {
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => return kind.one_of(errors, &["ApplyConfiguration", "JSONPatch"]),
    };
    let patch = field.get(expected);
    if !patch.is_set() {
        errors.push(patch.required(format!("must be specified when patchType is {}", kind.text())));
    } else if patch.text_of("expression").trim().is_empty() {
        errors.push(patch.get("expression").required(""));
    }
    if field.has(other) {
        let detail = format!("must not be specified when patchType is {}", kind.text());
        errors.push(field.get(other).invalid_as(format!("{{{other}}}"), detail));
    }
}

fn param_kind(errors: &mut Errors, field: &FieldValue<'_>) {
    let (version, kind) = (field.get("apiVersion"), field.get("kind"));
    if version.is_empty() {
        errors.push(version.required(""));
    } else {
        api_version(errors, &version);
    }
    if kind.is_empty() {
        errors.push(kind.required(""));
        return;
    }
    let broken = names::dns1035_label(&kind.text().to_lowercase());
    if !broken.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", broken.join(","));
        errors.push(kind.invalid(detail));
    }
}

fn api_version(errors: &mut Errors, field: &FieldValue<'_>) {
    let (group, version) = match field.text() {
        "/" => ("", ""),
        text => match text.matches('/').count() {
            0 => ("", text),
            1 => text.split_once('/').unwrap_or_default(),
            _ => {
                errors.push(field.invalid(format!("unexpected GroupVersion string: {text}")));
                return;
            }
        },
    };
    let mut part = |value: &str, broken: Vec<String>| {
        if !broken.is_empty() {
            errors.push(field.invalid_as(value, broken.join(",")));
        }
    };
    if !group.is_empty() {
        part(group, names::dns1123_subdomain(group));
    }
    if version.is_empty() {
        part(field.text(), vec!["version must be specified".to_owned()]);
    } else {
        part(version, names::dns1035_label(version));
    }
}

fn match_resources(errors: &mut Errors, field: &FieldValue<'_>) {
    let policy = field.get("matchPolicy");
    if !policy.is_set() {
        errors.push(policy.required(""));
    }
    optional(errors, &policy, rules::MATCH_POLICIES);
    for selector in [field.get("namespaceSelector"), field.get("objectSelector")] {
        if selector.is_set() {
            errors.extend(object::validate_label_selector(selector.value, &selector.path));
        } else {
            errors.push(selector.required(""));
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in field.get(list).items() {
            let mut seen = HashSet::new();
            for name in rule.get("resourceNames").items() {
                name.rules(errors, names::path_segment_name(name.text()));
                if !seen.insert(name.text()) {
                    errors.push(name.duplicate());
                }
            }
            rules::with_operations(errors, &rule);
        }
    }
}

/// Checks operations of a mutating policy: DELETE is not among them, because a deleted object cannot be
/// mutated.
fn mutating_operations(errors: &mut Errors, field: &FieldValue<'_>) {
    let rules = field.get("resourceRules");
    for operation in rules.items().flat_map(|rule| rule.get("operations").items().collect::<Vec<_>>()) {
        if !MUTATING_OPERATIONS.contains(&operation.text()) {
            let field = FieldValue { value: operation.value, path: rules.path.child("operations") };
            errors.push(field.unsupported(MUTATING_OPERATIONS));
        }
    }
}

fn binding(errors: &mut Errors, spec: &FieldValue<'_>) {
    let (name, reference, resources) =
        (spec.get("policyName"), spec.get("paramRef"), spec.get("matchResources"));
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        name.rules(errors, names::dns1123_subdomain(name.text()));
    }
    if reference.is_set() {
        param_ref(errors, &reference);
    }
    if resources.is_set() {
        match_resources(errors, &resources);
    }
}

fn param_ref(errors: &mut Errors, field: &FieldValue<'_>) {
    let (name, selector, action) =
        (field.get("name"), field.get("selector"), field.get("parameterNotFoundAction"));
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        name.rules(errors, names::path_segment_name(name.text()));
        if selector.is_set() {
            errors.push(name.forbidden(exclusive));
        }
    }
    if selector.is_set() {
        errors.extend(object::validate_label_selector(selector.value, &selector.path));
        if !name.is_empty() {
            errors.push(selector.forbidden(exclusive));
        }
    }
    if name.is_empty() && !selector.is_set() {
        errors.push(field.required("one of name or selector must be specified"));
    }
    action.one_of(errors, &["Deny", "Allow"]);
}

fn validating_binding(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(object, "spec");
    binding(&mut errors, &spec);
    let actions = spec.get("validationActions");
    let mut seen = HashSet::new();
    for action in actions.items() {
        if !ACTIONS.contains(&action.text()) {
            errors.push(action.unsupported(ACTIONS));
        }
        if !seen.insert(action.text()) {
            errors.push(action.duplicate());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(actions.invalid(detail));
    }
    if actions.is_empty() {
        errors.push(actions.required("at least one validation action is required"));
    }
    errors
}

fn mutating_binding(object: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(object, "spec");
    binding(&mut errors, &spec);
    mutating_operations(&mut errors, &spec.get("matchResources"));
    errors
}

fn status(policy: &Value) -> Errors {
    let mut errors = Errors::new();
    let status = FieldValue::field(policy, "status");
    for warning in status.get("typeChecking").get("expressionWarnings").items() {
        let (text, field) = (warning.get("warning"), warning.get("fieldRef"));
        if text.is_empty() {
            errors.push(text.required(""));
        }
        if field.text().trim().is_empty() {
            errors.push(field.required(""));
        }
    }
    conditions::check(&mut errors, &status.get("conditions"));
    errors
}
