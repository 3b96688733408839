//! The status of a pod.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::{FieldError, names};
use serde_json::Value;

use super::annotations;
use crate::field_value::{Errors, FieldValue};
use crate::{addresses as ip, internal, resources};

const NOT_NEGATIVE: &str = "must be a non-negative integer";
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// Checks an update of the status.
pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    annotations::check_update(&mut errors, new, old);
    let (status, before) = (FieldValue::field(new, "status"), FieldValue::field(old, "status"));
    let (spec, old_spec) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
    conditions(&mut errors, &status);
    node_names(&mut errors, &status, &before, spec.text_of("nodeName"), old_spec.text_of("nodeName"));
    not_negative(&mut errors, &status.get("observedGeneration"));
    let class = status.get("qosClass");
    if class.text() != before.text_of("qosClass") {
        errors.push(class.invalid_named(FIELD_IS_IMMUTABLE));
    }
    transitions(&mut errors, &status, &before, &old_spec);
    resource_claims(&mut errors, &status, &spec);
    if let Some(claim) = status.given("extendedResourceClaimStatus") {
        extended_claim(&mut errors, &claim, &spec);
    }
    allocatable_claims(&mut errors, &status, &spec);
    let host_addresses = status.get("hostIPs");
    addresses(&mut errors, &status.get("podIPs"), &before.get("podIPs"), "PodIP");
    let first = host_addresses.items().next().map(|first| first.get("ip"));
    if let Some(first) = first.filter(|first| first.text() != status.text_of("hostIP")) {
        errors.push(first.invalid_text("must be equal to `hostIP`"));
    }
    addresses(&mut errors, &host_addresses, &before.get("hostIPs"), "HostIP");
    for (field, _) in STATUSES {
        users(&mut errors, &status.get(field), &spec);
    }
    for (field, containers) in &STATUSES[..2] {
        allocated(&mut errors, &status.get(field), &spec.get(containers));
    }
    for container in status.get("ephemeralContainerStatuses").items() {
        let allocated = container.get("allocatedResourcesStatus");
        if !allocated.is_empty() {
            errors.push(allocated.forbidden("must not be specified in container status"));
        }
    }
    errors
}

fn not_negative(errors: &mut Errors, generation: &FieldValue<'_>) {
    if generation.integer() < 0 {
        errors.push(generation.invalid_integer(NOT_NEGATIVE));
    }
}

fn conditions(errors: &mut Errors, status: &FieldValue<'_>) {
    for condition in status.get("conditions").items() {
        not_negative(errors, &condition.get("observedGeneration"));
        let kind = condition.text_of("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            let kind = condition.get("type").with_path(condition.path.child("Type"));
            kind.rules(errors, names::qualified_name(kind.text()));
        }
    }
}

fn node_names(
    errors: &mut Errors,
    status: &FieldValue<'_>,
    before: &FieldValue<'_>,
    node: &str,
    old_node: &str,
) {
    if node != old_node {
        // Upstream reports a field of the status, although it is in the spec.
        errors.push(status.get("nodeName").forbidden("may not be changed directly"));
    }
    let nominated = status.get("nominatedNodeName");
    if nominated.is_empty() || nominated.text() == before.text_of("nominatedNodeName") {
        return;
    }
    nominated.rules(errors, names::name_is_dns_subdomain(nominated.text(), false));
    if !old_node.is_empty() {
        errors.push(nominated.forbidden("may not be set on pods that are already bound to a node"));
    }
}

/// Checks that only restartable containers leave the terminated state.
fn transitions(errors: &mut Errors, status: &FieldValue<'_>, before: &FieldValue<'_>, spec: &FieldValue<'_>) {
    let restarts_all = |container: FieldValue<'_>| {
        let rules = container.get("restartPolicyRules");
        rules.items().any(|rule| rule.text_of("action") == "RestartAllContainers")
    };
    let restarts_all =
        ["containers", "initContainers"].iter().any(|field| spec.get(field).items().any(restarts_all));
    for (field, containers) in STATUSES {
        let is_ephemeral = field == "ephemeralContainerStatuses";
        if restarts_all && !is_ephemeral {
            continue;
        }
        let (containers, statuses) = (spec.get(containers), status.get(field));
        for was in before.get(field).items() {
            let Some(terminated) = was.get("state").given("terminated") else { continue };
            let name = was.text_of("name");
            let is_named = |other: &FieldValue<'_>| other.text_of("name") == name;
            let exit_code = terminated.get("exitCode").integer();
            let restarts = !is_ephemeral
                && containers
                    .items()
                    .find(is_named)
                    .is_some_and(|container| is_restarted(&container, spec, exit_code));
            if restarts {
                continue;
            }
            let lives =
                statuses.items().filter(is_named).filter(|status| !status.get("state").has("terminated"));
            for _ in lives.take(if is_ephemeral { usize::MAX } else { 1 }) {
                let detail = "may not be transitioned to non-terminated state";
                errors.push(was.get("state").forbidden(detail));
            }
        }
    }
}

/// Whether a container is restarted after this exit code: its restart rules decide first, then its own
/// policy, then the pod's.
fn is_restarted(container: &FieldValue<'_>, spec: &FieldValue<'_>, exit_code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "OnFailure" => exit_code != 0,
        "Never" => false,
        _ => true,
    };
    let Some(policy) = container.get("restartPolicy").optional_text() else {
        return by_policy(spec.text_of("restartPolicy"));
    };
    let matches = |rule: FieldValue<'_>| {
        let codes = rule.get("exitCodes");
        let is_listed = codes.get("values").list().iter().any(|code| code.as_i64() == Some(exit_code));
        match codes.text_of("operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    container.get("restartPolicyRules").items().any(matches) || by_policy(policy)
}

fn resource_claims(errors: &mut Errors, status: &FieldValue<'_>, spec: &FieldValue<'_>) {
    let claims = spec.get("resourceClaims");
    let mut seen = HashSet::new();
    for claim in status.get("resourceClaimStatuses").items() {
        let name = claim.get("name");
        if !claims.items().any(|other| other.text_of("name") == name.text()) {
            errors.push(name.invalid_text("must match the name of an entry in `spec.resourceClaims`"));
        }
        if !seen.insert(name.text()) {
            errors.push(name.duplicate_as(name.text()));
        }
        if let Some(name) = claim.given("resourceClaimName") {
            let broken = names::name_is_dns_subdomain(name.text(), false);
            errors.extend(broken.into_iter().map(|rule| name.invalid_named(rule)));
        }
    }
}

fn extended_claim(errors: &mut Errors, claim: &FieldValue<'_>, spec: &FieldValue<'_>) {
    let mappings = claim.get("requestMappings");
    if mappings.is_empty() {
        errors.push(mappings.required("at least one request mapping is required"));
    }
    let (containers, init) = (spec.get("containers"), spec.get("initContainers"));
    let mut seen = HashSet::new();
    for mapping in mappings.items() {
        let parts = ["containerName", "resourceName", "requestName"].map(|field| mapping.get(field));
        let [container, resource, request] = &parts;
        let mut all = containers.items().chain(init.items());
        match all.find(|other| other.text_of("name") == container.text()) {
            Some(found) => {
                if found.get("resources").get("requests").value.get(resource.text()).is_none() {
                    let detail = "must match the extended resource name of an entry in \
                                  spec.initContainers.resources.requests or spec.containers.resources.requests";
                    errors.push(resource.invalid_text(detail));
                }
            }
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(container.invalid_text(detail));
            }
        }
        let of_claim = request.with_path(claim.path.child("requestName"));
        of_claim.rules(errors, names::dns1123_label(request.text()));
        if !seen.insert([container.text(), resource.text(), request.text()]) {
            errors.extend(parts.iter().map(|part| part.duplicate_as(part.text())));
        }
    }
    let name = claim.get("resourceClaimName");
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        name.rules(errors, names::name_is_dns_subdomain(name.text(), false));
    }
}

fn allocatable_claims(errors: &mut Errors, status: &FieldValue<'_>, spec: &FieldValue<'_>) {
    const NOT_EMPTY: &str = "must not be empty";
    let (claims, statuses) = (spec.get("resourceClaims"), status.get("resourceClaimStatuses"));
    for claim in status.get("nodeAllocatableResourceClaimStatuses").items() {
        let (name, containers) = (claim.get("resourceClaimName"), claim.get("containers"));
        if name.is_empty() {
            errors.push(name.required(NOT_EMPTY));
        }
        let mut known = claims.items().chain(statuses.items()).map(|other| other.get("resourceClaimName"));
        if !known.any(|other| other.optional_text() == Some(name.text())) {
            errors.push(name.invalid_text("no mapping found in pod reference"));
        }
        let amounts = claim.get("resources");
        for list in [&containers, &amounts] {
            if list.is_empty() {
                errors.push(list.required(NOT_EMPTY));
            }
        }
        for (name, field) in amounts.entries() {
            if !resources::is_native(name) {
                let detail = "must be a node allocatable resource name";
                errors.push(field.invalid_as(BadValue::named_text(name), detail));
            }
            if let Some(amount) = field.quantity().filter(|amount| amount.is_negative()) {
                errors.push(field.invalid_as(amount.to_string(), "must be non-negative"));
            }
        }
    }
}

/// Checks that there is at most one address per IP family.
fn addresses(errors: &mut Errors, addresses: &FieldValue<'_>, before: &FieldValue<'_>, kind: &str) {
    let old: Vec<&str> = before.items().map(|address| address.text_of("ip")).collect();
    for address in addresses.items() {
        // Upstream reports the element, not its address.
        ip::legacy(errors, &address.get("ip").with_path(address.path), &old);
    }
    if addresses.len() < 2 {
        return;
    }
    let texts: Vec<&str> = addresses.items().map(|address| address.text_of("ip")).collect();
    let parsed: Vec<Option<std::net::IpAddr>> = texts.iter().map(|text| ip::parse(text)).collect();
    let unknown = texts.iter().zip(&parsed).position(|(_, address)| address.is_none());
    if let Some(index) = unknown {
        let detail =
            format!("failed to check for dual stack with error:invalid IP[{index}]: {}", texts[index]);
        errors.push(FieldError::internal(&addresses.path, detail));
    }
    let is_dual = unknown.is_none()
        && parsed.iter().flatten().any(|address| address.is_ipv4())
        && parsed.iter().flatten().any(|address| address.is_ipv6());
    if !is_dual || addresses.len() > 2 {
        let detail = "may specify no more than one IP for each IP family";
        errors.push(addresses.invalid_as(internal::render_list(kind, addresses.value), detail));
    }
}

fn users(errors: &mut Errors, statuses: &FieldValue<'_>, spec: &FieldValue<'_>) {
    for status in statuses.items() {
        let Some(user) = status.get("user").given("linux") else { continue };
        match spec.given("os").map_or("linux", |os| os.text_of("name")) {
            "windows" => errors.push(user.forbidden("cannot be set for a windows pod")),
            "linux" => {
                for field in ["uid", "gid"] {
                    let id = user.get(field);
                    id.number_rules(errors, names::unix_id(id.integer()));
                }
                for group in user.get("supplementalGroups").items() {
                    group.number_rules(errors, names::unix_id(group.integer()));
                }
            }
            _ => {}
        }
    }
}

/// Checks the health of allocated resources.
fn allocated(errors: &mut Errors, statuses: &FieldValue<'_>, containers: &FieldValue<'_>) {
    for status in statuses.items() {
        let container = containers.items().find(|other| other.text_of("name") == status.text_of("name"));
        for resource in status.get("allocatedResourcesStatus").items() {
            if let Some(container) = &container {
                is_asked_for(errors, &resource.get("name"), &container.get("resources"));
            }
            health(errors, &resource.get("resources"));
        }
    }
}

fn is_asked_for(errors: &mut Errors, name: &FieldValue<'_>, requirements: &FieldValue<'_>) {
    let (is_found, detail) = match name.text().strip_prefix("claim:") {
        Some(claim_name) => {
            let is_wanted = |claim: FieldValue<'_>| match claim.text_of("request") {
                "" => claim.text_of("name") == claim_name,
                request => claim_name.split_once('/') == Some((claim.text_of("name"), request)),
            };
            let detail = "must match one of the container's resource claims in a format \
                          'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            (requirements.get("claims").items().any(is_wanted), detail)
        }
        None => {
            let detail = "must match one of the container's resource requests";
            (requirements.get("requests").value.get(name.text()).is_some(), detail)
        }
    };
    if !is_found {
        errors.push(name.invalid_named(detail));
    }
}

fn health(errors: &mut Errors, devices: &FieldValue<'_>) {
    const LIMIT: usize = 1024;
    let mut seen = HashSet::new();
    for device in devices.items() {
        let (health, message, id) = (device.get("health"), device.get("message"), device.get("resourceID"));
        if !matches!(health.text(), "Healthy" | "Unhealthy" | "Unknown") {
            errors.push(health.unsupported(&["Healthy", "Unhealthy", "Unknown"]));
        }
        if message.is_set() && message.is_empty() {
            errors.push(message.required("must be non-empty if specified"));
        } else if message.len() > LIMIT {
            errors.push(message.too_long(LIMIT));
        }
        if !seen.insert(id.text()) {
            errors.push(id.duplicate_as(id.named()));
        }
    }
}
