//! Ingresses and IngressClasses.

// upstream: pkg/apis/networking/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names, object};
use serde_json::Value;

use crate::Checks;
use crate::addresses::{legacy, parse};
use crate::field_value::{Errors, FieldValue, immutable_text};
use crate::service::host_name;

pub(crate) static INGRESSES: Checks = Checks {
    create: |ingress| {
        let mut errors = validate(ingress, &ValidationOptions::default());
        let class = FieldValue::field(ingress, "spec").get("ingressClassName");
        if let Some(annotation) = object::annotation(ingress, CLASS_ANNOTATION)
            && class.is_set()
            && annotation != class.text()
        {
            let path = FieldPath::new("annotations").child(CLASS_ANNOTATION);
            let detail = "must match `ingressClassName` when both are specified";
            errors.push(FieldError::invalid(&path, annotation, detail));
        }
        errors
    },
    update: |new, old| validate(new, &ValidationOptions::for_update(old)),
    subresource: |name, new, old| if name == "status" { status(new, old) } else { Errors::new() },
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const MAX_CONTROLLER_LENGTH: usize = 250;

/// Validation that is relaxed because the old object already violates it.
#[derive(Default)]
struct ValidationOptions {
    secret_names: bool,
    wildcard_rules: bool,
}

impl ValidationOptions {
    fn for_update(old: &Value) -> ValidationOptions {
        let spec = FieldValue::field(old, "spec");
        let bad_secret = |tls: FieldValue<'_>| {
            let name = tls.text_of("secretName");
            !name.is_empty() && !names::dns1123_subdomain(name).is_empty()
        };
        let bad_rule = |rule: FieldValue<'_>| {
            let mut errors = Errors::new();
            if rule.text_of("host").contains('*') {
                rule_value(&mut errors, &rule);
            }
            !errors.is_empty()
        };
        ValidationOptions {
            secret_names: spec.get("tls").items().any(bad_secret),
            wildcard_rules: spec.get("rules").items().any(bad_rule),
        }
    }
}

fn host_rules(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_dns1123_subdomain(host) } else { names::dns1123_subdomain(host) }
}

fn validate(ingress: &Value, options: &ValidationOptions) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(ingress, "spec");
    let (rules, default) = (spec.get("rules"), spec.get("defaultBackend"));
    if rules.is_empty() && !default.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(spec.invalid_as(rules.value.clone(), detail));
    }
    if default.is_set() {
        backend(&mut errors, &default);
    }
    for rule in rules.items() {
        let host = rule.get("host");
        let wildcard = host.text().contains('*');
        if !host.is_empty() {
            if parse(host.text()).is_some() {
                errors.push(host.invalid("must be a DNS name, not an IP address"));
            }
            host.rules(&mut errors, host_rules(host.text()));
        }
        if !(wildcard && options.wildcard_rules) {
            rule_value(&mut errors, &rule);
        }
    }
    for tls in spec.get("tls").items() {
        for host in tls.get("hosts").items() {
            host.rules(&mut errors, host_rules(host.text()));
        }
        let secret = tls.get("secretName");
        if !options.secret_names && !secret.is_empty() {
            secret.rules(&mut errors, names::dns1123_subdomain(secret.text()));
        }
    }
    let class = spec.get("ingressClassName");
    if class.is_set() {
        class.rules(&mut errors, names::dns1123_subdomain(class.text()));
    }
    errors
}

fn rule_value(errors: &mut Errors, rule: &FieldValue<'_>) {
    let http = rule.get("http");
    if !http.is_set() {
        return;
    }
    let paths = http.get("paths");
    if paths.is_empty() {
        errors.push(paths.required(""));
    }
    for path in paths.items() {
        http_path(errors, &path);
    }
}

fn http_path(errors: &mut Errors, field: &FieldValue<'_>) {
    let (path, kind) = (field.get("path"), field.get("pathType"));
    if !kind.is_set() {
        errors.push(kind.required("pathType must be specified"));
        return;
    }
    let relative = || path.invalid_as(path.text(), "must be an absolute path");
    match kind.text() {
        "Exact" | "Prefix" => {
            errors.extend((!path.text().starts_with('/')).then(relative));
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.text().contains(sequence) {
                    errors.push(path.invalid(format!("must not contain '{sequence}'")));
                }
            }
            for end in ["/..", "/."] {
                if path.text().ends_with(end) {
                    errors.push(path.invalid(format!("cannot end with '{end}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            errors.extend((!path.is_empty() && !path.text().starts_with('/')).then(relative));
        }
        _ => errors.push(kind.unsupported(&["Exact", "ImplementationSpecific", "Prefix"])),
    }
    backend(errors, &field.get("backend"));
}

fn backend(errors: &mut Errors, field: &FieldValue<'_>) {
    let (resource, service) = (field.get("resource"), field.get("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => errors.push(field.invalid_as("", "cannot set both resource and service backends")),
        (true, false) => reference(errors, &resource),
        (false, true) => {
            let (name, port) = (service.get("name"), service.get("port"));
            if name.is_empty() {
                errors.push(name.required(""));
            } else {
                name.rules(errors, names::dns1123_label(name.text()));
            }
            let (named, number) = (port.get("name"), port.get("number"));
            match (named.is_empty(), number.number().unwrap_or_default()) {
                (true, 0) => errors.push(field.required("port name or number is required")),
                (true, value) => number.number_rules(errors, names::port_number(value)),
                (false, 0) => named.rules(errors, names::port_name(named.text())),
                (false, _) => errors.push(field.invalid_as("", "cannot set both port name & port number")),
            }
        }
        (false, false) => errors.push(field.invalid_as("", "resource or service backend is required")),
    }
}

/// Checks a reference to an object of any kind, namespaced or cluster-scoped.
fn reference(errors: &mut Errors, field: &FieldValue<'_>) {
    let group = field.get("apiGroup");
    if group.is_set() {
        group.rules(errors, names::dns1123_subdomain(group.text()));
    }
    for part in [field.get("kind"), field.get("name")] {
        if part.is_empty() {
            errors.push(part.required(""));
        } else {
            part.rules(errors, names::path_segment_name(part.text()));
        }
    }
}

fn status(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let ingresses = |object| FieldValue::field(object, "status").get("loadBalancer").get("ingress");
    let before = ingresses(old);
    let known: Vec<&str> =
        before.items().map(|ingress| ingress.text_of("ip")).filter(|ip| !ip.is_empty()).collect();
    for ingress in ingresses(new).items() {
        let ip = ingress.get("ip");
        if !ip.is_empty() {
            legacy(&mut errors, &ip, &known);
        }
        host_name(&mut errors, &ingress.get("hostname"));
    }
    errors
}

pub(crate) static CLASSES: Checks = Checks {
    create: class,
    update: |new, old| {
        let mut errors = Errors::new();
        let controller = |class| FieldValue::field(class, "spec").get("controller");
        immutable_text(&mut errors, &controller(new), &controller(old));
        errors.extend(class(new));
        errors
    },
    ..Checks::NONE
};

fn class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(class, "spec");
    let (controller, parameters) = (spec.get("controller"), spec.get("parameters"));
    if controller.len() > MAX_CONTROLLER_LENGTH {
        errors.push(FieldError::too_long(&controller.path, MAX_CONTROLLER_LENGTH));
    }
    errors.extend(names::domain_prefixed_path(&controller.path, controller.text()));
    if !parameters.is_set() {
        return errors;
    }
    reference(&mut errors, &parameters);
    let (scope, namespace) = (parameters.get("scope"), parameters.get("namespace"));
    if !scope.is_set() {
        errors.push(scope.required(""));
        return errors;
    }
    match (scope.text(), namespace.is_set()) {
        ("Namespace", false) => errors.push(namespace.required("`parameters.scope` is set to 'Namespace'")),
        ("Namespace", true) => namespace.rules(&mut errors, names::dns1123_label(namespace.text())),
        ("Cluster", true) => errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'")),
        ("Cluster", false) => {}
        _ => errors.push(scope.unsupported_text(&["Cluster", "Namespace"])),
    }
    errors
}
