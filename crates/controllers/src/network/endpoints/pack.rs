//! Canonical form of endpoint subsets: ports with the same addresses share a subset.

// upstream: pkg/api/v1/endpoints/util.go

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::shared::go_print;

/// An address by its place in the canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    pub place: usize,
    pub ready: bool,
}

/// Addresses in canonical order, and ports that all of them have. Ports are places in a list, too.
#[derive(Debug, Default)]
pub struct Subset {
    pub members: Vec<Member>,
    pub ports: Vec<usize>,
}

impl Subset {
    pub fn count(&self, ready: bool) -> usize {
        self.members.iter().filter(|member| member.ready == ready).count()
    }

    fn places(&self, ready: bool) -> impl Iterator<Item = usize> {
        self.members.iter().filter(move |member| member.ready == ready).map(|member| member.place)
    }

    pub fn to_value(&self, address: impl Fn(usize) -> Value, ports: &[Value]) -> Value {
        let of = |ready| self.places(ready).map(&address).collect::<Vec<Value>>();
        let ports = self.ports.iter().map(|port| ports[*port].clone()).collect();
        let mut subset = Map::new();
        for (field, list) in [("addresses", of(true)), ("notReadyAddresses", of(false)), ("ports", ports)] {
            if !list.is_empty() {
                subset.insert(field.into(), list.into());
            }
        }
        subset.into()
    }
}

/// Combines subsets so that each port is in one subset. The cost is about the number of addresses and ports,
/// not their product, if each port is in few subsets. Returns `None` if there would be more than `most`
/// addresses in all.
pub fn pack(subsets: &[Subset], most: usize) -> Option<Vec<Subset>> {
    // "No port" counts as a port.
    let mut subsets_of: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (number, subset) in subsets.iter().enumerate() {
        let ports = subset.ports.iter().copied().map(Some);
        for port in ports.chain(subset.ports.is_empty().then_some(None)) {
            let having = subsets_of.entry(port).or_default();
            if having.last() != Some(&number) {
                having.push(number);
            }
        }
    }
    // Ports in the same subsets have the same addresses, so the addresses are combined once for all of them.
    let mut ports_of: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (port, having) in subsets_of {
        ports_of.entry(having).or_default().extend(port);
    }
    let addresses =
        |having: &Vec<usize>| having.iter().map(|number| subsets[*number].members.len()).sum::<usize>();
    if ports_of.keys().map(addresses).sum::<usize>() > most {
        return None;
    }
    let mut packed: HashMap<Vec<Member>, Vec<usize>> = HashMap::new();
    for (having, mut ports) in ports_of {
        let members = match having.as_slice() {
            [only] => subsets[*only].members.clone(),
            several => combined(several.iter().flat_map(|number| &subsets[*number].members)),
        };
        packed.entry(members).or_default().append(&mut ports);
    }
    Some(packed.into_iter().map(|(members, ports)| Subset { members, ports }).collect())
}

/// Returns members in canonical order. An address that is unready once is unready.
pub fn combined<'m>(members: impl Iterator<Item = &'m Member>) -> Vec<Member> {
    let mut combined: BTreeMap<usize, bool> = BTreeMap::new();
    for member in members {
        *combined.entry(member.place).or_insert(member.ready) &= member.ready;
    }
    combined.into_iter().map(|(place, ready)| Member { place, ready }).collect()
}

/// Sorts ports and subsets as upstream does. `address` prints the address with a place.
pub fn sort(subsets: &mut [Subset], addresses: usize, address: impl Fn(usize) -> String, ports: &[Value]) {
    let hashes: Vec<u128> = ports.iter().map(|port| go_print::fnv(&go_print::endpoint_port(port))).collect();
    for subset in subsets.iter_mut() {
        subset.ports.sort_by_key(|port| hashes[*port]);
    }
    if subsets.len() < 2 {
        return;
    }
    let addresses: Vec<String> = (0..addresses).map(address).collect();
    let ports: Vec<String> = ports.iter().map(go_print::listed_port).collect();
    subsets.sort_by_cached_key(|subset| {
        let of = |ready| subset.places(ready).map(|place| addresses[place].as_str());
        go_print::subset_hash(of(true), of(false), subset.ports.iter().map(|port| ports[*port].as_str()))
    });
}
