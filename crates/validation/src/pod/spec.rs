//! `PodSpec`.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::BTreeSet;

use atoll_meta::object::validate_labels;
use atoll_meta::{FieldError, FieldPath, names};

use super::container::{self, PodContext};
use super::{Scope, dns, each_container, is_mirror, level, placement, security, volume, windows};
use crate::field_value::{Errors, FieldValue, StringRule};
use crate::{internal, resources, topology};

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// Checks a `PodSpec`.
pub(super) fn check(errors: &mut Errors, spec: &FieldValue<'_>, scope: &Scope<'_>) {
    let grace_period = spec.get("terminationGracePeriodSeconds");
    let restart_policy = spec.get("restartPolicy");
    let claims = spec.get("resourceClaims");
    if !grace_period.is_set() {
        errors.push(grace_period.required(""));
    }
    let claim_names = claims.items().map(|claim| claim.text_of("name"));
    let pod = PodContext {
        volumes: volume::check(errors, &spec.get("volumes"), scope),
        claims: claim_names.filter(|name| !name.is_empty()).collect(),
        grace_period: grace_period.number(),
        restart_policy: restart_policy.text(),
        uses_host_users: spec.value_of("hostUsers").as_bool().unwrap_or(true),
    };
    resource_claims(errors, &claims, scope);
    container::regular(errors, spec, &pod);
    container::init(errors, spec, &pod);
    container::ephemeral(errors, spec, &pod);
    level::check(errors, spec, &pod.claims);
    host_network(errors, spec, scope);
    restart_policy.one_of(errors, RESTART_POLICIES);
    spec.get("dnsPolicy").one_of(errors, DNS_POLICIES);
    if let Some(selector) = spec.given("nodeSelector") {
        errors.extend(validate_labels(selector.text_entries(), &selector.path));
    }
    security::pod(errors, spec, scope.old);
    placement::affinity(errors, spec);
    dns::check(errors, spec);
    gates(errors, spec);
    topology::check_spread_constraints(errors, &spec.get("topologySpreadConstraints"));
    windows::check_host_processes(errors, spec);
    host_users(errors, spec);
    host_name(errors, spec);
    names_and_numbers(errors, spec);
    windows::check_os(errors, spec);
    file_keys(errors, spec);
}

fn resource_claims(errors: &mut Errors, claims: &FieldValue<'_>, scope: &Scope<'_>) {
    let mut seen = BTreeSet::new();
    for claim in claims.items() {
        if scope.pod.is_some_and(is_mirror) {
            let detail = "static pods do not support resource claims";
            errors.push(FieldError::forbidden(&FieldPath::new(""), detail));
            continue;
        }
        let name = claim.get("name");
        if name.is_empty() {
            errors.push(name.required(""));
        } else if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        } else {
            name.rules(errors, names::dns1123_label(name.text()));
        }
        let references = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match references.iter().filter(|field| claim.has(field)).count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        if let Some(detail) = detail {
            errors.push(claim.invalid_as(internal::render("PodResourceClaim", claim.value), detail));
        }
        for field in references {
            if let Some(name) = claim.given(field) {
                name.rules(errors, names::name_is_dns_subdomain(name.text(), false));
            }
        }
    }
}

/// Checks that the host port of each container port equals the container port on the host network.
fn host_network(errors: &mut Errors, spec: &FieldValue<'_>, scope: &Scope<'_>) {
    if !spec.flag_of("hostNetwork") {
        return;
    }
    for container in spec.get("containers").items() {
        for port in container.get("ports").items() {
            let (outside, inside) = (port.get("hostPort"), port.integer_of("containerPort"));
            if (scope.is_pod() || outside.integer() != 0) && outside.integer() != inside {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(outside.invalid_integer(detail));
            }
        }
    }
}

/// Checks readiness gates and scheduling gates.
fn gates(errors: &mut Errors, spec: &FieldValue<'_>) {
    for gate in spec.get("readinessGates").items() {
        let condition = gate.get("conditionType");
        condition.rules(errors, names::qualified_name(condition.text()));
    }
    let mut seen = BTreeSet::new();
    for gate in spec.get("schedulingGates").items() {
        let name = gate.text_of("name");
        gate.part_rules(errors, name, names::qualified_name(name));
        if !seen.insert(name) {
            errors.push(gate.duplicate_as(name));
        }
    }
}

fn host_users(errors: &mut Errors, spec: &FieldValue<'_>) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.value_of("hostUsers").as_bool() != Some(false) {
        return;
    }
    for (field, rendered) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.flag_of(field) {
            errors.push(FieldError::forbidden(&spec.path.child(rendered), DETAIL));
        }
    }
    each_container(spec, |container| {
        let devices = container.get("volumeDevices");
        if !devices.is_empty() {
            errors.push(devices.forbidden(DETAIL));
        }
    });
}

fn host_name(errors: &mut Errors, spec: &FieldValue<'_>) {
    let Some(name) = spec.given("hostnameOverride") else { return };
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag_of(field) {
            errors.push(name.forbidden(format!("may not be specified when {field} is true")));
        }
    }
    if name.len() > 64 {
        errors.push(name.too_long(64));
    }
    name.rules(errors, names::dns1123_subdomain(name.text()));
}

fn names_and_numbers(errors: &mut Errors, spec: &FieldValue<'_>) {
    const DEADLINE: i64 = i32::MAX as i64;
    let subdomain: StringRule = |name| names::name_is_dns_subdomain(name, false);
    let text = |errors: &mut Errors, field: &'static str, rule: StringRule| {
        let value = spec.text_of(field);
        if !value.is_empty() {
            spec.get(field).rules(errors, rule(value));
        }
    };
    text(errors, "serviceAccountName", subdomain);
    text(errors, "nodeName", subdomain);
    if let Some(deadline) = spec.given("activeDeadlineSeconds") {
        deadline.number_rules(errors, names::in_range(deadline.integer(), 1, DEADLINE));
    }
    text(errors, "hostname", names::dns1123_label);
    text(errors, "subdomain", names::dns1123_label);
    placement::tolerations(errors, &spec.get("tolerations"));
    dns::host_aliases(errors, spec);
    text(errors, "priorityClassName", subdomain);
    if let Some(class) = spec.given("runtimeClassName") {
        class.rules(errors, subdomain(class.text()));
    }
    if let Some(policy) = spec.given("preemptionPolicy") {
        policy.one_of(errors, &["PreemptLowerPriority", "Never"]);
    }
    if let Some(overhead) = spec.given("overhead") {
        resources::check_overhead(errors, &overhead);
    }
}

/// Checks that `fileKeyRef` refers to an emptyDir volume of the pod.
fn file_keys(errors: &mut Errors, spec: &FieldValue<'_>) {
    let file_key =
        |variable: FieldValue<'_>| FieldValue::root(variable.value_of("valueFrom")).has("fileKeyRef");
    each_container(spec, |container| {
        let variables = container.get("env");
        // Few containers have such keys, and many have a lot of variables.
        if !variables.list().iter().map(FieldValue::root).any(file_key) {
            return;
        }
        for variable in variables.items() {
            let Some(key) = variable.get("valueFrom").given("fileKeyRef") else { continue };
            let name = key.get("volumeName");
            let volumes = spec.get("volumes");
            match volumes.items().rfind(|volume| volume.text_of("name") == name.text()) {
                None => errors.push(name.not_found()),
                Some(volume) if !volume.has("emptyDir") => {
                    errors.push(name.invalid_text("referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    });
}
