//! Computes EndpointSlices from Endpoints.

// upstream: pkg/controller/endpointslicemirroring/reconciler.go
// upstream: pkg/controller/endpointslicemirroring/utils.go

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use atoll_informer::WORKSPACE;
use atoll_meta::object;
use serde_json::{Map, Value, json};

use crate::network::endpoints::repack;
use crate::network::service_pods::LAST_CHANGE;
use crate::network::slice_writes::{self, MANAGED_BY, SERVICE_NAME, Writes, identity, is_same_state};

pub const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Maximum number of mirrored addresses of a subset.
pub const CAPACITY: usize = 1000;
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Debug, Default)]
pub struct Plan {
    pub writes: Writes,
    /// Number of invalid addresses.
    pub invalid: usize,
    /// Number of addresses beyond the maximum.
    pub too_many: usize,
}

/// Desired and existing endpoints of one address family with the same ports.
#[derive(Default)]
struct Group {
    ports: Vec<Value>,
    wanted: BTreeMap<String, Value>,
    existing: Vec<Arc<Value>>,
}

/// Returns `None` if the slices would be too large.
pub fn reconcile(endpoints: &Value, existing: &[Arc<Value>]) -> Option<Plan> {
    let mut plan = Plan::default();
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for subset in repack(endpoints["subsets"].as_array().map_or(&[], Vec::as_slice))? {
        let mut ports: Vec<Value> = list(&subset, "ports").iter().map(slice_port).collect();
        let key = slice_writes::sort_ports(&mut ports);
        let mut room = CAPACITY;
        for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in list(&subset, field) {
                match endpoint(address, ready) {
                    None => plan.invalid += 1,
                    Some(_) if room == 0 => plan.too_many += 1,
                    Some((family, endpoint)) => {
                        room -= 1;
                        let group = groups.entry((family.into(), key.clone())).or_default();
                        group.ports.clone_from(&ports);
                        group.wanted.insert(identity(&endpoint), endpoint);
                    }
                }
            }
        }
    }
    for slice in existing {
        let mut ports = list(slice, "ports").to_vec();
        let key = slice_writes::sort_ports(&mut ports);
        let family = slice["addressType"].as_str().unwrap_or_default().to_string();
        groups.entry((family, key)).or_default().existing.push(slice.clone());
    }
    for ((family, _), group) in groups {
        let mut existing = group.existing.into_iter();
        if group.wanted.is_empty() {
            plan.writes.delete.extend(existing);
            continue;
        }
        let first = existing.next();
        plan.writes.delete.extend(existing);
        let slice = || {
            let wanted: Vec<Value> = group.wanted.values().cloned().collect();
            new_slice(endpoints, &family, &group.ports, wanted)
        };
        match first {
            None => plan.writes.create.push(slice()),
            Some(first) if is_up_to_date(&first, endpoints, &group.wanted) => {}
            Some(first) => {
                let mut slice = slice_writes::in_place_of(&first, slice());
                // `generateName` has no effect on an object with a name.
                object::remove_metadata(&mut slice, "generateName");
                plan.writes.update.push(slice);
            }
        }
    }
    plan.writes.reuse(|_| true);
    if object::is_being_deleted(endpoints) {
        plan.writes.create.clear();
    }
    Some(plan)
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map_or(&[], Vec::as_slice)
}

fn slice_port(port: &Value) -> Value {
    let mut slice_port = json!({
        "name": port["name"].as_str().unwrap_or_default(),
        "port": port["port"],
        "protocol": port["protocol"],
    });
    if let Some(protocol) = port.get("appProtocol") {
        slice_port["appProtocol"] = protocol.clone();
    }
    slice_port
}

/// Converts an address to an endpoint, with its family.
fn endpoint(address: &Value, ready: bool) -> Option<(&'static str, Value)> {
    let ip: IpAddr = address["ip"].as_str()?.parse().ok()?;
    let mut endpoint = json!({"addresses": [ip.to_string()], "conditions": {"ready": ready}});
    for field in ["targetRef", "nodeName", "hostname"] {
        if let Some(value) = address.get(field).filter(|value| !value.is_null() && *value != "") {
            endpoint[field] = value.clone();
        }
    }
    Some((if ip.is_ipv6() { "IPv6" } else { "IPv4" }, endpoint))
}

fn labels(endpoints: &Value) -> Map<String, Value> {
    let mut labels: Map<String, Value> =
        object::labels(endpoints).map(|(label, value)| (label.into(), value.into())).collect();
    labels.insert(SERVICE_NAME.into(), object::name(endpoints).into());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

/// Returns the annotations that are copied to slices.
fn annotations(object: &Value) -> Map<String, Value> {
    let all = object::annotations(object);
    let passed_on = all.filter(|(name, _)| !matches!(*name, LAST_CHANGE | LAST_APPLIED | WORKSPACE));
    passed_on.map(|(name, value)| (name.into(), value.into())).collect()
}

fn new_slice(endpoints: &Value, family: &str, ports: &[Value], wanted: Vec<Value>) -> Value {
    let name = object::name(endpoints);
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": slice_writes::prefix(name),
            "namespace": object::namespace(endpoints),
            "labels": labels(endpoints),
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Endpoints",
                "name": name,
                "uid": object::uid(endpoints),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "addressType": family,
        "endpoints": wanted,
        "ports": ports,
    });
    let annotations = annotations(endpoints);
    if !annotations.is_empty() {
        slice["metadata"]["annotations"] = annotations.into();
    }
    slice
}

fn is_up_to_date(slice: &Value, endpoints: &Value, wanted: &BTreeMap<String, Value>) -> bool {
    let present = list(slice, "endpoints");
    let says =
        |endpoint: &Value| wanted.get(&identity(endpoint)).is_some_and(|own| is_same_state(own, endpoint));
    let name = object::name(endpoints);
    let is_of_deleted_owner = object::owner_references(slice)
        .any(|owner| owner.kind == "Endpoints" && owner.name == name && owner.uid != object::uid(endpoints));
    let present_labels: Map<String, Value> =
        object::labels(slice).map(|(label, value)| (label.into(), value.into())).collect();
    present.len() == wanted.len()
        && present.iter().all(says)
        && present_labels == labels(endpoints)
        && annotations(slice) == annotations(endpoints)
        && !is_of_deleted_owner
}

#[cfg(test)]
mod tests;
