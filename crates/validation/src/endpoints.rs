//! Endpoints and EndpointSlices.

// upstream: pkg/apis/core/validation/validation.go
// upstream: pkg/apis/discovery/validation/validation.go

use std::collections::HashSet;

use atoll_meta::{FieldError, names, object};
use serde_json::Value;

use crate::Checks;
use crate::addresses::{endpoint, legacy, parse};
use crate::field_value::{Errors, FieldValue, StringRule, equal, immutable_name};
use crate::ports;

pub(crate) static ENDPOINTS: Checks = Checks {
    create: |endpoints| subsets(endpoints),
    update: |new, old| {
        let same = equal(FieldValue::field(new, "subsets").value, FieldValue::field(old, "subsets").value);
        if same { Errors::new() } else { subsets(new) }
    },
    ..Checks::NONE
};

fn subsets(endpoints: &Value) -> Errors {
    let mut errors = Errors::new();
    for subset in FieldValue::field(endpoints, "subsets").items() {
        let (addresses, waiting) = (subset.get("addresses"), subset.get("notReadyAddresses"));
        if addresses.is_empty() && waiting.is_empty() {
            errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for address in addresses.items().chain(waiting.items()) {
            subset_address(&mut errors, &address);
        }
        let ports = subset.get("ports");
        for port in ports.items() {
            let name = port.get("name");
            if !name.is_empty() {
                name.rules(&mut errors, names::dns1123_label(name.text()));
            } else if ports.len() > 1 {
                errors.push(name.required(""));
            }
            ports::number(&mut errors, &port.get("port"));
            port.get("protocol").one_of(&mut errors, ports::PROTOCOLS);
            let protocol = port.get("appProtocol");
            if protocol.is_set() {
                protocol.rules(&mut errors, names::qualified_name(protocol.text()));
            }
        }
    }
    errors
}

fn subset_address(errors: &mut Errors, address: &FieldValue<'_>) {
    let (ip, host, node) = (address.get("ip"), address.get("hostname"), address.get("nodeName"));
    legacy(errors, &ip, &[]);
    if !host.is_empty() {
        host.rules(errors, names::dns1123_label(host.text()));
    }
    if node.is_set() {
        node.rules(errors, names::dns1123_subdomain(node.text()));
    }
    endpoint(errors, &ip);
}

pub(crate) static ENDPOINT_SLICES: Checks = Checks {
    create: |slice| {
        let mut errors = Errors::new();
        validate(&mut errors, slice, None);
        errors
    },
    update: |new, old| {
        let mut errors = Errors::new();
        validate(&mut errors, new, Some(old));
        immutable_name(
            &mut errors,
            &FieldValue::field(new, "addressType"),
            &FieldValue::field(old, "addressType"),
        );
        errors
    },
    ..Checks::NONE
};

const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_ENDPOINTS: usize = 1_000;
const MAX_TOPOLOGY_LABELS: usize = 16;
const MAX_HINTS: usize = 8;

fn validate(errors: &mut Errors, slice: &Value, old: Option<&Value>) {
    let kind = FieldValue::field(slice, "addressType");
    kind.one_of(errors, &["FQDN", "IPv4", "IPv6"]);
    slice_ports(errors, &FieldValue::field(slice, "ports"));
    let endpoints = FieldValue::field(slice, "endpoints");
    if old.is_some_and(|old| equal(FieldValue::field(old, "endpoints").value, endpoints.value)) {
        return;
    }
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(FieldError::too_many(&endpoints.path, endpoints.len(), MAX_ENDPOINTS));
        return;
    }
    for endpoint in endpoints.items() {
        slice_endpoint(errors, &endpoint, kind.text());
    }
}

fn slice_ports(errors: &mut Errors, ports: &FieldValue<'_>) {
    if ports.len() > MAX_PORTS {
        errors.push(FieldError::too_many(&ports.path, ports.len(), MAX_PORTS));
        return;
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let (name, protocol) = (port.get("name"), port.get("protocol"));
        if !name.is_empty() {
            name.rules(errors, names::dns1123_label(name.text()));
        }
        if !seen.insert(name.text()) {
            errors.push(FieldError::duplicate(&name.path, name.named()));
        }
        if !protocol.is_set() {
            errors.push(protocol.required(""));
        } else if !ports::PROTOCOLS.contains(&protocol.text()) {
            errors.push(protocol.unsupported(ports::PROTOCOLS));
        }
        let protocol = port.get("appProtocol");
        if protocol.is_set() {
            protocol.rules(errors, names::qualified_name(protocol.text()));
        }
    }
}

fn slice_endpoint(errors: &mut Errors, part: &FieldValue<'_>, kind: &str) {
    let addresses = part.get("addresses");
    if addresses.is_empty() {
        errors.push(addresses.required("must contain at least 1 address"));
    } else if addresses.len() > MAX_ADDRESSES {
        errors.push(FieldError::too_many(&addresses.path, addresses.len(), MAX_ADDRESSES));
    }
    for address in addresses.items() {
        let before = errors.len();
        match kind {
            "IPv4" => legacy(errors, &address, &[]),
            "IPv6" => crate::addresses::address(errors, &address),
            "FQDN" => errors.extend(names::fully_qualified_domain_name(&address.path, address.text())),
            _ => {}
        }
        if matches!(kind, "IPv4" | "IPv6") && errors.len() == before {
            if parse(address.text()).is_some_and(|ip| ip.is_ipv4()) != (kind == "IPv4") {
                errors.push(addresses.invalid_as(address.text(), format!("must be an {kind} address")));
            }
            endpoint(errors, &address);
        }
    }
    let node = part.get("nodeName");
    if node.is_set() {
        node.rules(errors, names::dns1123_subdomain(node.text()));
    }
    let topology = part.get("deprecatedTopology");
    if topology.len() > MAX_TOPOLOGY_LABELS {
        errors.push(FieldError::too_many(&topology.path, topology.len(), MAX_TOPOLOGY_LABELS));
    }
    errors.extend(object::validate_labels(topology.text_entries(), &topology.path));
    let host = part.get("hostname");
    if host.is_set() {
        host.rules(errors, names::dns1123_label(host.text()));
    }
    let hints = part.get("hints");
    for (field, rule) in
        [("forZones", names::label_value as StringRule), ("forNodes", names::dns1123_subdomain)]
    {
        let hints = hints.get(field);
        if hints.len() > MAX_HINTS {
            errors.push(FieldError::too_many(&hints.path, hints.len(), MAX_HINTS));
            return;
        }
        let mut seen = HashSet::new();
        for hint in hints.items() {
            let name = hint.get("name");
            if !seen.insert(name.text()) {
                errors.push(FieldError::duplicate(&name.path, name.text()));
            }
            name.rules(errors, rule(name.text()));
        }
    }
}
