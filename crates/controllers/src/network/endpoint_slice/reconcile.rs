//! Computes the slices to write from a Service, its pods and its existing slices.

// upstream: staging/src/k8s.io/endpointslice/reconciler.go
// upstream: staging/src/k8s.io/endpointslice/utils.go

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::views::PodView;
use serde_json::{Map, Value, json};

use super::fill::{self, Endpoints};
use super::hints::{self, Hints};
use super::topology::{self, HintsOutcome, Shares};
use crate::network::service_pods::{self, HEADLESS, LAST_CHANGE, Resolution, Targets};
use crate::network::slice_writes::{self, MANAGED_BY, SERVICE_NAME, Writes};
use crate::shared::pods;

pub const MANAGER: &str = "endpointslice-controller.k8s.io";

pub struct Observed<'a> {
    pub service: &'a Value,
    /// The pods that the Service selects.
    pub pods: &'a [Arc<Value>],
    /// The Service's slices that this controller manages and that are not being deleted.
    pub slices: &'a [Arc<Value>],
    pub node: &'a dyn Fn(&str) -> Option<Arc<Value>>,
    /// Whether all nodes are known, so that a missing node does not exist.
    pub knows_nodes: bool,
    /// The share of CPUs of each zone, computed on demand.
    pub shares: &'a dyn Fn() -> Option<Shares>,
    /// The time of the last relevant change.
    pub trigger: Option<&'a str>,
}

#[derive(Debug, Default)]
pub struct Plan {
    pub writes: Writes,
    /// Pods whose nodes do not exist, with the node names. They are left out and retried.
    pub pods_without_node: Vec<(String, String)>,
    /// Results of topology-aware hints, by address family.
    pub topologies: Vec<(String, HintsOutcome)>,
}

pub fn reconcile(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    let families = families(observed.service);
    for family in &families {
        let mut part = of_family(observed, family);
        plan.writes.create.append(&mut part.writes.create);
        plan.writes.update.append(&mut part.writes.update);
        plan.writes.delete.append(&mut part.writes.delete);
        plan.topologies.append(&mut part.topologies);
        // The same pods are missing in all families.
        plan.pods_without_node = part.pods_without_node;
    }
    let other_families =
        observed.slices.iter().filter(|slice| !families.iter().any(|own| slice["addressType"] == **own));
    for slice in other_families {
        let family = slice["addressType"].as_str().unwrap_or_default();
        plan.topologies.push((family.into(), HintsOutcome::NotRequested));
        plan.writes.delete.push(slice.clone());
    }
    // No slices are created for a Service that is being deleted.
    if object::is_being_deleted(observed.service) {
        plan.writes.create.clear();
    }
    plan
}

/// Returns the error about pods that were left out.
pub fn missing_nodes_error(pods_without_node: &[(String, String)], service: &Value) -> Option<String> {
    let (namespace, name) = (object::namespace(service), object::name(service));
    let mut told: Vec<String> = pods_without_node
        .iter()
        .map(|(pod, node)| {
            format!("skipping Pod {pod} for Service {namespace}/{name}: Node {node} Not Found")
        })
        .collect();
    match told.len() {
        0 => None,
        1 => told.pop(),
        _ => Some(format!("[{}]", told.join(", "))),
    }
}

fn families(service: &Value) -> Vec<&str> {
    let said = service["spec"]["ipFamilies"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let said: Vec<&str> = said.filter(|family| matches!(*family, "IPv4" | "IPv6")).collect();
    match service["spec"]["clusterIP"].as_str() {
        _ if !said.is_empty() => said,
        Some(address) if service_pods::has_address(service) => {
            vec![if address.contains(':') { "IPv6" } else { "IPv4" }]
        }
        _ => vec!["IPv4", "IPv6"],
    }
}

/// Groups of endpoints with the same ports.
#[derive(Default)]
struct Groups {
    groups: Vec<Group>,
    /// Places of groups by a key of their ports.
    places: BTreeMap<String, usize>,
    /// Places of groups by the named ports of pods, so that ports are sorted and printed once for all pods
    /// that have the same.
    of_pods: HashMap<Resolution, usize>,
}

impl Groups {
    fn with_ports(&mut self, mut ports: Vec<Value>) -> usize {
        let key = slice_writes::sort_ports(&mut ports);
        *self.places.entry(key).or_insert_with(|| {
            self.groups.push(Group { ports, ..Group::default() });
            self.groups.len() - 1
        })
    }

    fn of_pod(&mut self, targets: &Targets<'_>, pod: &Value) -> &mut Group {
        let resolution = targets.resolve(pod);
        let place = match self.of_pods.get(&resolution) {
            Some(place) => *place,
            None => {
                let place = self.with_ports(ports(targets, &resolution));
                self.of_pods.insert(resolution, place);
                place
            }
        };
        &mut self.groups[place]
    }

    fn into_sorted(mut self) -> impl Iterator<Item = Group> {
        self.places.into_values().map(move |place| std::mem::take(&mut self.groups[place]))
    }
}

/// Endpoints with the same ports.
#[derive(Default)]
struct Group {
    ports: Vec<Value>,
    wanted: Endpoints,
    existing: Vec<Arc<Value>>,
    /// Whether a pod has these ports, even one that is left out.
    is_wanted: bool,
}

fn of_family(observed: &Observed<'_>, family: &str) -> Plan {
    let service = observed.service;
    let (mut plan, mut pods_without_node) = (Writes::default(), Vec::new());
    let (mut groups, targets) = (Groups::default(), Targets::of(service));
    let existing: Vec<&Arc<Value>> =
        observed.slices.iter().filter(|slice| slice["addressType"] == family).collect();
    for slice in &existing {
        match is_owned(slice, service) {
            true => {
                let ports = slice["ports"].as_array().cloned().unwrap_or_default();
                let place = groups.with_ports(ports);
                groups.groups[place].existing.push(Arc::clone(slice));
            }
            false => plan.delete.push(Arc::clone(slice)),
        }
    }
    for pod in observed.pods.iter().filter(|pod| service_pods::should_be_in_endpoints(pod, true)) {
        let group = groups.of_pod(&targets, pod);
        group.is_wanted = true;
        let node_name = PodView::of(pod).node_name().unwrap_or_default();
        let node = (observed.node)(node_name);
        if node.is_none() && observed.knows_nodes && !publishes_all(service) {
            pods_without_node.push((object::name(pod).into(), node_name.into()));
            continue;
        }
        group.wanted.insert(endpoint(pod, node.as_deref(), service, family));
    }
    let empty = |ports: Vec<Value>| new_slice(service, family, ports);
    for group in groups.into_sorted() {
        if !group.is_wanted {
            plan.delete.extend(group.existing);
            continue;
        }
        let Writes { mut create, mut update, mut delete } =
            fill::fill(service, &group.existing, group.wanted, || empty(group.ports.clone()));
        plan.create.append(&mut create);
        plan.update.append(&mut update);
        plan.delete.append(&mut delete);
    }
    // A Service without endpoints has one empty slice, which shows that it was reconciled.
    if existing.len() == plan.delete.len() && plan.create.is_empty() {
        let placeholder = empty(Vec::new());
        match plan.delete.as_slice() {
            [only] if is_placeholder(only, &placeholder) => plan.delete.clear(),
            _ => plan.create.push(placeholder),
        }
    }
    let deleted = plan.delete.iter().map(|slice| object::name(slice));
    let written: HashSet<&str> = plan.update.iter().map(object::name).chain(deleted).collect();
    let kept: Vec<&Arc<Value>> =
        existing.into_iter().filter(|slice| !written.contains(object::name(slice))).collect();
    let topology = if topology::is_requested(service) {
        match topology::assign((observed.shares)().as_ref(), &mut plan.create, &mut plan.update, &kept) {
            Ok(counts) => HintsOutcome::Assigned(counts),
            Err(reason) => HintsOutcome::Failed(reason),
        }
    } else {
        hints::assign(Hints::of(service), &mut plan.create, &mut plan.update, &kept);
        HintsOutcome::NotRequested
    };
    plan.reuse(|old| is_owned(old, service));
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        match observed.trigger {
            Some(time) => object::set_annotation(slice, LAST_CHANGE, time),
            None => object::remove_annotation(slice, LAST_CHANGE),
        }
    }
    Plan { writes: plan, pods_without_node, topologies: vec![(family.into(), topology)] }
}

fn publishes_all(service: &Value) -> bool {
    service["spec"]["publishNotReadyAddresses"] == true
}

fn is_owned(slice: &Value, service: &Value) -> bool {
    object::owner_references(slice).any(|owner| {
        owner.uid == object::uid(service) && owner.kind == "Service" && owner.api_version == "v1"
    })
}

fn ports(targets: &Targets<'_>, resolution: &Resolution) -> Vec<Value> {
    let slice_port = |of: service_pods::ServicePort<'_>| {
        let name = of.port["name"].as_str().unwrap_or_default();
        let mut port = json!({"name": name, "port": of.number, "protocol": of.port["protocol"]});
        if let Some(protocol) = of.port.get("appProtocol") {
            port["appProtocol"] = protocol.clone();
        }
        port
    };
    targets.ports(resolution).map(slice_port).collect()
}

fn endpoint(pod: &Value, node: Option<&Value>, service: &Value, family: &str) -> Value {
    let (serving, terminating) = (pods::is_ready(pod), object::is_being_deleted(pod));
    let mut addresses = service_pods::addresses(pod, family == "IPv6");
    addresses.sort();
    let mut endpoint = json!({
        "addresses": addresses,
        "conditions": {
            "ready": publishes_all(service) || (serving && !terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": object::namespace(pod),
            "name": object::name(pod),
            "uid": object::uid(pod),
        },
    });
    let zone = node.and_then(|node| object::label(node, topology::ZONE));
    for (field, value) in [
        ("nodeName", PodView::of(pod).node_name()),
        ("zone", zone),
        ("hostname", service_pods::hostname(pod, service)),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            endpoint[field] = value.into();
        }
    }
    endpoint
}

fn new_slice(service: &Value, family: &str, ports: Vec<Value>) -> Value {
    let name = object::name(service);
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": slice_writes::prefix(name),
            "namespace": object::namespace(service),
            "labels": labels(service),
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": name,
                "uid": object::uid(service),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "addressType": family,
        "endpoints": [],
        "ports": ports,
    })
}

/// Returns the Service's labels with those that identify the slice.
pub fn labels(service: &Value) -> Map<String, Value> {
    let own = object::labels(service).filter(|(label, _)| !is_reserved(label));
    let mut labels: Map<String, Value> = own.map(|(label, value)| (label.into(), value.into())).collect();
    if !service_pods::has_address(service) {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels.insert(SERVICE_NAME.into(), object::name(service).into());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

pub fn is_reserved(label: &str) -> bool {
    matches!(label, SERVICE_NAME | MANAGED_BY | HEADLESS)
}

fn is_placeholder(slice: &Value, placeholder: &Value) -> bool {
    let is_empty = |field: &str| slice[field].as_array().is_none_or(Vec::is_empty);
    is_empty("endpoints")
        && is_empty("ports")
        && slice["addressType"] == placeholder["addressType"]
        && slice["metadata"]["labels"] == placeholder["metadata"]["labels"]
}

#[cfg(test)]
mod tests;
