//! Containers, init containers and ephemeral containers.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{BTreeSet, HashSet};

use atoll_meta::names;

use super::volume::Volumes;
use super::{environment, mount, probe, security};
use crate::field_value::{Errors, FieldValue};
use crate::{ports, resources};

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
pub(super) fn regular(errors: &mut Errors, spec: &FieldValue<'_>, pod: &PodContext<'_>) {
    let containers = spec.get("containers");
    if containers.is_empty() {
        errors.push(containers.required(""));
        return;
    }
    let mut seen = HashSet::new();
    for container in containers.items() {
        check(errors, &container, pod);
        let name = container.get("name");
        if !seen.insert(name.text()) {
            errors.push(name.duplicate_as(name.text()));
        }
        probe::check(errors, &container, pod.grace_period);
        restart_policy(errors, &container, false);
    }
    host_ports(errors, containers.items());
}

/// Checks `initContainers`.
pub(super) fn init(errors: &mut Errors, spec: &FieldValue<'_>, pod: &PodContext<'_>) {
    const ONLY_SIDECARS: &str = "may not be set for init containers without restartPolicy=Always";
    let containers = spec.get("initContainers");
    if containers.is_empty() {
        return;
    }
    let mut seen: HashSet<&str> = spec.get("containers").items().map(|other| other.text_of("name")).collect();
    for container in containers.items() {
        let name = container.get("name");
        check(errors, &container, pod);
        restart_policy(errors, &container, true);
        if seen.contains(name.text()) {
            errors.push(name.duplicate_as(name.text()));
        } else if !name.is_empty() {
            seen.insert(name.text());
        }
        // Upstream checks each container as if it were the only one.
        host_ports(errors, std::iter::once(container.with_path(containers.path.index(0))));
        if is_sidecar(&container) {
            probe::check(errors, &container, pod.grace_period);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            errors.extend(container.given(field).map(|field| field.forbidden(ONLY_SIDECARS)));
        }
        for policy in container.get("resizePolicy").items() {
            let restart = policy.get("restartPolicy");
            if restart.text() == "RestartContainer" {
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(restart.invalid_named(detail));
            }
        }
    }
}

/// Whether an init container is a sidecar.
pub(super) fn is_sidecar(container: &FieldValue<'_>) -> bool {
    container.text_of("restartPolicy") == "Always"
}

/// Checks `ephemeralContainers`.
pub(super) fn ephemeral(errors: &mut Errors, spec: &FieldValue<'_>, pod: &PodContext<'_>) {
    let containers = spec.get("ephemeralContainers");
    if containers.is_empty() {
        return;
    }
    let mut targets = HashSet::new();
    for field in ["containers", "initContainers"] {
        targets.extend(spec.get(field).items().map(|other| other.text_of("name")));
    }
    let mut seen = targets.clone();
    for container in containers.items() {
        check(errors, &container, pod);
        image_padding(errors, &container);
        let (name, target) = (container.get("name"), container.get("targetContainerName"));
        if !seen.insert(name.text()) {
            errors.push(name.duplicate_as(name.text()));
        }
        if !target.is_empty() && !targets.contains(target.text()) {
            errors.push(target.not_found());
        }
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let setting = container.get(field);
            let is_set = match field {
                "ports" | "resources" | "resizePolicy" | "restartPolicyRules" => !setting.is_empty(),
                _ => setting.is_set(),
            };
            if is_set {
                errors.push(setting.forbidden(EPHEMERAL));
            }
        }
        for mount in container.get("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                let path = mount.get(field);
                if !path.is_empty() {
                    errors.push(path.forbidden(EPHEMERAL));
                }
            }
        }
    }
}

/// Checks the fields that all kinds of containers share.
fn check(errors: &mut Errors, container: &FieldValue<'_>, pod: &PodContext<'_>) {
    let (name, image) = (container.get("name"), container.get("image"));
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        name.rules(errors, names::dns1123_label(name.text()));
    }
    if image.is_empty() {
        errors.push(image.required(""));
    }
    container.get("terminationMessagePolicy").one_of(errors, &["File", "FallbackToLogsOnError"]);
    container_ports(errors, container);
    environment::variables(errors, container);
    environment::sources(errors, container);
    mount::mounts(errors, container, &pod.volumes);
    mount::devices(errors, container, &pod.volumes);
    pull_policy(errors, &container.get("imagePullPolicy"));
    let resources = container.get("resources");
    resources::check_requirements(errors, &resources, resources::check_container_name, &pod.claims);
    resize_policy(errors, container, pod.restart_policy);
    if let Some(context) = container.given("securityContext") {
        security::container(errors, &context, pod.uses_host_users);
    }
}

/// Checks the pull policy of an image.
pub(super) fn pull_policy(errors: &mut Errors, policy: &FieldValue<'_>) {
    policy.one_of(errors, PULL_POLICIES);
}

fn container_ports(errors: &mut Errors, container: &FieldValue<'_>) {
    let mut seen = HashSet::new();
    for port in container.get("ports").items() {
        let name = port.get("name");
        if !name.is_empty() {
            let rules = names::port_name(name.text());
            if !rules.is_empty() {
                name.rules(errors, rules);
            } else if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
        }
        let (inside, outside) = (port.get("containerPort"), port.get("hostPort"));
        if inside.integer() == 0 {
            errors.push(inside.required(""));
        }
        for number in [inside, outside] {
            if number.integer() != 0 {
                number.number_rules(errors, names::port_number(number.integer()));
            }
        }
        port.get("protocol").one_of(errors, ports::PROTOCOLS);
    }
}

/// Checks that no two containers use the same host port.
fn host_ports<'a>(errors: &mut Errors, containers: impl Iterator<Item = FieldValue<'a>>) {
    let mut seen = HashSet::new();
    for container in containers {
        for port in container.get("ports").items_with("hostPort") {
            let number = port.integer_of("hostPort");
            let (protocol, address) = (port.text_of("protocol"), port.text_of("hostIP"));
            if number != 0 && !seen.insert((protocol, address, number)) {
                errors.push(port.get("hostPort").duplicate_as(format!("{protocol}/{address}/{number}")));
            }
        }
    }
}

fn resize_policy(errors: &mut Errors, container: &FieldValue<'_>, pod_restart_policy: &str) {
    let policies = container.get("resizePolicy");
    let mut seen = HashSet::new();
    for policy in policies.items() {
        // Most of upstream's paths lack the index and the field.
        let of_list = |field| policy.get(field).with_path(policies.path.clone());
        let (resource, restart) = (of_list("resourceName"), of_list("restartPolicy"));
        if !seen.insert(resource.text()) {
            errors.push(policy.duplicate_as(resource.named()));
        }
        resource.one_of(errors, &["cpu", "memory"]);
        restart.one_of(errors, &["NotRequired", "RestartContainer"]);
        if pod_restart_policy == "Never" && restart.text() != "NotRequired" {
            errors.push(restart.invalid_named("must be 'NotRequired' when pod `restartPolicy` is 'Never'"));
        }
    }
}

/// Checks the restart policy of a container.
fn restart_policy(errors: &mut Errors, container: &FieldValue<'_>, is_init: bool) {
    let (policy, rules) = (container.get("restartPolicy"), container.get("restartPolicyRules"));
    match policy.optional_text() {
        None if rules.is_empty() => return,
        None => {
            errors.push(policy.required("must specify restartPolicy when restart rules are used"));
            // Upstream does not check the rules of init containers.
            if is_init {
                return;
            }
        }
        Some("Always" | "Never" | "OnFailure") => {}
        Some(_) => errors.push(policy.unsupported(&["Always", "Never", "OnFailure"])),
    }
    if rules.len() > 20 {
        errors.push(rules.too_many(20));
    }
    for rule in rules.items() {
        let (action, codes) = (rule.get("action"), rule.get("exitCodes"));
        if !matches!(action.text(), "Restart" | "RestartAllContainers") {
            errors.push(action.unsupported(&["Restart", "RestartAllContainers"]));
        }
        if !codes.is_set() {
            errors.push(codes.required("must be specified"));
            continue;
        }
        let (operator, values) = (codes.get("operator"), codes.get("values"));
        if !matches!(operator.text(), "In" | "NotIn") {
            errors.push(operator.unsupported(&["In", "NotIn"]));
        }
        if values.len() > 255 {
            errors.push(values.too_many(255));
        }
    }
}

/// Checks that an image name has no surrounding blanks. Only pods require this.
pub(super) fn image_padding(errors: &mut Errors, container: &FieldValue<'_>) {
    let image = container.text_of("image");
    if image.trim() != image {
        errors.push(container.get("image").invalid("must not have leading or trailing whitespace"));
    }
}
