//! Containers, init containers and ephemeral containers.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{BTreeSet, HashSet};

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::volume::Volumes;
use super::{environment, mount, probe, security};
use crate::fields::{Errors, Fields, broken_rules, named};
use crate::resources;

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// Properties of the pod that the checks of its containers need.
pub(super) struct PodContext<'a> {
    pub volumes: Volumes<'a>,
    pub claims: BTreeSet<&'a str>,
    pub grace_period: Option<i64>,
    pub restart_policy: &'a str,
    pub uses_host_users: bool,
}

/// Checks `containers`.
pub(super) fn regular(errors: &mut Errors, spec: &Value, pod: &PodContext<'_>, path: &FieldPath) {
    let path = path.child("containers");
    let containers = spec.list("containers");
    if containers.is_empty() {
        errors.push(FieldError::required(&path, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        check(errors, container, pod, &path);
        if !seen.insert(container.text("name")) {
            errors.push(FieldError::duplicate(&path.child("name"), container.text("name")));
        }
        probe::check(errors, container, pod.grace_period, &path);
        restart_policy(errors, container, false, &path);
    }
    host_ports(errors, containers, &path);
}

/// Checks `initContainers`.
pub(super) fn init(errors: &mut Errors, spec: &Value, pod: &PodContext<'_>, path: &FieldPath) {
    const ONLY_SIDECARS: &str = "may not be set for init containers without restartPolicy=Always";
    let containers = spec.list("initContainers");
    if containers.is_empty() {
        return;
    }
    let list_path = path.child("initContainers");
    let mut seen: HashSet<&str> = spec.list("containers").iter().map(|other| other.text("name")).collect();
    for (index, container) in containers.iter().enumerate() {
        let path = list_path.index(index);
        let name = container.text("name");
        check(errors, container, pod, &path);
        restart_policy(errors, container, true, &path);
        if seen.contains(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        } else if !name.is_empty() {
            seen.insert(name);
        }
        host_ports(errors, std::slice::from_ref(container), &list_path);
        let is_sidecar = is_sidecar(container);
        if is_sidecar {
            probe::check(errors, container, pod.grace_period, &path);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.field(field).is_some() {
                errors.push(FieldError::forbidden(&path.child(field), ONLY_SIDECARS));
            }
        }
        for (index, policy) in container.list("resizePolicy").iter().enumerate() {
            if policy.text("restartPolicy") == "RestartContainer" {
                let path = path.child("resizePolicy").index(index).child("restartPolicy");
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(FieldError::invalid(&path, named("RestartContainer"), detail));
            }
        }
    }
}

/// Whether an init container is a sidecar.
pub(super) fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}

/// Checks `ephemeralContainers`.
pub(super) fn ephemeral(errors: &mut Errors, spec: &Value, pod: &PodContext<'_>, path: &FieldPath) {
    let containers = spec.list("ephemeralContainers");
    if containers.is_empty() {
        return;
    }
    let others = || spec.list("containers").iter().chain(spec.list("initContainers"));
    let targets: HashSet<&str> = others().map(|other| other.text("name")).collect();
    let mut seen = targets.clone();
    for (index, container) in containers.iter().enumerate() {
        let path = path.child("ephemeralContainers").index(index);
        check(errors, container, pod, &path);
        image_padding(errors, container, &path);
        let name = container.text("name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !targets.contains(target) {
            errors.push(FieldError::not_found(&path.child("targetContainerName"), target));
        }
        let asks_for_resources =
            container.part("resources").as_object().is_some_and(|resources| !resources.is_empty());
        for (field, is_set) in [
            ("ports", !container.list("ports").is_empty()),
            ("resources", asks_for_resources),
            ("resizePolicy", !container.list("resizePolicy").is_empty()),
            ("restartPolicy", container.field("restartPolicy").is_some()),
            ("restartPolicyRules", !container.list("restartPolicyRules").is_empty()),
            ("livenessProbe", container.field("livenessProbe").is_some()),
            ("readinessProbe", container.field("readinessProbe").is_some()),
            ("startupProbe", container.field("startupProbe").is_some()),
            ("lifecycle", container.field("lifecycle").is_some()),
        ] {
            if is_set {
                errors.push(FieldError::forbidden(&path.child(field), EPHEMERAL));
            }
        }
        for (index, mount) in container.list("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    let path = path.child("volumeMounts").index(index).child(field);
                    errors.push(FieldError::forbidden(&path, EPHEMERAL));
                }
            }
        }
    }
}

/// Checks the fields that all kinds of containers share.
fn check(errors: &mut Errors, container: &Value, pod: &PodContext<'_>, path: &FieldPath) {
    let name = container.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else {
        broken_rules(errors, || path.child("name"), name, names::dns1123_label(name));
    }
    if container.text("image").is_empty() {
        errors.push(FieldError::required(&path.child("image"), ""));
    }
    match container.text("terminationMessagePolicy") {
        "File" | "FallbackToLogsOnError" => {}
        "" => errors.push(FieldError::required(&path.child("terminationMessagePolicy"), "")),
        other => errors.push(FieldError::not_supported(
            &path.child("terminationMessagePolicy"),
            named(other),
            &["File", "FallbackToLogsOnError"],
        )),
    }
    ports(errors, container, path);
    environment::variables(errors, container, path);
    environment::sources(errors, container, path);
    mount::mounts(errors, container, &pod.volumes, path);
    mount::devices(errors, container, &pod.volumes, path);
    pull_policy(errors, container, "imagePullPolicy", path);
    resources::check_requirements(
        errors,
        container.part("resources"),
        resources::check_container_name,
        &pod.claims,
        &path.child("resources"),
    );
    resize_policy(errors, container, pod.restart_policy, path);
    if let Some(context) = container.field("securityContext") {
        security::container(errors, context, pod.uses_host_users, &path.child("securityContext"));
    }
}

/// Checks the pull policy of an image.
pub(super) fn pull_policy(errors: &mut Errors, object: &Value, field: &'static str, path: &FieldPath) {
    match object.text(field) {
        "" => errors.push(FieldError::required(&path.child(field), "")),
        policy if PULL_POLICIES.contains(&policy) => {}
        other => errors.push(FieldError::not_supported(&path.child(field), named(other), PULL_POLICIES)),
    }
}

fn ports(errors: &mut Errors, container: &Value, path: &FieldPath) {
    let mut seen = HashSet::new();
    for (index, port) in container.list("ports").iter().enumerate() {
        let path = || path.child("ports").index(index);
        let name = port.text("name");
        if !name.is_empty() {
            let rules = names::port_name(name);
            if !rules.is_empty() {
                broken_rules(errors, || path().child("name"), name, rules);
            } else if !seen.insert(name) {
                errors.push(FieldError::duplicate(&path().child("name"), name));
            }
        }
        let inside = port.integer("containerPort");
        if inside == 0 {
            errors.push(FieldError::required(&path().child("containerPort"), ""));
        }
        for (field, number) in [("containerPort", inside), ("hostPort", port.integer("hostPort"))] {
            if number != 0 {
                for rule in names::port_number(number) {
                    errors.push(FieldError::invalid(&path().child(field), number, rule));
                }
            }
        }
        match port.text("protocol") {
            "TCP" | "UDP" | "SCTP" => {}
            "" => errors.push(FieldError::required(&path().child("protocol"), "")),
            other => errors.push(FieldError::not_supported(
                &path().child("protocol"),
                named(other),
                &["SCTP", "TCP", "UDP"],
            )),
        }
    }
}

/// Checks that no two containers use the same host port.
fn host_ports(errors: &mut Errors, containers: &[Value], path: &FieldPath) {
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in container.list("ports").iter().enumerate() {
            let number = port.integer("hostPort");
            let (protocol, address) = (port.text("protocol"), port.text("hostIP"));
            if number != 0 && !seen.insert((protocol, address, number)) {
                let path = path.index(index).child("ports").index(port_index).child("hostPort");
                errors.push(FieldError::duplicate(&path, format!("{protocol}/{address}/{number}")));
            }
        }
    }
}

fn resize_policy(errors: &mut Errors, container: &Value, pod_restart_policy: &str, path: &FieldPath) {
    let mut seen = HashSet::new();
    for (index, policy) in container.list("resizePolicy").iter().enumerate() {
        let path = || path.child("resizePolicy");
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(&path().index(index), named(resource)));
        }
        for (text, supported) in
            [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])]
        {
            if text.is_empty() {
                errors.push(FieldError::required(&path(), ""));
            } else if !supported.contains(&text) {
                errors.push(FieldError::not_supported(&path(), named(text), &supported));
            }
        }
        if pod_restart_policy == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(&path(), named(restart), detail));
        }
    }
}

/// Checks the restart policy of a container.
fn restart_policy(errors: &mut Errors, container: &Value, is_init: bool, path: &FieldPath) {
    let rules = container.list("restartPolicyRules");
    let policy_path = || path.child("restartPolicy");
    match container.optional_text("restartPolicy") {
        None if rules.is_empty() => return,
        None => {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.push(FieldError::required(&policy_path(), detail));
            // Upstream does not check the rules of init containers.
            if is_init {
                return;
            }
        }
        Some("Always" | "Never" | "OnFailure") => {}
        Some(other) => {
            let supported = ["Always", "Never", "OnFailure"];
            errors.push(FieldError::not_supported(&policy_path(), named(other), &supported));
        }
    }
    let rules_path = || path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&rules_path(), rules.len(), 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = || rules_path().index(index);
        let action = rule.text("action");
        if !matches!(action, "Restart" | "RestartAllContainers") {
            let supported = ["Restart", "RestartAllContainers"];
            errors.push(FieldError::not_supported(&path().child("action"), named(action), &supported));
        }
        let Some(codes) = rule.field("exitCodes") else {
            errors.push(FieldError::required(&path().child("exitCodes"), "must be specified"));
            continue;
        };
        let operator = codes.text("operator");
        if !matches!(operator, "In" | "NotIn") {
            let path = path().child("exitCodes").child("operator");
            errors.push(FieldError::not_supported(&path, named(operator), &["In", "NotIn"]));
        }
        let count = codes.list("values").len();
        if count > 255 {
            errors.push(FieldError::too_many(&path().child("exitCodes").child("values"), count, 255));
        }
    }
}

/// Checks that an image name has no surrounding blanks. Only pods require this.
pub(super) fn image_padding(errors: &mut Errors, container: &Value, path: &FieldPath) {
    let image = container.text("image");
    if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, detail));
    }
}
