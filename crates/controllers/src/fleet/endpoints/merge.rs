//! Computes the slices of a Service from what its clusters report. Pure.
//!
//! Each cluster has slices of its own. Endpoints stay in the slice that they are in, so that a change of one Pod
//! changes one slice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use atoll_fleet::marks;
use atoll_fleet::view::{Endpoint, EndpointGroup, MAX_ENDPOINTS, ServiceEndpoints};
use atoll_informer::WORKSPACE;
use atoll_meta::object;
use serde_json::{Map, Value, json};

use crate::network::service_pods::{HEADLESS, has_address};
use crate::network::slice_writes::{MANAGED_BY, SERVICE_NAME, Writes};

/// The value of the label that says who writes a slice.
pub const MANAGER: &str = "endpointslicemerging-controller.atoll.dev";
/// Maximum number of endpoints in a slice, as in clusters.
const CAPACITY: usize = 100;
/// Longest prefix of a name, which ends with a hash.
const LONGEST_PREFIX: usize = 200;

/// The endpoints of a Service in one cluster.
#[derive(Debug)]
pub struct ClusterEndpoints {
    pub cluster: String,
    /// Whether the report is current and clients can be sent there.
    pub is_reachable: bool,
    pub endpoints: ServiceEndpoints,
}

/// Returns the slices to write, new ones first, so that a client that follows them always finds endpoints.
pub fn merge(service: &Value, clusters: &[ClusterEndpoints], existing: &[Arc<Value>]) -> Writes {
    let by_name: HashMap<&str, &Arc<Value>> =
        existing.iter().map(|slice| (object::name(slice), slice)).collect();
    let mut writes = Writes::default();
    let mut kept = HashSet::new();
    for of in clusters {
        for group in &of.endpoints.slices {
            for (name, endpoints) in divide(service, of, group, &by_name) {
                let before = by_name.get(name.as_str()).copied();
                let wanted = slice(service, of, group, &name, &endpoints);
                kept.insert(name);
                match before {
                    None => writes.create.push(wanted),
                    Some(before) if is_same(before, &wanted) => {}
                    Some(before) => writes.update.push(in_place_of(before, wanted)),
                }
            }
        }
    }
    writes.delete = existing.iter().filter(|slice| !kept.contains(object::name(slice))).cloned().collect();
    // No slices are created for a Service that is being deleted.
    if object::is_being_deleted(service) {
        writes.create.clear();
    }
    writes
}

/// Divides endpoints between slices, by name.
fn divide<'a>(
    service: &Value,
    of: &ClusterEndpoints,
    group: &'a EndpointGroup,
    existing: &HashMap<&str, &Arc<Value>>,
) -> Vec<(String, Vec<&'a Endpoint>)> {
    let mut slices: Vec<(String, Vec<&Endpoint>)> =
        (0..MAX_ENDPOINTS / CAPACITY).map(|number| (name(service, of, group, number), Vec::new())).collect();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (place, (name, _)) in slices.iter().enumerate() {
        let Some(before) = existing.get(name.as_str()) else { continue };
        let endpoints = before["endpoints"].as_array().into_iter().flatten();
        for address in endpoints.filter_map(|endpoint| endpoint["addresses"][0].as_str()) {
            places.insert(address, place);
        }
    }
    let mut new = Vec::new();
    for endpoint in &group.endpoints {
        match places.get(endpoint.address.as_str()) {
            Some(place) if slices[*place].1.len() < CAPACITY => slices[*place].1.push(endpoint),
            _ => new.push(endpoint),
        }
    }
    for endpoint in new {
        if let Some((_, slice)) = slices.iter_mut().find(|(_, slice)| slice.len() < CAPACITY) {
            slice.push(endpoint);
        }
    }
    slices.retain(|(_, slice)| !slice.is_empty());
    for (_, slice) in &mut slices {
        slice.sort_by(|one, other| one.address.cmp(&other.address));
    }
    slices
}

/// The name of a slice: always the same for a cluster, address type, ports and number.
fn name(service: &Value, of: &ClusterEndpoints, group: &EndpointGroup, number: usize) -> String {
    let mut prefix = format!("{}-{}", object::name(service), of.cluster);
    prefix.truncate(LONGEST_PREFIX);
    let ports: Vec<String> = group
        .ports
        .iter()
        .map(|port| format!("{} {} {} {}", port.name, port.port, port.protocol, port.app_protocol))
        .collect();
    let number = number.to_string();
    let parts = [object::name(service), &of.cluster, &group.address_type, &ports.join(","), &number];
    format!("{}-{:08x}", prefix.trim_end_matches(['-', '.']), hash(&parts))
}

/// 32-bit FNV-1a, with a separator byte that cannot occur in text after each part.
fn hash(parts: &[&str]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn slice(
    service: &Value,
    of: &ClusterEndpoints,
    group: &EndpointGroup,
    name: &str,
    endpoints: &[&Endpoint],
) -> Value {
    let endpoints: Vec<Value> = endpoints.iter().map(|one| endpoint(one, of.is_reachable)).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": object::namespace(service),
            "labels": labels(service, &of.cluster),
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": object::name(service),
                "uid": object::uid(service),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "addressType": group.address_type,
        "endpoints": endpoints,
        "ports": group.ports,
    })
}

/// An endpoint of a slice. What is not known must be false: clients take a missing condition for true.
fn endpoint(of: &Endpoint, is_reachable: bool) -> Value {
    let mut endpoint = json!({
        "addresses": [of.address],
        "conditions": {
            "ready": of.ready && is_reachable,
            "serving": of.serving && is_reachable,
            "terminating": of.terminating,
        },
    });
    for (field, value) in [("zone", &of.zone), ("hostname", &of.hostname)] {
        if !value.is_empty() {
            endpoint[field] = value.as_str().into();
        }
    }
    endpoint
}

/// The labels of the Service and those that identify the slice.
fn labels(service: &Value, cluster: &str) -> Map<String, Value> {
    let is_own = |label: &str| !matches!(label, SERVICE_NAME | MANAGED_BY | HEADLESS | marks::CLUSTER);
    let own = object::labels(service).filter(|(label, _)| is_own(label));
    let mut labels: Map<String, Value> = own.map(|(label, value)| (label.into(), value.into())).collect();
    if !has_address(service) {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels.insert(SERVICE_NAME.into(), object::name(service).into());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels.insert(marks::CLUSTER.into(), cluster.into());
    labels
}

fn is_same(existing: &Value, wanted: &Value) -> bool {
    let fields = |slice: &Value| {
        let metadata = &slice["metadata"];
        [&metadata["labels"], &metadata["ownerReferences"], &slice["endpoints"], &slice["ports"]]
            .map(Value::clone)
    };
    fields(existing) == fields(wanted)
}

/// A slice with the version of the existing one.
fn in_place_of(existing: &Value, mut wanted: Value) -> Value {
    object::set_resource_version(&mut wanted, object::resource_version(existing));
    if let Some(workspace) = object::annotation(existing, WORKSPACE) {
        object::set_annotation(&mut wanted, WORKSPACE, workspace);
    }
    wanted
}

#[cfg(test)]
mod tests;
