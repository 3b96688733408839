//! Compares with subsets that are computed as upstream does it: one for each pod and port, which are combined
//! afterwards.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use crate::network::random_services::{self, find_port};

/// Returns one subset for each pod and port.
fn singles(service: &Value, pods: &[Arc<Value>]) -> Vec<Value> {
    let publishes_all = service["spec"]["publishNotReadyAddresses"] == true;
    let ports = service_pods::ports(service);
    let mut subsets = Vec::new();
    for pod in pods.iter().filter(|pod| service_pods::should_be_in_endpoints(pod, publishes_all)) {
        let Some(ip) = ip(service, pod) else { continue };
        let ready = publishes_all || pods::is_ready(pod);
        let address = address(service, &PodAddress { ip, pod, ready });
        let field = if ready { "addresses" } else { "notReadyAddresses" };
        if ports.is_empty() && service["spec"]["clusterIP"] == "None" {
            subsets.push(json!({field: [address]}));
        }
        for port in ports {
            if let Some(number) = find_port(pod, port) {
                let port = endpoint_port(ServicePort { port, number });
                subsets.push(json!({field: [address], "ports": [port]}));
            }
        }
    }
    subsets
}

fn list<'a>(subset: &'a Value, field: &str) -> &'a [Value] {
    subset[field].as_array().map_or(&[], Vec::as_slice)
}

fn identity(address: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    (text(&address["ip"]), text(&address["targetRef"]["uid"]))
}

/// Combines the subsets of each port, and then the ports that have the same addresses.
fn combined(subsets: &[Value]) -> Vec<Value> {
    type Addresses<'a> = BTreeMap<(String, String), (&'a Value, bool)>;
    let mut by_port: BTreeMap<String, (Option<&Value>, Addresses<'_>)> = BTreeMap::new();
    let mut known: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for subset in subsets {
        let ports = list(subset, "ports").iter().map(Some);
        let none = list(subset, "ports").is_empty().then_some(None);
        for port in ports.chain(none) {
            let printed = port.map(go_print::endpoint_port).unwrap_or_default();
            let (_, addresses) = by_port.entry(printed).or_insert_with(|| (port, BTreeMap::new()));
            for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
                for address in list(subset, field) {
                    let first = *known.entry(identity(address)).or_insert(address);
                    addresses.entry(identity(address)).or_insert((first, ready)).1 &= ready;
                }
            }
        }
    }
    let mut subsets: Vec<(Addresses<'_>, Vec<Value>)> = Vec::new();
    for (port, addresses) in by_port.into_values() {
        match subsets.iter_mut().find(|(known, _)| *known == addresses) {
            Some((_, ports)) => ports.extend(port.cloned()),
            None => subsets.push((addresses, port.cloned().into_iter().collect())),
        }
    }
    let mut subsets: Vec<Value> = subsets
        .into_iter()
        .map(|(addresses, mut ports)| {
            ports.sort_by_key(|port| go_print::fnv(&go_print::endpoint_port(port)));
            let of = |wanted: bool| -> Vec<Value> {
                addresses
                    .values()
                    .filter(|(_, ready)| *ready == wanted)
                    .map(|(it, _)| (*it).clone())
                    .collect()
            };
            let mut subset = json!({"addresses": of(true), "notReadyAddresses": of(false), "ports": ports});
            without_empty_lists(&mut subset);
            subset
        })
        .collect();
    subsets.sort_by_key(hash);
    subsets
}

fn without_empty_lists(subset: &mut Value) {
    subset.as_object_mut().unwrap().retain(|_, list| list.as_array().is_some_and(|list| !list.is_empty()));
}

fn hash(subset: &Value) -> u128 {
    let print = |items: &[Value], print: fn(&Value) -> String| match items.is_empty() {
        true => "<nil>".to_string(),
        false => format!("[{}]", items.iter().map(print).collect::<Vec<String>>().join(" ")),
    };
    go_print::fnv(&format!(
        "(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){} NotReadyAddresses:([]v1.EndpointAddress){} Ports:([]v1.EndpointPort){}}}",
        print(list(subset, "addresses"), go_print::listed_address),
        print(list(subset, "notReadyAddresses"), go_print::listed_address),
        print(list(subset, "ports"), go_print::listed_port),
    ))
}

/// Truncates lists of values.
fn truncated(mut subsets: Vec<Value>) -> Vec<Value> {
    let (ready, waiting) = (count(&subsets, "addresses"), count(&subsets, "notReadyAddresses"));
    if ready + waiting <= CAPACITY {
        return subsets;
    }
    let (field, all, room) = match ready > CAPACITY {
        true => ("addresses", ready, CAPACITY),
        false => ("notReadyAddresses", waiting, CAPACITY - ready),
    };
    let mut left = room;
    for subset in &mut subsets {
        if let Some(addresses) = subset[field].as_array_mut() {
            addresses.truncate((addresses.len() * room).div_ceil(all).min(left));
            left -= addresses.len();
        }
        if field == "addresses" {
            subset["notReadyAddresses"] = Value::Null;
        }
        without_empty_lists(subset);
    }
    subsets
}

proptest! {
    #[test]
    fn subsets_are_those_of_single_pods_and_ports(
        service in random_services::services(),
        pods in random_services::pods(12),
    ) {
        let singles = singles(&service, &pods);
        let (subsets, is_truncated) = subsets(&service, &pods);
        prop_assert!(!is_truncated);
        prop_assert_eq!(&subsets, &combined(&singles));
        prop_assert_eq!(&subsets, &repack(&singles).unwrap());
        prop_assert_eq!(&subsets, &repack(&subsets).unwrap());
    }

    #[test]
    fn any_subsets_are_repacked_by_port(
        parts in proptest::collection::vec((
            proptest::collection::vec((0u8..5, 0u8..2), 0..5),
            proptest::collection::vec((0u8..5, 0u8..2), 0..3),
            proptest::collection::vec(0u8..5, 0..5),
        ), 0..6),
    ) {
        let addresses = |parts: Vec<(u8, u8)>| -> Vec<Value> {
            let address = |(ip, uid)| json!({"ip": format!("10.0.0.{ip}"), "targetRef": {"uid": format!("u{uid}")}});
            parts.into_iter().map(address).collect()
        };
        let subsets: Vec<Value> = parts.into_iter().map(|(ready, waiting, ports)| {
            let ports: Vec<Value> = ports.into_iter().map(|port| json!({"port": port, "protocol": "TCP"})).collect();
            json!({"addresses": addresses(ready), "notReadyAddresses": addresses(waiting), "ports": ports})
        }).collect();
        prop_assert_eq!(repack(&subsets).unwrap(), combined(&subsets));
    }
}

/// A Service with 40 ports, one of which is a number, and pods that have different ones of the others.
fn many(pods: usize, is_ready: impl Fn(usize) -> bool) -> (Value, Vec<Arc<Value>>) {
    let port = |number: usize| {
        let target = if number == 0 { json!(80) } else { json!(format!("t{}", number % 8)) };
        json!({"name": format!("p{number}"), "port": number + 1, "protocol": "TCP", "targetPort": target})
    };
    let service = super::service(&json!({"ports": (0..40).map(port).collect::<Vec<Value>>()}));
    let pods = (0..pods).map(|number| {
        let mut pod = super::pod(number, is_ready(number)).as_ref().clone();
        let ports = (0..8).filter(|target| number % (target + 1) == 0).map(
            |target| json!({"name": format!("t{target}"), "containerPort": 8000 + target, "protocol": "TCP"}),
        );
        pod["spec"]["containers"] = json!([{"ports": ports.collect::<Vec<Value>>()}]);
        Arc::new(pod)
    });
    (service, pods.collect())
}

#[test]
fn subsets_are_truncated_in_the_same_order() {
    for (all, unready) in [(600, 0), (600, 2), (900, 3), (400, 2), (1300, 1)] {
        let (service, pods) = many(all, |number| unready == 0 || number % unready != 0);
        let wanted = combined(&singles(&service, &pods));
        let is_over = count(&wanted, "addresses") + count(&wanted, "notReadyAddresses") > CAPACITY;
        let (subsets, is_truncated) = subsets(&service, &pods);
        assert_eq!(is_truncated, is_over, "{all} {unready}");
        assert!(subsets == truncated(wanted), "{all} {unready}");
        assert!(subsets.len() > 5, "{all} {unready}: {}", subsets.len());
    }
}

#[test]
fn the_work_is_the_sum_of_pods_and_ports_not_their_product() {
    let port =
        |number: usize| json!({"name": format!("p{number}"), "protocol": "TCP", "targetPort": number + 1});
    let service = super::service(&json!({"ports": (0..50).map(port).collect::<Vec<Value>>()}));
    let pods: Vec<_> = (0..2000).map(|number| super::pod(number, true)).collect();
    let addresses = pod_addresses(&service, &pods);
    let (numbered, ports) = numbered(&service, &addresses);
    assert_eq!(numbered.iter().map(|subset| subset.members.len()).sum::<usize>(), 2000);
    assert_eq!((numbered.len(), ports.len()), (1, 50));
    let (service, pods) = many(2000, |_| true);
    let addresses = pod_addresses(&service, &pods);
    let (numbered, ports) = super::super::numbered(&service, &addresses);
    let named: usize = pods.iter().map(|pod| list(&pod["spec"]["containers"][0], "ports").len()).sum();
    let members = numbered.iter().map(|subset| subset.members.len()).sum::<usize>();
    assert!(members <= 2000 + named && ports.len() == 40, "{members} {}", ports.len());
}

#[test]
fn subsets_that_would_be_much_longer_are_not_repacked() {
    let addresses = |part: usize| -> Vec<Value> {
        (0..100).map(|number| json!({"ip": format!("10.0.{part}.{number}")})).collect()
    };
    // Each port is in other subsets: those of the bits of its number.
    let subsets = |bits: usize| -> Vec<Value> {
        let subset = |bit: usize| {
            let ports = (1..1 << bits).filter(|port| port >> bit & 1 == 1);
            let ports: Vec<Value> = ports.map(|port: u32| json!({"port": port, "protocol": "TCP"})).collect();
            json!({"addresses": addresses(bit), "ports": ports})
        };
        (0..bits).map(subset).collect()
    };
    let small = repack(&subsets(5)).unwrap();
    assert_eq!(count(&small, "addresses"), 5 * 16 * 100);
    assert_eq!(repack(&subsets(12)), None);
    // All in one subset is as cheap as it looks.
    let ports: Vec<Value> = (0..10_000).map(|port| json!({"port": port, "protocol": "TCP"})).collect();
    let all: Vec<Value> = (0..100).flat_map(addresses).collect();
    let one = repack(&[json!({"addresses": all, "ports": ports})]).unwrap();
    assert_eq!((one.len(), count(&one, "addresses"), list(&one[0], "ports").len()), (1, 10_000, 10_000));
}
