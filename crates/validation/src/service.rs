//! Services.

// upstream: pkg/apis/core/validation/validation.go

mod addresses;

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use atoll_meta::{FieldError, FieldPath, names, object};
use serde_json::Value;

use crate::Checks;
use crate::addresses::{legacy, legacy_range, parse};
use crate::field_value::{Errors, FieldValue};
use crate::ports;

pub(crate) static SERVICES: Checks = Checks { create, update, subresource };

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const MAX_AFFINITY_SECONDS: i64 = 86_400;

fn create(service: &Value) -> Errors {
    let mut errors = addresses::allocation_errors(service, None);
    if errors.is_empty() {
        validate(&mut errors, service, None);
    }
    errors
}

fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = addresses::allocation_errors(new, Some(old));
    if !errors.is_empty() {
        return errors;
    }
    let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
    addresses::changed(&mut errors, &spec, &before);
    load_balancer_class(&mut errors, &spec, Some(&before));
    if needs_health_check(&spec) && needs_health_check(&before) {
        let port = spec.get("healthCheckNodePort");
        if port.value != before.get("healthCheckNodePort").value {
            errors.push(port.forbidden("field is immutable"));
        }
    }
    validate(&mut errors, new, Some(old));
    errors
}

fn subresource(name: &str, new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    if name != "status" {
        return errors;
    }
    let ingresses = FieldValue::field(new, "status").get("loadBalancer").get("ingress");
    if !is_load_balancer(&FieldValue::field(new, "spec")) && !ingresses.is_empty() {
        errors.push(ingresses.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return errors;
    }
    let before = FieldValue::field(old, "status").get("loadBalancer").get("ingress");
    let known: Vec<&str> =
        before.items().map(|ingress| ingress.text_of("ip")).filter(|ip| !ip.is_empty()).collect();
    for ingress in ingresses.items() {
        let (ip, mode, host) = (ingress.get("ip"), ingress.get("ipMode"), ingress.get("hostname"));
        if !ip.is_empty() {
            legacy(&mut errors, &ip, &known);
        }
        match (mode.is_set(), ip.is_empty()) {
            (false, false) => errors.push(mode.required("must be specified when `ip` is set")),
            (true, true) => errors.push(mode.forbidden("may not be specified when `ip` is not set")),
            (true, false) if !matches!(mode.text(), "Proxy" | "VIP") => {
                errors.push(mode.unsupported(&["Proxy", "VIP"]));
            }
            _ => {}
        }
        host_name(&mut errors, &host);
    }
    errors
}

/// Checks the host name of a load balancer's ingress point.
pub(crate) fn host_name(errors: &mut Errors, host: &FieldValue<'_>) {
    if host.is_empty() {
        return;
    }
    host.rules(errors, names::dns1123_subdomain(host.text()));
    if parse(host.text()).is_some() {
        errors.push(host.invalid("must be a DNS name, not an IP address"));
    }
}

fn is_load_balancer(spec: &FieldValue<'_>) -> bool {
    spec.text_of("type") == "LoadBalancer"
}

fn is_headless(spec: &FieldValue<'_>) -> bool {
    spec.get("clusterIPs").list() == ["None"]
}

fn needs_health_check(spec: &FieldValue<'_>) -> bool {
    is_load_balancer(spec) && spec.text_of("externalTrafficPolicy") == "Local"
}

fn validate(errors: &mut Errors, service: &Value, old: Option<&Value>) {
    let spec = FieldValue::field(service, "spec");
    let annotation = |key: &str| object::annotation(service, key);
    if let (Some(hints), Some(mode)) = (annotation(HINTS), annotation(MODE))
        && hints != mode
    {
        let path = FieldPath::new("metadata").child("annotations").key(MODE);
        let detail = format!("must match annotations[{HINTS}] when both are specified");
        errors.push(FieldError::invalid(&path, mode, detail));
    }
    let (ports, kind, headless) = (spec.get("ports"), spec.get("type"), is_headless(&spec));
    if ports.is_empty() && !headless && kind.text() != "ExternalName" {
        errors.push(ports.required(""));
    }
    match kind.text() {
        name @ ("LoadBalancer" | "NodePort") if headless => {
            errors.extend(
                spec.get("clusterIPs")
                    .items()
                    .next()
                    .map(|ip| ip.invalid(format!("may not be set to 'None' for {name} services"))),
            );
        }
        "ExternalName" => external_name(errors, &spec),
        _ => {}
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        service_port(errors, &port, ports.len() > 1, &mut seen);
    }
    let selector = spec.get("selector");
    errors.extend(object::validate_labels(selector.text_entries(), &selector.path));
    affinity(errors, &spec);
    let before = FieldValue::under(old.and_then(|old| old.get("spec")), FieldPath::nil());
    addresses::external_ips(errors, &spec, &before);
    kind.one_of(errors, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    if kind.text() == "ClusterIP" {
        let used = ports.items().filter(|port| port.has("nodePort"));
        errors.extend(
            used.map(|port| port.get("nodePort").forbidden("may not be used when `type` is 'ClusterIP'")),
        );
    }
    duplicate_ports(errors, &ports);
    source_ranges(errors, service, old);
    let allocate = spec.get("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !is_load_balancer(&spec) {
        errors.push(allocate.forbidden(ONLY_LOAD_BALANCER));
    }
    if is_load_balancer(&spec) && !allocate.is_set() {
        // Upstream's path lacks the parents.
        errors.push(FieldError::required(&FieldPath::new("allocateLoadBalancerNodePorts"), ""));
    }
    load_balancer_class(errors, &spec, None);
    traffic(errors, &spec);
}

fn external_name(errors: &mut Errors, spec: &FieldValue<'_>) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.has(field) {
            errors.push(spec.get(field).forbidden("may not be set for ExternalName services"));
        }
    }
    let name = spec.get("externalName");
    let canonical = name.text().strip_suffix('.').unwrap_or(name.text());
    if canonical.is_empty() {
        errors.push(name.required(""));
    } else {
        let broken = names::dns1123_subdomain(canonical);
        errors.extend(broken.into_iter().map(|rule| name.invalid_as(canonical, rule)));
    }
}

fn service_port<'a>(errors: &mut Errors, port: &FieldValue<'a>, named: bool, seen: &mut HashSet<&'a str>) {
    let name = port.get("name");
    if !name.is_empty() {
        name.rules(errors, names::dns1123_label(name.text()));
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    } else if named {
        errors.push(name.required(""));
    }
    ports::number(errors, &port.get("port"));
    port.get("protocol").one_of(errors, ports::PROTOCOLS);
    ports::number_or_name(errors, &port.get("targetPort"));
    let protocol = port.get("appProtocol");
    if protocol.is_set() {
        protocol.rules(errors, names::qualified_name(protocol.text()));
    }
}

fn duplicate_ports(errors: &mut Errors, ports: &FieldValue<'_>) {
    if ports.len() < 2 {
        return;
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        if let Some(number) = port.given("nodePort")
            && !seen.insert((port.text_of("protocol"), number.integer()))
        {
            errors.push(number.duplicate());
        }
    }
    seen.clear();
    for port in ports.items() {
        let (protocol, number) = (port.text_of("protocol"), port.get("port").integer());
        if !seen.insert((protocol, number)) {
            let rendered = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                BadValue::named_text(protocol)
            );
            errors.push(FieldError::duplicate(&port.path, BadValue::Rendered(rendered)));
        }
    }
}

fn affinity(errors: &mut Errors, spec: &FieldValue<'_>) {
    let (affinity, config) = (spec.get("sessionAffinity"), spec.get("sessionAffinityConfig"));
    affinity.one_of(errors, &["ClientIP", "None"]);
    match affinity.text() {
        "ClientIP" => {
            let client = config.get("clientIP");
            let timeout = client.get("timeoutSeconds");
            let missing = [&config, &client, &timeout].into_iter().find(|part| !part.is_set());
            if let Some(missing) = missing {
                errors.push(missing.required("when session affinity type is ClientIP"));
            } else if !(1..=MAX_AFFINITY_SECONDS).contains(&timeout.number().unwrap_or_default()) {
                let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                errors.push(timeout.invalid(detail));
            }
        }
        "None" if config.is_set() => {
            errors.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

fn source_ranges(errors: &mut Errors, service: &Value, old: Option<&Value>) {
    let spec = FieldValue::field(service, "spec");
    let ranges = spec.get("loadBalancerSourceRanges").with_path(spec.path.child("LoadBalancerSourceRanges"));
    if !ranges.is_empty() {
        if !is_load_balancer(&spec) {
            errors.push(ranges.forbidden(ONLY_LOAD_BALANCER));
        }
        let before = FieldValue::under(old.and_then(|old| old.get("spec")), FieldPath::nil());
        let before: Vec<&str> = before.get("loadBalancerSourceRanges").texts().map(str::trim).collect();
        for range in ranges.items() {
            legacy_range(errors, &range, range.text().trim(), &before);
        }
    } else if let Some(annotation) = object::annotation(service, SOURCE_RANGES) {
        let path = FieldPath::new("metadata").child("annotations").key(SOURCE_RANGES);
        let field = FieldValue::under(None, path);
        if !is_load_balancer(&spec) {
            errors.push(field.forbidden(ONLY_LOAD_BALANCER));
        }
        let before = old.map(|old| object::annotation(old, SOURCE_RANGES).unwrap_or_default());
        let annotation = if before == Some(annotation) { "" } else { annotation.trim() };
        for range in annotation.split(',').filter(|_| !annotation.is_empty()) {
            legacy_range(errors, &field, range.trim(), &[]);
        }
    }
}

fn load_balancer_class(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    let class = spec.get("loadBalancerClass");
    if let Some(old) = old
        && is_load_balancer(old)
        && is_load_balancer(spec)
        && old.get("loadBalancerClass").value != class.value
    {
        errors.push(class.invalid_as(render_pointer(&class), "may not change once set"));
    }
    if class.is_set() {
        if is_load_balancer(spec) {
            class.rules(errors, names::qualified_name(class.text()));
        } else {
            errors.push(class.forbidden(ONLY_LOAD_BALANCER));
        }
    }
}

/// Renders a pointer to a string, which upstream shows as JSON.
fn render_pointer(field: &FieldValue<'_>) -> BadValue {
    if field.is_set() { field.named() } else { BadValue::Value(Value::Null) }
}

fn traffic(errors: &mut Errors, spec: &FieldValue<'_>) {
    let (kind, policy) = (spec.text_of("type"), spec.get("externalTrafficPolicy"));
    let accessible = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !spec.get("externalIPs").is_empty());
    if accessible {
        policy.one_of(errors, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        errors.push(policy.invalid_as(policy.named(), "may only be set for externally-accessible services"));
    }
    let port = spec.get("healthCheckNodePort");
    let number = port.number().unwrap_or_default();
    if needs_health_check(spec) {
        // A node port of zero is allocated later.
        if number != 0 {
            port.number_rules(errors, names::port_number(number));
        }
    } else if number != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(port.invalid(detail));
    }
    let policy = spec.get("internalTrafficPolicy");
    if policy.is_set() {
        if !matches!(policy.text(), "Cluster" | "Local") {
            errors.push(policy.unsupported(&["Cluster", "Local"]));
        }
    } else if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        errors.push(policy.required(""));
    }
    let distribution = spec.get("trafficDistribution");
    let known = &["PreferClose", "PreferSameZone", "PreferSameNode"];
    if distribution.is_set() && !known.contains(&distribution.text()) {
        errors.push(distribution.unsupported_text(known));
    }
}
