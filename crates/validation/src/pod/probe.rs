//! Probes and lifecycle hooks, which share their handlers.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::names;
use serde_json::Value;

use crate::field_value::{Errors, FieldValue};

const NUMBERS: &[&str] =
    &["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

/// Checks the probes and hooks of a container that runs as long as its pod.
pub(super) fn check(errors: &mut Errors, container: &FieldValue<'_>, grace_period: Option<i64>) {
    if let Some(lifecycle) = container.given("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.given(hook) {
                const ACTIONS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];
                check_handler(errors, &handler, ACTIONS, grace_period);
            }
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.given(kind) {
            check_probe(errors, &probe, kind == "readinessProbe");
        }
    }
}

fn check_probe(errors: &mut Errors, probe: &FieldValue<'_>, is_readiness: bool) {
    check_handler(errors, probe, &["exec", "httpGet", "tcpSocket", "grpc"], None);
    probe.none_negative(errors, NUMBERS);
    let grace_period = probe.get("terminationGracePeriodSeconds");
    if grace_period.number().is_some_and(|seconds| seconds <= 0) {
        errors.push(grace_period.invalid("must be greater than 0"));
    }
    if is_readiness {
        if grace_period.is_set() {
            errors.push(grace_period.invalid("must not be set for readinessProbes"));
        }
    } else if probe.integer_of("successThreshold") != 1 {
        errors.push(probe.get("successThreshold").invalid_integer("must be 1"));
    }
}

/// Checks that exactly one action is set, and the action.
fn check_handler(
    errors: &mut Errors,
    handler: &FieldValue<'_>,
    actions: &[&'static str],
    grace_period: Option<i64>,
) {
    let mut found = false;
    for name in actions {
        let Some(action) = handler.given(name) else { continue };
        if found {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match *name {
            "exec" => {
                let command = action.get("command");
                if command.is_empty() {
                    errors.push(command.required(""));
                }
            }
            "httpGet" => check_http(errors, &action),
            "sleep" => check_sleep(errors, &action, grace_period),
            _ => port(errors, &action.get("port")),
        }
    }
    if !found {
        errors.push(handler.required("must specify a handler type"));
    }
}

fn check_http(errors: &mut Errors, action: &FieldValue<'_>) {
    let (path, scheme) = (action.get("path"), action.get("scheme"));
    if path.is_empty() {
        errors.push(path.required(""));
    }
    port(errors, &action.get("port"));
    if !matches!(scheme.text(), "HTTP" | "HTTPS") {
        errors.push(scheme.unsupported(&["HTTP", "HTTPS"]));
    }
    let headers = action.get("httpHeaders");
    for header in headers.items() {
        let name = header.text_of("name");
        headers.part_rules(errors, name, names::http_header_name(name));
    }
}

fn check_sleep(errors: &mut Errors, action: &FieldValue<'_>, grace_period: Option<i64>) {
    let seconds = action.integer_of("seconds");
    if let Some(limit) = grace_period.filter(|limit| seconds < 0 || seconds > *limit) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({limit})");
        errors.push(action.invalid_as(seconds, detail));
    }
}

/// Checks a port number or name.
fn port(errors: &mut Errors, port: &FieldValue<'_>) {
    match port.value {
        Value::String(name) => port.rules(errors, names::port_name(name)),
        _ => port.number_rules(errors, names::port_number(port.integer())),
    }
}
