//! Dependent fields of a Service: defaults for missing fields, and previous values that are kept.

// upstream: pkg/registry/core/service/storage/alloc.go
// upstream: pkg/registry/core/service/strategy.go

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use atoll_meta::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::Network;
use super::address::family;

pub const NONE: &str = "None";

pub fn text<'a>(service: &'a Value, field: &str) -> &'a str {
    service["spec"][field].as_str().unwrap_or_default()
}

pub fn list<'a>(service: &'a Value, field: &str) -> Vec<&'a str> {
    service["spec"][field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub fn set(service: &mut Value, field: &str, value: Option<Value>) {
    let Some(spec) = service["spec"].as_object_mut() else { return };
    match value {
        Some(value) => spec.insert(field.into(), value),
        None => spec.remove(field),
    };
}

pub fn number(value: &Value, field: &str) -> i64 {
    value[field].as_i64().unwrap_or(0)
}

/// The node ports of a Service, in the order of its ports.
pub fn node_ports(service: &Value) -> Vec<i64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.map(|port| number(port, "nodePort")).filter(|port| *port != 0).collect()
}

pub fn needs_address(service: &Value) -> bool {
    text(service, "type") != "ExternalName"
}

pub fn is_headless(service: &Value) -> bool {
    list(service, "clusterIPs").first() == Some(&NONE)
}

/// Whether the type has node ports.
pub fn has_node_ports(service: &Value) -> bool {
    matches!(text(service, "type"), "NodePort" | "LoadBalancer")
}

/// Whether missing node ports are allocated.
pub fn allocates_node_ports(service: &Value) -> bool {
    has_node_ports(service)
        && (text(service, "type") == "NodePort" || service["spec"]["allocateLoadBalancerNodePorts"] != false)
}

pub fn needs_health_port(service: &Value) -> bool {
    text(service, "type") == "LoadBalancer" && text(service, "externalTrafficPolicy") == "Local"
}

fn same(new: &Value, old: &Value, field: &str) -> bool {
    list(new, field) == list(old, field)
}

/// Keeps allocated values that the request omits.
pub fn keep_allocated(new: &mut Value, old: &Value) {
    if needs_address(old) && needs_address(new) {
        if text(new, "clusterIP").is_empty() {
            set(new, "clusterIP", old["spec"].get("clusterIP").cloned());
        }
        if list(new, "clusterIPs").is_empty() {
            set(new, "clusterIPs", old["spec"].get("clusterIPs").cloned());
        }
    }
    if allocates_node_ports(old) && allocates_node_ports(new) {
        let set = |service: &Value| node_ports(service).into_iter().collect::<HashSet<i64>>();
        let (before, now) = (set(old), set(new));
        let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_string();
        let known = old["spec"]["ports"].as_array().into_iter().flatten();
        let known: HashMap<String, i64> = known.map(|port| (name(port), number(port, "nodePort"))).collect();
        for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
            let own = known.get(&name(port)).copied().unwrap_or(0);
            let taken = before.contains(&own) && now.contains(&own);
            if number(port, "nodePort") == 0 && own != 0 && !taken {
                port["nodePort"] = own.into();
            }
        }
    }
    if needs_health_port(old) && needs_health_port(new) && number(&new["spec"], "healthCheckNodePort") == 0 {
        set(new, "healthCheckNodePort", old["spec"].get("healthCheckNodePort").cloned());
    }
}

/// Synchronises `clusterIPs` with `clusterIP`.
pub fn align_addresses(new: &mut Value, old: Option<&Value>) {
    let own = text(new, "clusterIP").to_string();
    let Some(old) = old else {
        if !own.is_empty() && list(new, "clusterIPs").is_empty() {
            set(new, "clusterIPs", Some(json!([own])));
        }
        return;
    };
    let before = text(old, "clusterIP");
    if list(new, "clusterIPs").is_empty() && before == own {
        set(new, "clusterIPs", old["spec"].get("clusterIPs").cloned());
    }
    if before != own && same(new, old, "clusterIPs") {
        let cleared = own.is_empty();
        set(new, "clusterIPs", if cleared { None } else { Some(json!([own])) });
    }
}

/// Whether both Services prefer dual stack and their address fields are equal: then no address is allocated
/// or released, even if the network has changed.
pub fn is_network_unchanged(new: &Value, old: &Value) -> bool {
    let prefer = |service: &Value| matches!(text(service, "ipFamilyPolicy"), "PreferDualStack" | "");
    let typed = matches!(text(new, "type"), "ClusterIP" | "NodePort" | "LoadBalancer");
    typed
        && text(new, "type") == text(old, "type")
        && text(new, "ipFamilyPolicy") == "PreferDualStack"
        && prefer(old)
        && same(new, old, "clusterIPs")
        && same(new, old, "ipFamilies")
}

/// Fills in the address families and the family policy.
pub fn families(new: &mut Value, old: Option<&Value>, network: &Network) -> Result<(), Vec<FieldError>> {
    if !needs_address(new) || old.is_some_and(|old| is_network_unchanged(new, old)) {
        return Ok(());
    }
    let unselective = new["spec"]["selector"].as_object().is_none_or(|labels| labels.is_empty());
    let lonely = text(new, "clusterIP") == NONE && unselective;
    if text(new, "ipFamilyPolicy").is_empty() {
        let before = old.map(|old| text(old, "ipFamilyPolicy")).filter(|policy| !policy.is_empty());
        let policy = before.unwrap_or(if lonely { "RequireDualStack" } else { "SingleStack" }).to_string();
        set(new, "ipFamilyPolicy", Some(policy.into()));
    }
    let mut errors = check_policy(new, old);
    let has = |family: &str| network.ranges.iter().any(|range| range.family() == family);
    let primary = network.ranges.first().map_or("IPv4", |range| range.family());
    let addresses: Vec<String> = list(new, "clusterIPs").into_iter().map(String::from).collect();
    let mut families: Vec<String> = list(new, "ipFamilies").into_iter().map(String::from).collect();
    for (index, address) in addresses.iter().enumerate().skip(families.len()) {
        // Invalid addresses are refused later by validation.
        let Ok(parsed) = address.parse::<IpAddr>() else { break };
        if has(family(parsed)) {
            families.push(family(parsed).into());
        } else {
            let path = FieldPath::new("spec").child("clusterIPs").index(index);
            let message = format!("{} is not configured on this cluster", family(parsed));
            errors.push(FieldError::invalid(&path, json!(addresses), message));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let single = text(new, "ipFamilyPolicy") == "SingleStack";
    if !lonely {
        errors = check_network(new, &families, network);
        if !errors.is_empty() {
            return Err(errors);
        }
    }
    if families.is_empty() {
        families.push(primary.into());
    }
    if families.len() == 1 && !single && (lonely || network.ranges.len() == 2) {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
    }
    set(new, "ipFamilies", Some(json!(families)));
    Ok(())
}

/// Checks the policy against the number of addresses; single stack drops the secondary ones.
fn check_policy(new: &mut Value, old: Option<&Value>) -> Vec<FieldError> {
    let path = FieldPath::new("spec").child("ipFamilyPolicy");
    let policy = text(new, "ipFamilyPolicy").to_string();
    let mut errors = Vec::new();
    let single = policy == "SingleStack";
    let what = [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")];
    if let Some(old) = old {
        for (field, noun) in what {
            let (now, before) = (list(new, field).len(), list(old, field).len());
            if single && same(new, old, field) && now > 1 {
                let first = new["spec"][field][0].clone();
                set(new, field, Some(json!([first])));
            } else if !single && now > 0 && now < before {
                let message = format!("must be 'SingleStack' to release the secondary {noun}");
                errors.push(FieldError::invalid(&path, policy.as_str(), message));
            }
        }
    }
    for (field, noun) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if single && list(new, field).len() == 2 {
            let message =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified");
            errors.push(FieldError::invalid(&path, policy.as_str(), message));
        }
    }
    errors
}

fn check_network(new: &Value, families: &[String], network: &Network) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut errors = Vec::new();
    if text(new, "ipFamilyPolicy") == "RequireDualStack" && network.ranges.len() < 2 {
        let message = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(&spec.child("ipFamilyPolicy"), "RequireDualStack", message));
    }
    for (index, family) in families.iter().enumerate() {
        if !network.ranges.iter().any(|range| range.family() == family) {
            let path = spec.child("ipFamilies").index(index);
            errors.push(FieldError::invalid(&path, family.as_str(), "not configured on this cluster"));
        }
    }
    errors
}

/// Drops fields that the new type of a Service does not have, unless the request changed them.
pub fn drop_type_dependent_fields(new: &mut Value, old: &Value) {
    if needs_address(old) && !needs_address(new) {
        if text(new, "clusterIP") == text(old, "clusterIP") && same(new, old, "clusterIPs") {
            set(new, "clusterIP", None);
            set(new, "clusterIPs", None);
        }
        if same(new, old, "ipFamilies") {
            set(new, "ipFamilies", None);
        }
        if text(new, "ipFamilyPolicy") == text(old, "ipFamilyPolicy") {
            set(new, "ipFamilyPolicy", None);
        }
    }
    let before = node_ports(old);
    let no_new_ones = node_ports(new).iter().all(|port| before.contains(port));
    if has_node_ports(old) && !has_node_ports(new) && no_new_ones {
        for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
            port.as_object_mut().map(|fields| fields.remove("nodePort"));
        }
    }
    let mut drop_field = |applies: fn(&Value) -> bool, field: &str| {
        if applies(old) && !applies(new) && new["spec"].get(field) == old["spec"].get(field) {
            set(new, field, None);
        }
    };
    let balanced = |service: &Value| text(service, "type") == "LoadBalancer";
    let reachable = |service: &Value| {
        let outside =
            service["spec"]["externalIPs"].as_array().is_some_and(|addresses| !addresses.is_empty());
        has_node_ports(service) || (text(service, "type") == "ClusterIP" && outside)
    };
    drop_field(needs_health_port, "healthCheckNodePort");
    drop_field(balanced, "allocateLoadBalancerNodePorts");
    drop_field(balanced, "loadBalancerClass");
    drop_field(reachable, "externalTrafficPolicy");
    if !balanced(new) && new["status"].get("loadBalancer").is_some() {
        new["status"]["loadBalancer"] = json!({});
    }
}
