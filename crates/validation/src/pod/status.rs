//! The status of a pod.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::HashSet;

use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::{annotations, dns};
use crate::fields::{Errors, Fields, broken_rules, named};
use crate::{addresses as ip, internal, resources};

const NOT_NEGATIVE: &str = "must be a non-negative integer";
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// Checks an update of the status.
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    annotations::check_update(&mut errors, new, old);
    let path = FieldPath::new("status");
    let (status, before) = (new.part("status"), old.part("status"));
    let (spec, old_spec) = (new.part("spec"), old.part("spec"));
    conditions(&mut errors, status, &path);
    node_names(&mut errors, new, old, &path);
    if status.integer("observedGeneration") < 0 {
        let generation = status.integer("observedGeneration");
        errors.push(FieldError::invalid(&path.child("observedGeneration"), generation, NOT_NEGATIVE));
    }
    if status.text("qosClass") != before.text("qosClass") {
        let class = named(status.text("qosClass"));
        errors.push(FieldError::invalid(&path.child("qosClass"), class, FIELD_IS_IMMUTABLE));
    }
    transitions(&mut errors, status, before, old_spec, &path);
    resource_claims(&mut errors, status, spec, &path.child("resourceClaimStatuses"));
    if let Some(claim) = status.field("extendedResourceClaimStatus") {
        extended_claim(&mut errors, claim, spec, &path.child("extendedResourceClaimStatus"));
    }
    allocatable_claims(&mut errors, status, spec, &path.child("nodeAllocatableResourceClaimStatuses"));
    addresses(&mut errors, status, before, "podIPs", "PodIP", &path);
    if let Some(first) = status.list("hostIPs").first()
        && status.text("hostIP") != first.text("ip")
    {
        let path = path.child("hostIPs").index(0).child("ip");
        errors.push(FieldError::invalid(&path, first.text("ip"), "must be equal to `hostIP`"));
    }
    addresses(&mut errors, status, before, "hostIPs", "HostIP", &path);
    for (field, _) in STATUSES {
        users(&mut errors, status.list(field), spec, &path.child(field));
    }
    for (field, containers) in &STATUSES[..2] {
        allocated(&mut errors, status.list(field), spec.list(containers), &path.child(*field));
    }
    for (index, container) in status.list("ephemeralContainerStatuses").iter().enumerate() {
        if !container.list("allocatedResourcesStatus").is_empty() {
            let path = path.child("ephemeralContainerStatuses").index(index);
            let detail = "must not be specified in container status";
            errors.push(FieldError::forbidden(&path.child("allocatedResourcesStatus"), detail));
        }
    }
    errors
}

fn conditions(errors: &mut Errors, status: &Value, path: &FieldPath) {
    for (index, condition) in status.list("conditions").iter().enumerate() {
        let path = || path.child("conditions").index(index);
        let generation = condition.integer("observedGeneration");
        if generation < 0 {
            let path = path().child("observedGeneration");
            errors.push(FieldError::invalid(&path, generation, NOT_NEGATIVE));
        }
        let kind = condition.text("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            broken_rules(errors, || path().child("Type"), kind, names::qualified_name(kind));
        }
    }
}

fn node_names(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath) {
    let node = old.part("spec").text("nodeName");
    if new.part("spec").text("nodeName") != node {
        errors.push(FieldError::forbidden(&path.child("nodeName"), "may not be changed directly"));
    }
    let field = "nominatedNodeName";
    let nominated = new.part("status").text(field);
    if nominated.is_empty() || nominated == old.part("status").text(field) {
        return;
    }
    let rules = names::name_is_dns_subdomain(nominated, false);
    broken_rules(errors, || path.child(field), nominated, rules);
    if !node.is_empty() {
        let detail = "may not be set on pods that are already bound to a node";
        errors.push(FieldError::forbidden(&path.child(field), detail));
    }
}

/// Checks that only restartable containers leave the terminated state.
fn transitions(errors: &mut Errors, status: &Value, before: &Value, spec: &Value, path: &FieldPath) {
    let restarts_all = ["containers", "initContainers"].iter().any(|field| {
        spec.list(field)
            .iter()
            .flat_map(|container| container.list("restartPolicyRules"))
            .any(|rule| rule.text("action") == "RestartAllContainers")
    });
    for (field, containers) in STATUSES {
        let is_ephemeral = field == "ephemeralContainerStatuses";
        if restarts_all && !is_ephemeral {
            continue;
        }
        for (index, was) in before.list(field).iter().enumerate() {
            let Some(terminated) = was.part("state").field("terminated") else { continue };
            let name = was.text("name");
            let restarts = !is_ephemeral
                && spec
                    .list(containers)
                    .iter()
                    .find(|container| container.text("name") == name)
                    .is_some_and(|container| is_restarted(container, spec, terminated.integer("exitCode")));
            if restarts {
                continue;
            }
            let statuses = status.list(field).iter().filter(|status| status.text("name") == name);
            let lives = statuses.filter(|status| status.part("state").field("terminated").is_none());
            for _ in lives.take(if is_ephemeral { usize::MAX } else { 1 }) {
                let detail = "may not be transitioned to non-terminated state";
                errors.push(FieldError::forbidden(&path.child(field).index(index).child("state"), detail));
            }
        }
    }
}

/// Whether a container is restarted after this exit code: its restart rules decide first, then its own
/// policy, then the pod's.
fn is_restarted(container: &Value, spec: &Value, exit_code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "OnFailure" => exit_code != 0,
        "Never" => false,
        _ => true,
    };
    let Some(policy) = container.optional_text("restartPolicy") else {
        return by_policy(spec.text("restartPolicy"));
    };
    let matches = |rule: &&Value| {
        let codes = rule.part("exitCodes");
        let is_listed = codes.list("values").iter().any(|code| code.as_i64() == Some(exit_code));
        match codes.text("operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    container.list("restartPolicyRules").iter().any(|rule| matches(&rule)) || by_policy(policy)
}

fn resource_claims(errors: &mut Errors, status: &Value, spec: &Value, path: &FieldPath) {
    let mut seen = HashSet::new();
    for (index, claim) in status.list("resourceClaimStatuses").iter().enumerate() {
        let name = claim.text("name");
        if !spec.list("resourceClaims").iter().any(|other| other.text("name") == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(&path.index(index).child("name"), name, detail));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.index(index).child("name"), name));
        }
        if let Some(name) = claim.optional_text("resourceClaimName") {
            for rule in names::name_is_dns_subdomain(name, false) {
                let path = path.index(index).child("resourceClaimName");
                errors.push(FieldError::invalid(&path, named(name), rule));
            }
        }
    }
}

fn extended_claim(errors: &mut Errors, claim: &Value, spec: &Value, path: &FieldPath) {
    let mappings = claim.list("requestMappings");
    let mappings_path = path.child("requestMappings");
    if mappings.is_empty() {
        errors.push(FieldError::required(&mappings_path, "at least one request mapping is required"));
    }
    let mut seen = HashSet::new();
    for (index, mapping) in mappings.iter().enumerate() {
        let path_of = |field: &'static str| mappings_path.index(index).child(field);
        let (container, resource) = (mapping.text("containerName"), mapping.text("resourceName"));
        let request = mapping.text("requestName");
        let mut containers = spec.list("containers").iter().chain(spec.list("initContainers"));
        match containers.find(|other| other.text("name") == container) {
            Some(found) => {
                if found.part("resources").part("requests").get(resource).is_none() {
                    let detail = "must match the extended resource name of an entry in \
                                  spec.initContainers.resources.requests or spec.containers.resources.requests";
                    errors.push(FieldError::invalid(&path_of("resourceName"), resource, detail));
                }
            }
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(FieldError::invalid(&path_of("containerName"), container, detail));
            }
        }
        broken_rules(errors, || path.child("requestName"), request, names::dns1123_label(request));
        if !seen.insert((container, resource, request)) {
            for (field, text) in
                [("containerName", container), ("resourceName", resource), ("requestName", request)]
            {
                errors.push(FieldError::duplicate(&path_of(field), text));
            }
        }
    }
    let name = claim.text("resourceClaimName");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("resourceClaimName"), ""));
    } else {
        let rules = names::name_is_dns_subdomain(name, false);
        broken_rules(errors, || path.child("resourceClaimName"), name, rules);
    }
}

fn allocatable_claims(errors: &mut Errors, status: &Value, spec: &Value, path: &FieldPath) {
    const NOT_EMPTY: &str = "must not be empty";
    for (index, claim) in status.list("nodeAllocatableResourceClaimStatuses").iter().enumerate() {
        let path = path.index(index);
        let name = claim.text("resourceClaimName");
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("resourceClaimName"), NOT_EMPTY));
        }
        let mut known = spec.list("resourceClaims").iter().chain(status.list("resourceClaimStatuses"));
        if !known.any(|other| other.optional_text("resourceClaimName") == Some(name)) {
            let detail = "no mapping found in pod reference";
            errors.push(FieldError::invalid(&path.child("resourceClaimName"), name, detail));
        }
        if claim.list("containers").is_empty() {
            errors.push(FieldError::required(&path.child("containers"), NOT_EMPTY));
        }
        let path = path.child("resources");
        if claim.entries("resources").next().is_none() {
            errors.push(FieldError::required(&path, NOT_EMPTY));
        }
        for (name, amount) in claim.entries("resources") {
            if !resources::is_native(name) {
                let detail = "must be a node allocatable resource name";
                errors.push(FieldError::invalid(&path.key(name), named(name), detail));
            }
            if let Some(amount) = crate::fields::quantity(amount).filter(|amount| amount.is_negative()) {
                errors.push(FieldError::invalid(&path.key(name), amount.to_string(), "must be non-negative"));
            }
        }
    }
}

/// Checks that there is at most one address per IP family.
fn addresses(
    errors: &mut Errors,
    status: &Value,
    before: &Value,
    field: &'static str,
    kind: &str,
    path: &FieldPath,
) {
    let texts = |status: &'_ Value| -> Vec<String> {
        status.list(field).iter().map(|address| address.text("ip").to_owned()).collect()
    };
    let list = texts(status);
    if list.is_empty() {
        return;
    }
    let path = path.child(field);
    let old = texts(before);
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    for (index, text) in list.iter().enumerate() {
        dns::address(errors, text, &old, || path.index(index));
    }
    if list.len() < 2 {
        return;
    }
    let parsed: Vec<Option<std::net::IpAddr>> = list.iter().map(|text| ip::parse(text)).collect();
    let unknown = parsed.iter().position(Option::is_none);
    if let Some(index) = unknown {
        let detail = format!(
            "failed to check for dual stack with error:invalid IP[{index}]: {}",
            list.get(index).map_or("", String::as_str)
        );
        errors.push(FieldError::internal(&path, detail));
    }
    let is_dual = unknown.is_none()
        && parsed.iter().flatten().any(|address| address.is_ipv4())
        && parsed.iter().flatten().any(|address| address.is_ipv6());
    if !is_dual || list.len() > 2 {
        let rendered = internal::render_list(kind, status.part(field));
        let detail = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(&path, rendered, detail));
    }
}

fn users(errors: &mut Errors, statuses: &[Value], spec: &Value, path: &FieldPath) {
    for (index, status) in statuses.iter().enumerate() {
        let Some(user) = status.part("user").field("linux") else { continue };
        let path = path.index(index).child("user").child("linux");
        match spec.field("os").map_or("linux", |os| os.text("name")) {
            "windows" => errors.push(FieldError::forbidden(&path, "cannot be set for a windows pod")),
            "linux" => {
                for field in ["uid", "gid"] {
                    let id = user.integer(field);
                    for rule in names::unix_id(id) {
                        errors.push(FieldError::invalid(&path.child(field), id, rule));
                    }
                }
                for (index, group) in user.list("supplementalGroups").iter().enumerate() {
                    let group = group.as_i64().unwrap_or_default();
                    for rule in names::unix_id(group) {
                        let path = path.child("supplementalGroups").index(index);
                        errors.push(FieldError::invalid(&path, group, rule));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Checks the health of allocated resources.
fn allocated(errors: &mut Errors, statuses: &[Value], containers: &[Value], path: &FieldPath) {
    for (index, status) in statuses.iter().enumerate() {
        let container = containers.iter().find(|container| container.text("name") == status.text("name"));
        for (resource_index, resource) in status.list("allocatedResourcesStatus").iter().enumerate() {
            let path = path.index(index).child("allocatedResourcesStatus").index(resource_index);
            if let Some(container) = container {
                is_asked_for(errors, resource.text("name"), container.part("resources"), &path.child("name"));
            }
            health(errors, resource.list("resources"), &path.child("resources"));
        }
    }
}

fn is_asked_for(errors: &mut Errors, name: &str, requirements: &Value, path: &FieldPath) {
    let (is_found, detail) = match name.strip_prefix("claim:") {
        Some(claim_name) => {
            let is_wanted = |claim: &Value| match claim.text("request") {
                "" => claim.text("name") == claim_name,
                request => claim_name.split_once('/') == Some((claim.text("name"), request)),
            };
            let detail = "must match one of the container's resource claims in a format \
                          'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            (requirements.list("claims").iter().any(is_wanted), detail)
        }
        None => {
            let detail = "must match one of the container's resource requests";
            (requirements.part("requests").get(name).is_some(), detail)
        }
    };
    if !is_found {
        errors.push(FieldError::invalid(path, named(name), detail));
    }
}

fn health(errors: &mut Errors, devices: &[Value], path: &FieldPath) {
    const LIMIT: usize = 1024;
    let mut seen = HashSet::new();
    for (index, device) in devices.iter().enumerate() {
        let path = path.index(index);
        let health = device.text("health");
        if !matches!(health, "Healthy" | "Unhealthy" | "Unknown") {
            let supported = ["Healthy", "Unhealthy", "Unknown"];
            errors.push(FieldError::not_supported(&path.child("health"), named(health), &supported));
        }
        match device.optional_text("message") {
            Some("") => {
                let detail = "must be non-empty if specified";
                errors.push(FieldError::required(&path.child("message"), detail));
            }
            Some(message) if message.len() > LIMIT => {
                errors.push(FieldError::too_long(&path.child("message"), LIMIT));
            }
            _ => {}
        }
        let id = device.text("resourceID");
        if !seen.insert(id) {
            errors.push(FieldError::duplicate(&path.child("resourceID"), named(id)));
        }
    }
}
