//! Computes Endpoints from a Service and its pods.

// upstream: pkg/controller/endpoint/endpoints_controller.go

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::views::PodView;
use serde_json::{Map, Value, json};

use super::pack::{self, Member, Subset};
use super::repack::repack;
use crate::network::service_pods::{self, HEADLESS, LAST_CHANGE, ServicePort, Targets};
use crate::shared::{go_print, pods};

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
    let (subsets, is_truncated) = subsets(service, pods);
    if !is_truncated && current.is_some_and(|current| is_up_to_date(current, &subsets, service)) {
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
    for (annotation, value) in [(LAST_CHANGE, trigger), (OVER_CAPACITY, is_truncated.then_some("truncated"))]
    {
        match value {
            Some(value) => object::set_annotation(&mut wanted, annotation, value),
            None => object::remove_annotation(&mut wanted, annotation),
        }
    }
    wanted["subsets"] = subsets.into();
    object::metadata_mut(&mut wanted).insert("labels".into(), labels(service).into());
    // Truncated Endpoints are never up to date, but a write may change nothing.
    (current != Some(&wanted)).then_some(wanted)
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
    let is_same = stored == subsets || repack(&stored).is_some_and(|stored| stored == subsets);
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

/// A pod that is among the endpoints.
struct PodAddress<'p> {
    ip: String,
    pod: &'p Value,
    ready: bool,
}

/// Returns the subsets, at most with as many addresses as one object can have, and whether there are more.
fn subsets(service: &Value, pods: &[Arc<Value>]) -> (Vec<Value>, bool) {
    let addresses = pod_addresses(service, pods);
    let (numbered, ports) = numbered(service, &addresses);
    // Each port is in one subset, so this is not limited.
    let mut subsets = pack::pack(&numbered, usize::MAX).unwrap_or_default();
    let address = |place: usize| address(service, &addresses[place]);
    pack::sort(&mut subsets, addresses.len(), |place| go_print::listed_address(&address(place)), &ports);
    let is_truncated = truncate(&mut subsets);
    (subsets.iter().map(|subset| subset.to_value(address, &ports)).collect(), is_truncated)
}

/// Returns the pods among the endpoints in canonical order. Pods may share an address.
fn pod_addresses<'p>(service: &Value, pods: &'p [Arc<Value>]) -> Vec<PodAddress<'p>> {
    let publishes_all = service["spec"]["publishNotReadyAddresses"] == true;
    let pods = pods.iter().filter(|pod| service_pods::should_be_in_endpoints(pod, publishes_all));
    let mut addresses: Vec<PodAddress<'p>> = pods
        .filter_map(|pod| {
            Some(PodAddress { ip: ip(service, pod)?, pod, ready: publishes_all || pods::is_ready(pod) })
        })
        .collect();
    addresses.sort_by(|one, other| (&one.ip, object::uid(one.pod)).cmp(&(&other.ip, object::uid(other.pod))));
    addresses
}

/// Returns a subset for the ports that all pods have, and one for each number of a named port, with the list
/// of ports.
fn numbered(service: &Value, addresses: &[PodAddress<'_>]) -> (Vec<Subset>, Vec<Value>) {
    let targets = Targets::of(service);
    let member = |place: usize| Member { place, ready: addresses[place].ready };
    let (mut subsets, mut ports) = (Vec::new(), Vec::new());
    let mut add = |members: Vec<Member>, own: &mut dyn Iterator<Item = ServicePort<'_>>| {
        let first = ports.len();
        ports.extend(own.map(endpoint_port));
        subsets.push(Subset { members, ports: (first..ports.len()).collect() });
    };
    let needs_no_port = service_pods::ports(service).is_empty() && service["spec"]["clusterIP"] == "None";
    if !addresses.is_empty() && (needs_no_port || !targets.numbered.is_empty()) {
        add((0..addresses.len()).map(member).collect(), &mut targets.numbered.iter().copied());
    }
    let mut named: BTreeMap<(usize, i64), Vec<Member>> = BTreeMap::new();
    for (place, address) in addresses.iter().enumerate() {
        for target in targets.resolve(address.pod) {
            named.entry(target).or_default().push(member(place));
        }
    }
    for ((target, number), members) in named {
        add(members, &mut targets.named(target, number));
    }
    (subsets, ports)
}

fn endpoint_port(of: ServicePort<'_>) -> Value {
    let mut port = json!({"port": of.number, "protocol": of.port["protocol"]});
    for field in ["name", "appProtocol"] {
        match of.port.get(field) {
            Some(value) if value != "" => port[field] = value.clone(),
            _ => {}
        }
    }
    port
}

/// Returns the pod's address of the Service's primary family.
fn ip(service: &Value, pod: &Value) -> Option<String> {
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
    service_pods::addresses(pod, version_6).into_iter().next()
}

fn address(service: &Value, PodAddress { ip, pod, .. }: &PodAddress<'_>) -> Value {
    let mut address = json!({
        "ip": ip,
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
    address
}

fn count(subsets: &[Value], field: &str) -> usize {
    subsets.iter().filter_map(|subset| subset[field].as_array()).map(Vec::len).sum()
}

/// Truncates to the capacity, unready addresses first, each subset in proportion. Returns whether anything
/// was removed.
fn truncate(subsets: &mut [Subset]) -> bool {
    let count = |ready| subsets.iter().map(|subset| subset.count(ready)).sum::<usize>();
    let (ready, waiting) = (count(true), count(false));
    if ready + waiting <= CAPACITY {
        return false;
    }
    let (truncates_ready, all, room) = match ready > CAPACITY {
        true => (true, ready, CAPACITY),
        false => (false, waiting, CAPACITY - ready),
    };
    let mut left = room;
    for subset in subsets {
        let share = (subset.count(truncates_ready) * room).div_ceil(all).min(left);
        let mut kept = 0;
        subset.members.retain(|member| match member.ready == truncates_ready {
            true => {
                kept += 1;
                kept <= share
            }
            false => member.ready,
        });
        left -= share;
    }
    true
}

#[cfg(test)]
mod tests;
