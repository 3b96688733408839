//! Repacks the subsets of Endpoints.

// upstream: pkg/api/v1/endpoints/util.go

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::pack::{self, Member, Subset};
use crate::shared::go_print;

/// Maximum number of addresses in all repacked subsets. Users may write Endpoints in which each port is
/// in other subsets, so that each has a long list of addresses of its own.
const MOST_ADDRESSES: usize = 200_000;

/// Repacks subsets: addresses with the same ports share a subset. Returns `None` if the result is too large.
pub fn repack(subsets: &[Value]) -> Option<Vec<Value>> {
    let mut known: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    for address in subsets.iter().flat_map(|subset| addresses(subset).map(|(address, _)| address)) {
        known.entry(identity(address)).or_insert(address);
    }
    let places: HashMap<(&str, &str), usize> = known.keys().copied().zip(0..).collect();
    let known: Vec<&Value> = known.into_values().collect();
    let mut ports: Vec<Value> = Vec::new();
    let mut port_places: HashMap<String, usize> = HashMap::new();
    let mut place_of = |port: &Value| {
        *port_places.entry(go_print::endpoint_port(port)).or_insert_with(|| {
            ports.push(port.clone());
            ports.len() - 1
        })
    };
    let numbered = subsets.iter().map(|subset| {
        let members =
            addresses(subset).map(|(address, ready)| Member { place: places[&identity(address)], ready });
        let members: Vec<Member> = members.collect();
        Subset {
            members: pack::combined(members.iter()),
            ports: list(subset, "ports").iter().map(&mut place_of).collect(),
        }
    });
    let numbered: Vec<Subset> = numbered.collect();
    let mut packed = pack::pack(&numbered, MOST_ADDRESSES)?;
    pack::sort(&mut packed, known.len(), |place| go_print::listed_address(known[place]), &ports);
    Some(packed.iter().map(|subset| subset.to_value(|place| known[place].clone(), &ports)).collect())
}

/// Returns the addresses of a subset, and whether they are ready.
fn addresses(subset: &Value) -> impl Iterator<Item = (&Value, bool)> {
    let of = |field, ready| list(subset, field).iter().map(move |address| (address, ready));
    of("addresses", true).chain(of("notReadyAddresses", false))
}

fn list<'a>(subset: &'a Value, field: &str) -> &'a [Value] {
    subset[field].as_array().map_or(&[], Vec::as_slice)
}

/// Returns address and pod uid, because pods may share an address.
fn identity(address: &Value) -> (&str, &str) {
    (address["ip"].as_str().unwrap_or_default(), address["targetRef"]["uid"].as_str().unwrap_or_default())
}
