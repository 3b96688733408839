//! Warnings about Services, Endpoints, EndpointSlices, Ingresses and NetworkPolicies.

// upstream: pkg/api/service/warnings.go
// upstream: pkg/registry/core/endpoint/strategy.go
// upstream: pkg/registry/discovery/endpointslice/strategy.go
// upstream: pkg/registry/networking/networkpolicy/strategy.go
// upstream: pkg/registry/networking/ingress/strategy.go

use atoll_meta::object;
use serde_json::Value;

use super::{Warnings, addresses};
use crate::field_value::FieldValue;

pub static ENDPOINTS: Warnings = Warnings { object: |new, _| endpoints(new), ..Warnings::NONE };
pub static ENDPOINT_SLICES: Warnings = Warnings { object: endpoint_slice, ..Warnings::NONE };
pub static INGRESSES: Warnings = Warnings { object: ingress, status: load_balancer, ..Warnings::NONE };
pub static POLICIES: Warnings = Warnings { object: |new, _| policy(new), ..Warnings::NONE };
pub static SERVICES: Warnings =
    Warnings { object: |new, _| service(new), status: load_balancer, ..Warnings::NONE };

fn endpoints(new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    // The endpoints controller fixes the addresses of its own objects.
    if object::label(new, "endpoints.kubernetes.io/managed-by") == Some("endpoint-controller") {
        return warnings;
    }
    for subset in FieldValue::field(new, "subsets").items() {
        for list in ["addresses", "notReadyAddresses"] {
            subset.get(list).items().for_each(|found| addresses::address(&found.get("ip"), &mut warnings));
        }
    }
    warnings
}

fn endpoint_slice(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() && FieldValue::field(new, "addressType").text() == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let manager = object::label(new, "endpointslice.kubernetes.io/managed-by");
    let mended = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    if manager.is_none_or(|manager| !mended.contains(&manager)) {
        for endpoint in FieldValue::field(new, "endpoints").items() {
            endpoint.get("addresses").items().for_each(|found| addresses::address(&found, &mut warnings));
        }
    }
    warnings
}

const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

fn ingress(new: &Value, old: Option<&Value>) -> Vec<String> {
    let old_way = old.is_none()
        && object::annotation(new, INGRESS_CLASS).is_some()
        && !FieldValue::field(new, "spec").has("ingressClassName");
    let message = || {
        format!("annotation \"{INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead")
    };
    old_way.then(message).into_iter().collect()
}

fn load_balancer(new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for entry in FieldValue::field(new, "status").get("loadBalancer").get("ingress").items() {
        // Upstream's path is that of the entry, not of its field.
        addresses::address(&entry.get("ip").with_path(entry.path), &mut warnings);
    }
    warnings
}

fn policy(new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (direction, side) in [("ingress", "from"), ("egress", "to")] {
        for rule in FieldValue::field(new, "spec").get(direction).items() {
            for peer in rule.get(side).items() {
                let block = peer.get("ipBlock");
                addresses::range(&block.get("cidr"), &mut warnings);
                block.get("except").items().for_each(|except| addresses::range(&except, &mut warnings));
            }
        }
    }
    warnings
}

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY: &str = "service.kubernetes.io/topology-mode";

fn service(new: &Value) -> Vec<String> {
    let spec = FieldValue::field(new, "spec");
    let mut warnings = Vec::new();
    let mut remark = |message: &str| warnings.push(message.to_owned());
    if object::annotation(new, HINTS).is_some() {
        remark(&format!("annotation {HINTS} is deprecated, please use {TOPOLOGY} instead"));
    }
    let cluster_ip = spec.text_of("clusterIP");
    if !matches!(cluster_ip, "" | "None") {
        spec.get("clusterIPs").items().for_each(|found| addresses::address(&found, &mut warnings));
    }
    let mut remark = |message: &str| warnings.push(message.to_owned());
    let first = spec.get("clusterIPs").texts().next();
    let headless = first == Some("None") && spec.get("clusterIPs").len() == 1;
    let (balancer, external) = (spec.get("loadBalancerIP"), spec.get("externalIPs"));
    let named = spec.text_of("type") == "ExternalName";
    if headless {
        if !balancer.is_empty() {
            remark("spec.loadBalancerIP is ignored for headless services");
        }
        if !external.is_empty() {
            remark("spec.externalIPs is ignored for headless services");
        }
        if spec.text_of("sessionAffinity") != "None" {
            remark("spec.SessionAffinity is ignored for headless services");
        }
    }
    external.items().for_each(|found| addresses::address(&found, &mut warnings));
    if !external.is_empty() && !headless && !named {
        let message = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(message.to_owned());
    }
    addresses::address(&balancer, &mut warnings);
    spec.get("loadBalancerSourceRanges").items().for_each(|found| addresses::range(&found, &mut warnings));
    let mut remark = |message: &str| warnings.push(message.to_owned());
    if named && !external.is_empty() {
        remark("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if !named && !spec.text_of("externalName").is_empty() {
        remark("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if spec.text_of("trafficDistribution") == "PreferClose" {
        remark("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
    warnings
}
