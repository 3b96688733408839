//! Canonical form of endpoint subsets.

// upstream: pkg/api/v1/endpoints/util.go

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::shared::go_print;

/// Repacks subsets: addresses with the same ports share a subset.
pub fn repack(subsets: &[Value]) -> Vec<Value> {
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    let mut addresses: Vec<&Value> = Vec::new();
    // For each port, the addresses that have it and whether they are ready. "No port" counts as a port.
    let mut by_port: BTreeMap<String, (Option<&Value>, BTreeMap<usize, bool>)> = BTreeMap::new();
    for subset in subsets {
        let ports = list(subset, "ports");
        let ports: Vec<Option<&Value>> =
            if ports.is_empty() { vec![None] } else { ports.iter().map(Some).collect() };
        for port in ports {
            let printed = port.map(go_print::endpoint_port).unwrap_or_default();
            let (_, offering) = by_port.entry(printed).or_insert_with(|| (port, BTreeMap::new()));
            for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
                for address in list(subset, field) {
                    let number = *known.entry(identity(address)).or_insert_with(|| {
                        addresses.push(address);
                        addresses.len() - 1
                    });
                    // An address that is unready in one subset is unready.
                    *offering.entry(number).or_insert(ready) &= ready;
                }
            }
        }
    }
    let mut by_addresses: BTreeMap<Vec<(usize, bool)>, Vec<Value>> = BTreeMap::new();
    for (port, offering) in by_port.into_values() {
        by_addresses.entry(offering.into_iter().collect()).or_default().extend(port.cloned());
    }
    let mut packed: Vec<Value> = Vec::new();
    for (offering, mut ports) in by_addresses {
        ports.sort_by_cached_key(|port| go_print::fnv(&go_print::endpoint_port(port)));
        let of = |wanted: bool| {
            let of = offering.iter().filter(|(_, ready)| *ready == wanted);
            let mut of: Vec<&Value> = of.map(|(number, _)| addresses[*number]).collect();
            of.sort_by_cached_key(|address| identity(address));
            of.into_iter().cloned().collect::<Vec<Value>>()
        };
        let mut subset = Map::new();
        for (field, list) in [("addresses", of(true)), ("notReadyAddresses", of(false)), ("ports", ports)] {
            if !list.is_empty() {
                subset.insert(field.into(), list.into());
            }
        }
        packed.push(subset.into());
    }
    packed.sort_by_cached_key(|subset| go_print::fnv(&go_print::subset(subset)));
    packed
}

fn list<'a>(subset: &'a Value, field: &str) -> &'a [Value] {
    subset[field].as_array().map_or(&[], Vec::as_slice)
}

/// Returns address and pod uid, because pods may share an address.
fn identity(address: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    (text(&address["ip"]), text(&address["targetRef"]["uid"]))
}
