//! `PodSpec`.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::BTreeSet;

use atoll_meta::object::validate_labels;
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::container::{self, PodContext};
use super::{Scope, dns, each_container, is_mirror, level, placement, security, volume, windows};
use crate::field_value::StringRule;
use crate::fields::{Errors, Fields, broken_rules, named};
use crate::{internal, resources, topology};

/// Checks a `PodSpec`.
pub(super) fn check(errors: &mut Errors, spec: &Value, scope: &Scope<'_>, path: &FieldPath) {
    let grace_period = spec.optional_integer("terminationGracePeriodSeconds");
    if grace_period.is_none() {
        errors.push(FieldError::required(&path.child("terminationGracePeriodSeconds"), ""));
    }
    let claim_names = spec.list("resourceClaims").iter().map(|claim| claim.text("name"));
    let pod = PodContext {
        volumes: volume::check(errors, spec.list("volumes"), scope, &path.child("volumes")),
        claims: claim_names.filter(|name| !name.is_empty()).collect(),
        grace_period,
        restart_policy: spec.text("restartPolicy"),
        uses_host_users: spec.optional_flag("hostUsers").unwrap_or(true),
    };
    resource_claims(errors, spec.list("resourceClaims"), scope, path);
    container::regular(errors, spec, &pod, path);
    container::init(errors, spec, &pod, path);
    container::ephemeral(errors, spec, &pod, path);
    level::check(errors, spec, &pod.claims, path);
    host_network(errors, spec, scope, path);
    one_of(errors, spec, "restartPolicy", &["Always", "OnFailure", "Never"], path);
    one_of(errors, spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path);
    if spec.field("nodeSelector").is_some() {
        errors.extend(validate_labels(spec.text_entries("nodeSelector"), &path.child("nodeSelector")));
    }
    security::pod(errors, spec, scope.old, path);
    placement::affinity(errors, spec, path);
    dns::check(errors, spec, path);
    gates(errors, spec, path);
    topology::check_spread_constraints(
        errors,
        spec.list("topologySpreadConstraints"),
        &path.child("topologySpreadConstraints"),
    );
    windows::check_host_processes(errors, spec, path);
    host_users(errors, spec, path);
    host_name(errors, spec, path);
    names_and_numbers(errors, spec, path);
    windows::check_os(errors, spec, path);
    file_keys(errors, spec, path);
}

/// Checks that a string is set to one of these values.
fn one_of(errors: &mut Errors, spec: &Value, field: &'static str, supported: &[&str], path: &FieldPath) {
    match spec.text(field) {
        "" => errors.push(FieldError::required(&path.child(field), "")),
        text if supported.contains(&text) => {}
        other => errors.push(FieldError::not_supported(&path.child(field), named(other), supported)),
    }
}

fn resource_claims(errors: &mut Errors, claims: &[Value], scope: &Scope<'_>, path: &FieldPath) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        if scope.pod.is_some_and(is_mirror) {
            let detail = "static pods do not support resource claims";
            errors.push(FieldError::forbidden(&FieldPath::new(""), detail));
            continue;
        }
        let path = || path.child("resourceClaims").index(index);
        let name = claim.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(&path().child("name"), ""));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path().child("name"), name));
        } else {
            broken_rules(errors, || path().child("name"), name, names::dns1123_label(name));
        }
        let references = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match references.iter().filter(|field| claim.field(field).is_some()).count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        if let Some(detail) = detail {
            let rendered = internal::render("PodResourceClaim", claim);
            errors.push(FieldError::invalid(&path(), rendered, detail));
        }
        for field in references {
            if let Some(name) = claim.optional_text(field) {
                let rules = names::name_is_dns_subdomain(name, false);
                broken_rules(errors, || path().child(field), name, rules);
            }
        }
    }
}

/// Checks that the host port of each container port equals the container port on the host network.
fn host_network(errors: &mut Errors, spec: &Value, scope: &Scope<'_>, path: &FieldPath) {
    if !spec.flag("hostNetwork") {
        return;
    }
    for (index, container) in spec.list("containers").iter().enumerate() {
        for (port_index, port) in container.list("ports").iter().enumerate() {
            let (outside, inside) = (port.integer("hostPort"), port.integer("containerPort"));
            if (scope.is_pod() || outside != 0) && outside != inside {
                let path = path.child("containers").index(index).child("ports").index(port_index);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(&path.child("hostPort"), outside, detail));
            }
        }
    }
}

/// Checks readiness gates and scheduling gates.
fn gates(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    for (index, gate) in spec.list("readinessGates").iter().enumerate() {
        let condition = gate.text("conditionType");
        let path = || path.child("readinessGates").index(index).child("conditionType");
        broken_rules(errors, path, condition, names::qualified_name(condition));
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in spec.list("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        let path = || path.child("schedulingGates").index(index);
        broken_rules(errors, path, name, names::qualified_name(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path(), name));
        }
    }
}

fn host_users(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.optional_flag("hostUsers") != Some(false) {
        return;
    }
    for (field, rendered) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.flag(field) {
            errors.push(FieldError::forbidden(&path.child(rendered), DETAIL));
        }
    }
    each_container(spec, path, |container, path| {
        if !container.list("volumeDevices").is_empty() {
            errors.push(FieldError::forbidden(&path.child("volumeDevices"), DETAIL));
        }
    });
}

fn host_name(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let Some(name) = spec.optional_text("hostnameOverride") else { return };
    let path = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag(field) {
            let detail = format!("may not be specified when {field} is true");
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
    if name.len() > 64 {
        errors.push(FieldError::too_long(&path, 64));
    }
    broken_rules(errors, || path.clone(), name, names::dns1123_subdomain(name));
}

fn names_and_numbers(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    const DEADLINE: i64 = i32::MAX as i64;
    let subdomain: StringRule = |name| names::name_is_dns_subdomain(name, false);
    let text = |errors: &mut Errors, field: &'static str, rule: StringRule| {
        let value = spec.text(field);
        if !value.is_empty() {
            broken_rules(errors, || path.child(field), value, rule(value));
        }
    };
    text(errors, "serviceAccountName", subdomain);
    text(errors, "nodeName", subdomain);
    if let Some(seconds) = spec.optional_integer("activeDeadlineSeconds") {
        for rule in names::in_range(seconds, 1, DEADLINE) {
            errors.push(FieldError::invalid(&path.child("activeDeadlineSeconds"), seconds, rule));
        }
    }
    text(errors, "hostname", names::dns1123_label);
    text(errors, "subdomain", names::dns1123_label);
    placement::tolerations(errors, spec.list("tolerations"), &path.child("tolerations"));
    dns::host_aliases(errors, spec, path);
    text(errors, "priorityClassName", subdomain);
    if let Some(class) = spec.optional_text("runtimeClassName") {
        broken_rules(errors, || path.child("runtimeClassName"), class, subdomain(class));
    }
    if spec.field("preemptionPolicy").is_some() {
        one_of(errors, spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], path);
    }
    if let Some(overhead) = spec.field("overhead") {
        resources::check_overhead(errors, overhead, &path.child("overhead"));
    }
}

/// Checks that `fileKeyRef` refers to an emptyDir volume of the pod.
fn file_keys(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    each_container(spec, path, |container, path| {
        for (index, variable) in container.list("env").iter().enumerate() {
            let Some(key) = variable.part("valueFrom").field("fileKeyRef") else { continue };
            let name = key.text("volumeName");
            let path = || {
                let path = path.child("env").index(index).child("valueFrom");
                path.child("fileKeyRef").child("volumeName")
            };
            match spec.list("volumes").iter().rfind(|volume| volume.text("name") == name) {
                None => errors.push(FieldError::not_found(&path(), name)),
                Some(volume) if volume.field("emptyDir").is_none() => {
                    let detail = "referenced volume must be of type emptyDir";
                    errors.push(FieldError::invalid(&path(), name, detail));
                }
                Some(_) => {}
            }
        }
    });
}
