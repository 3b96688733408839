//! Probes and lifecycle hooks, which share their handlers.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::fields::{Errors, Fields, named, not_negative};

/// Checks the probes and hooks of a container that runs as long as its pod.
pub(super) fn check(errors: &mut Errors, container: &Value, grace_period: Option<i64>, path: &FieldPath) {
    if let Some(lifecycle) = container.field("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.field(hook) {
                const ACTIONS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];
                let path = path.child("lifecycle").child(hook);
                check_handler(errors, handler, ACTIONS, grace_period, &path);
            }
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.field(kind) {
            check_probe(errors, probe, kind == "readinessProbe", &path.child(kind));
        }
    }
}

fn check_probe(errors: &mut Errors, probe: &Value, is_readiness: bool, path: &FieldPath) {
    check_handler(errors, probe, &["exec", "httpGet", "tcpSocket", "grpc"], None, path);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        not_negative(errors, probe, field, path);
    }
    let grace_period = probe.optional_integer("terminationGracePeriodSeconds");
    let grace_path = || path.child("terminationGracePeriodSeconds");
    if let Some(seconds) = grace_period.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(&grace_path(), seconds, "must be greater than 0"));
    }
    if is_readiness {
        if let Some(seconds) = grace_period {
            let detail = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(&grace_path(), seconds, detail));
        }
    } else if probe.integer("successThreshold") != 1 {
        let threshold = probe.integer("successThreshold");
        errors.push(FieldError::invalid(&path.child("successThreshold"), threshold, "must be 1"));
    }
}

/// Checks that exactly one action is set, and the action.
fn check_handler(
    errors: &mut Errors,
    handler: &Value,
    actions: &[&'static str],
    grace_period: Option<i64>,
    path: &FieldPath,
) {
    let mut found = false;
    for action in actions {
        let Some(value) = handler.field(action) else { continue };
        let path = path.child(*action);
        if found {
            errors.push(FieldError::forbidden(&path, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match *action {
            "exec" => {
                if value.list("command").is_empty() {
                    errors.push(FieldError::required(&path.child("command"), ""));
                }
            }
            "httpGet" => check_http(errors, value, &path),
            "sleep" => check_sleep(errors, value, grace_period, &path),
            "grpc" => port(errors, &Value::from(value.integer("port")), &path),
            _ => port(errors, value.part("port"), &path),
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn check_http(errors: &mut Errors, action: &Value, path: &FieldPath) {
    if action.text("path").is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    }
    port(errors, action.part("port"), path);
    let scheme = action.text("scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        let path = path.child("scheme");
        errors.push(FieldError::not_supported(&path, named(scheme), &["HTTP", "HTTPS"]));
    }
    for header in action.list("httpHeaders") {
        let name = header.text("name");
        for rule in names::http_header_name(name) {
            errors.push(FieldError::invalid(&path.child("httpHeaders"), name, rule));
        }
    }
}

fn check_sleep(errors: &mut Errors, action: &Value, grace_period: Option<i64>, path: &FieldPath) {
    let seconds = action.integer("seconds");
    if let Some(limit) = grace_period.filter(|limit| seconds < 0 || seconds > *limit) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({limit})");
        errors.push(FieldError::invalid(path, seconds, detail));
    }
}

/// Checks a port number or name.
fn port(errors: &mut Errors, port: &Value, path: &FieldPath) {
    let rules = match port.as_str() {
        Some(name) => names::port_name(name),
        None => names::port_number(port.as_i64().unwrap_or_default()),
    };
    for rule in rules {
        let rendered = if port.is_null() { Value::from(0) } else { port.clone() };
        errors.push(FieldError::invalid(&path.child("port"), rendered, rule));
    }
}
