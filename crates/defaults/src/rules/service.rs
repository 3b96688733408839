//! Services.

// upstream: pkg/apis/core/v1/defaults.go

use serde_json::{Value, json};

use crate::object::{
    ObjectMap, child, child_mut, items, items_mut, number, set, set_absent, set_empty, text,
};

const CLIENT_TIMEOUT: i64 = 3 * 60 * 60;

pub fn service(service: &mut ObjectMap) {
    let Some(spec) = child_mut(service, "spec") else { return };
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let timeout = child(spec, "sessionAffinityConfig")
                .and_then(|config| child(config, "clientIP"))
                .and_then(|client| client.get("timeoutSeconds"));
            if timeout.is_none_or(Value::is_null) {
                set(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": CLIENT_TIMEOUT}}));
            }
        }
        _ => {}
    }
    for port in items_mut(spec, "ports") {
        set_empty(port, "protocol", "TCP");
        let unset = match port.get("targetPort") {
            None | Some(Value::Null) => true,
            Some(Value::String(name)) => name.is_empty(),
            Some(target) => target.as_i64() == Some(0),
        };
        if unset {
            let own = number(port, "port");
            set(port, "targetPort", own);
        }
    }
    let kind = text(spec, "type");
    let is_balanced = kind == "LoadBalancer";
    let is_internal = is_balanced || matches!(kind, "NodePort" | "ClusterIP");
    let has_external_addresses =
        spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    let is_external = is_balanced || kind == "NodePort" || (kind == "ClusterIP" && has_external_addresses);
    if is_external {
        set_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if is_internal {
        set_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_balanced {
        set_absent(spec, "allocateLoadBalancerNodePorts", true);
        let balancer = child_mut(service, "status").and_then(|status| child_mut(status, "loadBalancer"));
        if let Some(balancer) = balancer.filter(|balancer| items(balancer, "ingress").next().is_some()) {
            for ingress in items_mut(balancer, "ingress").filter(|ingress| !text(ingress, "ip").is_empty()) {
                set_absent(ingress, "ipMode", "VIP");
            }
        }
    }
}
