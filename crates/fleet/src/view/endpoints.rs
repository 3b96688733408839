//! The endpoints of a Service in a report.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use atoll_meta::names;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of endpoints of one Service in one cluster.
pub const MAX_ENDPOINTS: usize = 1_000;
/// Maximum number of combinations of address type and ports. Pods with equal named ports share one.
const MAX_GROUPS: usize = 32;
/// Maximum number of ports in a combination. A Service rarely has more than ten.
const MAX_PORTS: usize = 100;
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// The endpoints that a placed Service has in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceEndpoints {
    pub slices: Vec<EndpointGroup>,
    /// Number of Pods that are ready. A Pod with addresses of two types counts once.
    pub ready: i64,
    /// Number of endpoints that are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut: i64,
}

/// Endpoints with the same type of addresses and the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointGroup {
    pub address_type: String,
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointPort {
    pub name: String,
    pub port: i64,
    pub protocol: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_protocol: String,
}

/// An endpoint. It has no reference to its Pod and node, which exist only in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    pub address: String,
    pub ready: bool,
    pub serving: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminating: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zone: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl EndpointGroup {
    /// Reads an EndpointSlice.
    pub fn of(slice: &Value) -> EndpointGroup {
        let items = |field: &str| slice[field].as_array().into_iter().flatten();
        EndpointGroup {
            address_type: text(&slice["addressType"]),
            ports: items("ports").map(EndpointPort::of).collect(),
            endpoints: items("endpoints").map(Endpoint::of).collect(),
        }
    }

    /// Memory of the texts and endpoints, roughly.
    pub fn size(&self) -> usize {
        let ports: usize =
            self.ports.iter().map(|port| port.name.len() + port.app_protocol.len() + PORT).sum();
        let texts = |one: &Endpoint| one.address.len() + one.hostname.len() + one.zone.len() + ENDPOINT;
        ports + self.endpoints.iter().map(texts).sum::<usize>() + GROUP
    }
}

/// Memory of a group, a port and an endpoint in addition to their texts.
const GROUP: usize = 128;
const PORT: usize = 96;
const ENDPOINT: usize = 96;

impl EndpointPort {
    fn of(port: &Value) -> EndpointPort {
        EndpointPort {
            name: text(&port["name"]),
            port: port["port"].as_i64().unwrap_or(0),
            protocol: text(&port["protocol"]),
            app_protocol: text(&port["appProtocol"]),
        }
    }

    fn is_valid(&self) -> bool {
        (self.name.is_empty() || names::dns1123_label(&self.name).is_empty())
            && names::port_number(self.port).is_empty()
            && PROTOCOLS.contains(&self.protocol.as_str())
            && (self.app_protocol.is_empty() || names::qualified_name(&self.app_protocol).is_empty())
    }
}

impl Endpoint {
    /// Reads an endpoint. An unknown condition means ready, and serving means ready if it is not set.
    fn of(endpoint: &Value) -> Endpoint {
        let conditions = &endpoint["conditions"];
        let ready = conditions["ready"].as_bool().unwrap_or(true);
        Endpoint {
            // Addresses of an endpoint after the first have no defined meaning.
            address: text(&endpoint["addresses"][0]),
            ready,
            serving: conditions["serving"].as_bool().unwrap_or(ready),
            terminating: conditions["terminating"].as_bool().unwrap_or(false),
            hostname: text(&endpoint["hostname"]),
            zone: text(&endpoint["zone"]),
        }
    }

    /// Returns the endpoint with a canonical address and valid names; `None` if the address cannot be one.
    fn checked(mut self, address_type: &str) -> Option<Endpoint> {
        self.address = address(&self.address, address_type)?;
        if !names::dns1123_label(&self.hostname).is_empty() {
            self.hostname.clear();
        }
        if !names::label_value(&self.zone).is_empty() {
            self.zone.clear();
        }
        Some(self)
    }
}

impl ServiceEndpoints {
    /// The endpoints of several slices.
    pub fn of(slices: impl Iterator<Item = EndpointGroup>) -> ServiceEndpoints {
        ServiceEndpoints { slices: slices.collect(), ..ServiceEndpoints::default() }.bounded()
    }

    /// Limits and sorts endpoints: each address once for the same ports, and only addresses that an EndpointSlice
    /// may contain. Of too many, those that are ready are kept first.
    pub fn bounded(self) -> ServiceEndpoints {
        let mut cut = self.cut.clamp(0, i64::from(i32::MAX));
        let mut groups = Groups::new();
        for EndpointGroup { address_type, mut ports, endpoints } in self.slices {
            let is_type = matches!(address_type.as_str(), "IPv4" | "IPv6");
            ports.sort();
            ports.dedup_by(|one, other| one.name == other.name);
            let is_valid = is_type && ports.len() <= MAX_PORTS && ports.iter().all(EndpointPort::is_valid);
            let key = (address_type, ports);
            if !is_valid || groups.len() >= MAX_GROUPS && !groups.contains_key(&key) {
                cut += length(&endpoints);
                continue;
            }
            let address_type = key.0.clone();
            let group = groups.entry(key).or_default();
            for endpoint in endpoints {
                match endpoint.checked(&address_type) {
                    Some(endpoint) => keep(group, endpoint),
                    None => cut += 1,
                }
            }
        }
        cut += remove_excess(&mut groups);
        let ready = ready(&groups);
        let slices = groups.into_iter().filter(|(_, endpoints)| !endpoints.is_empty());
        let slices = slices.map(|((address_type, ports), endpoints)| EndpointGroup {
            address_type,
            ports,
            endpoints: endpoints.into_values().collect(),
        });
        ServiceEndpoints { slices: slices.collect(), ready, cut }
    }
}

impl ServiceEndpoints {
    /// Leaves all endpoints out.
    pub fn emptied(self) -> ServiceEndpoints {
        let left_out: i64 = self.slices.iter().map(|group| length(&group.endpoints)).sum();
        ServiceEndpoints { cut: self.cut + left_out, ..ServiceEndpoints::default() }
    }
}

type Groups = BTreeMap<(String, Vec<EndpointPort>), BTreeMap<String, Endpoint>>;

/// Adds an endpoint. Of two with the same address, such as a Pod that ends and its successor, the ready one counts.
fn keep(group: &mut BTreeMap<String, Endpoint>, endpoint: Endpoint) {
    let rank = |one: &Endpoint| (one.ready, one.serving, !one.terminating);
    match group.get(&endpoint.address) {
        Some(known) if rank(known) >= rank(&endpoint) => {}
        _ => drop(group.insert(endpoint.address.clone(), endpoint)),
    }
}

/// Removes endpoints beyond the limit, and returns how many.
fn remove_excess(groups: &mut Groups) -> i64 {
    let total: usize = groups.values().map(BTreeMap::len).sum();
    let mut excess = total.saturating_sub(MAX_ENDPOINTS);
    let removed = i64::try_from(excess).unwrap_or(i64::MAX);
    for is_ready in [false, true] {
        for group in groups.values_mut() {
            let last = group.values().rev().filter(|one| one.ready == is_ready).take(excess);
            let last: Vec<String> = last.map(|one| one.address.clone()).collect();
            excess -= last.len();
            for address in last {
                group.remove(&address);
            }
        }
    }
    removed
}

/// Number of ready Pods: the most ready addresses of one type.
fn ready(groups: &Groups) -> i64 {
    let mut by_type: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ((address_type, _), endpoints) in groups {
        let ready = endpoints.values().filter(|one| one.ready).map(|one| one.address.as_str());
        by_type.entry(address_type).or_default().extend(ready);
    }
    by_type.values().map(BTreeSet::len).max().and_then(|most| i64::try_from(most).ok()).unwrap_or(0)
}

fn length(endpoints: &[Endpoint]) -> i64 {
    i64::try_from(endpoints.len()).unwrap_or(i64::MAX)
}

/// Returns an address in canonical form, if it may be in an EndpointSlice: no address that means another machine
/// for each client.
fn address(text: &str, address_type: &str) -> Option<String> {
    let address: IpAddr = text.parse().ok()?;
    let is_local = match address {
        IpAddr::V4(four) => four.is_link_local() || four.is_broadcast(),
        // An IPv4 address in another notation is not accepted.
        IpAddr::V6(six) => six.is_unicast_link_local() || six.to_ipv4_mapped().is_some(),
    };
    let is_usable =
        !is_local && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast();
    let is_of_type = address.is_ipv4() == (address_type == "IPv4");
    (is_usable && is_of_type).then(|| address.to_string())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(address_type: &str, port: i64, addresses: &[(&str, bool)]) -> EndpointGroup {
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|(address, ready)| json!({ "addresses": [address], "conditions": { "ready": ready } }))
            .collect();
        EndpointGroup::of(&json!({
            "addressType": address_type,
            "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
            "endpoints": endpoints,
        }))
    }

    fn addresses(found: &ServiceEndpoints) -> String {
        let group = |group: &EndpointGroup| {
            let shown = group.endpoints.iter().map(|one| match one.ready {
                true => one.address.clone(),
                false => format!("({})", one.address),
            });
            format!("{} {}: {}", group.address_type, group.ports[0].port, shown.collect::<Vec<_>>().join(" "))
        };
        found.slices.iter().map(group).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn conditions_that_are_not_set_have_the_meaning_of_the_api() {
        let endpoint = |conditions: Value| {
            let found = Endpoint::of(&json!({
                "addresses": ["10.1.0.1", "10.1.0.2"], "conditions": conditions, "nodeName": "n", "zone": "a",
                "hostname": "web-0", "targetRef": { "kind": "Pod", "name": "web-0" },
            }));
            assert_eq!((found.address.as_str(), found.zone.as_str()), ("10.1.0.1", "a"));
            assert_eq!(found.hostname, "web-0");
            (found.ready, found.serving, found.terminating)
        };
        assert_eq!(endpoint(json!({})), (true, true, false));
        assert_eq!(endpoint(json!({ "ready": false })), (false, false, false));
        let ending = json!({ "ready": false, "serving": true, "terminating": true });
        assert_eq!(endpoint(ending), (false, true, true));
    }

    #[test]
    fn slices_with_equal_ports_are_one() {
        let found = ServiceEndpoints::of(
            [
                slice("IPv4", 80, &[("10.1.0.2", true), ("10.1.0.1", false)]),
                slice("IPv4", 81, &[("10.1.0.9", true)]),
                slice("IPv4", 80, &[("10.1.0.1", true), ("10.1.0.2", false)]),
                slice("IPv6", 80, &[("fd00::1", true), ("FD00:0::2", true)]),
            ]
            .into_iter(),
        );
        assert_eq!(
            addresses(&found),
            "IPv4 80: 10.1.0.1 10.1.0.2; IPv4 81: 10.1.0.9; IPv6 80: fd00::1 fd00::2"
        );
        assert_eq!((found.ready, found.cut), (3, 0));
        assert_eq!(found.clone().bounded(), found);
    }

    #[test]
    fn what_a_slice_must_not_contain_is_cut() {
        for (address_type, address) in [
            ("IPv4", "127.0.0.1"),
            ("IPv4", "169.254.169.254"),
            ("IPv4", "0.0.0.0"),
            ("IPv4", "224.0.0.1"),
            ("IPv4", "255.255.255.255"),
            ("IPv4", "fd00::1"),
            ("IPv4", "example.com"),
            ("IPv4", ""),
            ("IPv6", "10.1.0.1"),
            ("IPv6", "::1"),
            ("IPv6", "fe80::1"),
            ("IPv6", "::ffff:127.0.0.1"),
            ("FQDN", "example.com"),
        ] {
            let found = ServiceEndpoints::of([slice(address_type, 80, &[(address, true)])].into_iter());
            let expected = ServiceEndpoints { cut: 1, ..ServiceEndpoints::default() };
            assert_eq!(found, expected, "{address_type} {address}");
        }
        for port in [
            json!({ "name": "UPPER", "port": 80, "protocol": "TCP" }),
            json!({ "name": "", "port": 0, "protocol": "TCP" }),
            json!({ "name": "", "port": 80, "protocol": "ICMP" }),
            json!({ "name": "", "port": 80, "protocol": "TCP", "appProtocol": "a b" }),
        ] {
            let mut group = slice("IPv4", 80, &[("10.1.0.1", true)]);
            group.ports = vec![EndpointPort::of(&port)];
            assert_eq!(ServiceEndpoints::of([group].into_iter()).cut, 1, "{port}");
        }
        let mut named = slice("IPv4", 80, &[("10.1.0.1", true)]);
        named.endpoints[0].zone = "no zone!".into();
        named.endpoints[0].hostname = "-".into();
        let found = ServiceEndpoints::of([named].into_iter());
        assert_eq!((found.cut, found.slices[0].endpoints[0].zone.as_str()), (0, ""));
        assert_eq!(found.slices[0].endpoints[0].hostname, "");
    }

    #[test]
    fn ready_endpoints_are_kept_first() {
        let all: Vec<(String, bool)> = (0..MAX_ENDPOINTS + 50)
            .map(|number| (format!("10.1.{}.{}", number / 250, number % 250 + 1), number % 10 != 0))
            .collect();
        let all: Vec<(&str, bool)> = all.iter().map(|(address, ready)| (address.as_str(), *ready)).collect();
        let found = ServiceEndpoints::of([slice("IPv4", 80, &all)].into_iter());
        let kept = &found.slices[0].endpoints;
        assert_eq!((kept.len(), found.cut), (MAX_ENDPOINTS, 50));
        assert_eq!(found.ready, 945, "all that are ready");
        let many = (0..MAX_GROUPS + 3).map(|number| {
            let port = 80 + i64::try_from(number).unwrap();
            slice("IPv4", port, &[("10.1.0.1", true)])
        });
        let found = ServiceEndpoints::of(many);
        assert_eq!((found.slices.len(), found.cut, found.ready), (MAX_GROUPS, 3, 1));
    }
}
