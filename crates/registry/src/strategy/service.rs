//! Services: what a change of type leaves behind is dropped, unless it was meant.

use atoll_meta::names;
use serde_json::{Map, Value, json};

use super::{Context, Strategy, field, text};

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_dns1035_label,
    create_on_update: true,
    returns_deleted: true,
    fields: &[field("spec.clusterIP"), field("spec.type")],
    prepare_update,
    ..Strategy::GENERIC
};

fn prepare_update(new: &mut Value, old: &Value, _: &Context<'_>) {
    if text(new, "spec.type") != "LoadBalancer" && new["status"].is_object() {
        new["status"]["loadBalancer"] = json!({});
    }
    let (Some(spec), Some(before)) =
        (new.get_mut("spec").and_then(Value::as_object_mut), old["spec"].as_object())
    else {
        return;
    };
    let has_address = |spec: &Map<String, Value>| spec.get("type").is_none_or(|kind| kind != "ExternalName");
    if has_address(before) && !has_address(spec) {
        if same(spec, before, "clusterIP") && same(spec, before, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        drop_same(spec, before, "ipFamilies");
        drop_same(spec, before, "ipFamilyPolicy");
    }
    let has_node_ports = |spec: &Map<String, Value>| is(spec, "NodePort") || is(spec, "LoadBalancer");
    if has_node_ports(before) && !has_node_ports(spec) {
        drop_node_ports(spec, before);
    }
    let is_checked = |spec: &Map<String, Value>| {
        is(spec, "LoadBalancer") && spec.get("externalTrafficPolicy").is_some_and(|policy| policy == "Local")
    };
    if is_checked(before) && !is_checked(spec) {
        drop_same(spec, before, "healthCheckNodePort");
    }
    if is(before, "LoadBalancer") && !is(spec, "LoadBalancer") {
        drop_same(spec, before, "allocateLoadBalancerNodePorts");
        drop_same(spec, before, "loadBalancerClass");
    }
    let is_external = |spec: &Map<String, Value>| {
        let addresses = spec.get("externalIPs").and_then(Value::as_array);
        has_node_ports(spec) || (is(spec, "ClusterIP") && addresses.is_some_and(|ips| !ips.is_empty()))
    };
    if is_external(before) && !is_external(spec) {
        drop_same(spec, before, "externalTrafficPolicy");
    }
}

fn is(spec: &Map<String, Value>, kind: &str) -> bool {
    spec.get("type").is_some_and(|own| own == kind)
}

fn same(new: &Map<String, Value>, old: &Map<String, Value>, name: &str) -> bool {
    new.get(name) == old.get(name)
}

fn drop_same(new: &mut Map<String, Value>, old: &Map<String, Value>, name: &str) {
    if same(new, old, name) {
        new.remove(name);
    }
}

/// Ports may come and go meanwhile, as long as none asks for a node port that it did not have.
fn drop_node_ports(new: &mut Map<String, Value>, old: &Map<String, Value>) {
    fn ports(spec: &Map<String, Value>) -> impl Iterator<Item = &Value> {
        let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
        ports.filter_map(|port| port.get("nodePort"))
    }
    if !ports(new).all(|port| ports(old).any(|own| own == port)) {
        return;
    }
    for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        port.as_object_mut().map(|fields| fields.remove("nodePort"));
    }
}
