//! Computes Endpoints from a Service and its pods.

// upstream: pkg/controller/endpoint/endpoints_controller.go

use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::views::PodView;
use serde_json::{Map, Value, json};

use super::repack::repack;
use crate::network::service_pods::{self, HEADLESS, LAST_CHANGE};
use crate::shared::pods;

pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Maximum number of addresses in one object.
const CAPACITY: usize = 1000;

/// Returns the object to write, if it must change.
pub fn reconcile(
    service: &Value,
    pods: &[Arc<Value>],
    current: Option<&Value>,
    trigger: Option<&str>,
) -> Option<Value> {
    let mut subsets = repack(&singles(service, pods));
    if current.is_some_and(|current| is_up_to_date(current, &subsets, service)) {
        return None;
    }
    let mut wanted = match current {
        Some(current) => current.clone(),
        None => json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": object::name(service), "namespace": object::namespace(service)},
        }),
    };
    let is_truncated = truncate(&mut subsets);
    for (annotation, value) in [(LAST_CHANGE, trigger), (OVER_CAPACITY, is_truncated.then_some("truncated"))]
    {
        match value {
            Some(value) => object::set_annotation(&mut wanted, annotation, value),
            None => object::remove_annotation(&mut wanted, annotation),
        }
    }
    wanted["subsets"] = subsets.into();
    object::metadata_mut(&mut wanted).insert("labels".into(), labels(service).into());
    Some(wanted)
}

fn labels(service: &Value) -> Map<String, Value> {
    let own = object::labels(service).filter(|(label, _)| *label != HEADLESS);
    let mut labels: Map<String, Value> = own.map(|(label, value)| (label.into(), value.into())).collect();
    if !service_pods::has_address(service) {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

/// Whether the Endpoints are up to date. The headless label is not compared, because it cannot change.
fn is_up_to_date(current: &Value, subsets: &[Value], service: &Value) -> bool {
    let stored = stripped(current["subsets"].as_array().map_or(&[], Vec::as_slice));
    let is_same = stored == subsets || repack(&stored) == subsets;
    let own = |object| {
        let labels = object::labels(object).filter(|(label, _)| !matches!(*label, HEADLESS | MANAGED_BY));
        labels.collect::<std::collections::BTreeSet<_>>()
    };
    is_same
        && object::label(current, MANAGED_BY) == Some(MANAGER)
        && own(current) == own(service)
        && count(&stored, "addresses") + count(&stored, "notReadyAddresses") <= CAPACITY
        && object::annotation(current, OVER_CAPACITY).is_none()
}

/// Returns subsets without irrelevant differences.
fn stripped(subsets: &[Value]) -> Vec<Value> {
    let mut subsets = subsets.to_vec();
    for subset in subsets.iter_mut().filter_map(Value::as_object_mut) {
        subset.retain(|_, list| list.as_array().is_some_and(|list| !list.is_empty()));
        for field in ["addresses", "notReadyAddresses"] {
            let addresses = subset.get_mut(field).and_then(Value::as_array_mut);
            for target in addresses.into_iter().flatten().filter_map(|address| address.get_mut("targetRef")) {
                target.as_object_mut().map(|target| target.remove("resourceVersion"));
            }
        }
    }
    subsets
}

/// Returns one subset for each pod and port.
fn singles(service: &Value, pods: &[Arc<Value>]) -> Vec<Value> {
    let publishes_all = service["spec"]["publishNotReadyAddresses"] == true;
    let ports = service_pods::ports(service);
    let mut subsets = Vec::new();
    for pod in pods.iter().filter(|pod| service_pods::should_be_in_endpoints(pod, publishes_all)) {
        let Some(address) = address(service, pod) else { continue };
        let field = match publishes_all || pods::is_ready(pod) {
            true => "addresses",
            false => "notReadyAddresses",
        };
        if ports.is_empty() && service["spec"]["clusterIP"] == "None" {
            subsets.push(json!({field: [address]}));
        }
        for port in ports {
            if let Some(number) = service_pods::find_port(pod, port) {
                subsets.push(json!({field: [address], "ports": [endpoint_port(port, number)]}));
            }
        }
    }
    subsets
}

fn endpoint_port(service_port: &Value, number: i64) -> Value {
    let mut port = json!({"port": number, "protocol": service_port["protocol"]});
    for field in ["name", "appProtocol"] {
        match service_port.get(field) {
            Some(value) if value != "" => port[field] = value.clone(),
            _ => {}
        }
    }
    port
}

/// Returns the pod's address of the Service's primary family.
fn address(service: &Value, pod: &Value) -> Option<Value> {
    let spec = &service["spec"];
    let version_6 = match spec["ipFamilies"][0].as_str() {
        Some(family) => family == "IPv6",
        None => {
            let known = match service_pods::has_address(service) {
                true => spec["clusterIP"].as_str(),
                false => PodView::of(pod).pod_ip(),
            };
            known.is_some_and(|address| address.contains(':'))
        }
    };
    let mut address = json!({
        "ip": service_pods::addresses(pod, version_6).into_iter().next()?,
        "nodeName": PodView::of(pod).node_name().unwrap_or_default(),
        "targetRef": {
            "kind": "Pod",
            "namespace": object::namespace(pod),
            "name": object::name(pod),
            "uid": object::uid(pod),
        },
    });
    if let Some(hostname) = service_pods::hostname(pod, service) {
        address["hostname"] = hostname.into();
    }
    Some(address)
}

fn count(subsets: &[Value], field: &str) -> usize {
    subsets.iter().filter_map(|subset| subset[field].as_array()).map(Vec::len).sum()
}

/// Truncates to the capacity, unready addresses first, each subset in proportion. Returns whether anything
/// was removed.
fn truncate(subsets: &mut [Value]) -> bool {
    let (ready, waiting) = (count(subsets, "addresses"), count(subsets, "notReadyAddresses"));
    if ready + waiting <= CAPACITY {
        return false;
    }
    let (field, all, room) = match ready > CAPACITY {
        true => ("addresses", ready, CAPACITY),
        false => ("notReadyAddresses", waiting, CAPACITY - ready),
    };
    let mut left = room;
    for subset in subsets {
        let Some(fields) = subset.as_object_mut() else { continue };
        if let Some(addresses) = fields.get_mut(field).and_then(Value::as_array_mut) {
            let share = (addresses.len() * room).div_ceil(all);
            addresses.truncate(share.min(left));
            left -= addresses.len();
        }
        if field == "addresses" {
            fields.remove("notReadyAddresses");
        }
        fields.retain(|_, list| list.as_array().is_some_and(|list| !list.is_empty()));
    }
    true
}

#[cfg(test)]
mod tests;
