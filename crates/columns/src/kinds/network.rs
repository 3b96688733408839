//! Services, endpoints, ingresses and network policies.

// upstream: pkg/printers/internalversion/printers.go

use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, NAME_DESCRIPTION, PLAIN};
use crate::fields::{annotation, at, list, number, text, text_or};
use crate::format::{distinct, first_few};
use crate::{Cell, Column, Printer};

pub fn printer(kind: &str) -> &'static Printer {
    match kind {
        "Ingress" => &INGRESS,
        "IngressClass" => &INGRESS_CLASS,
        "NetworkPolicy" => &NETWORK_POLICY,
        "ServiceCIDR" => &SERVICE_CIDR,
        "IPAddress" => &IP_ADDRESS,
        "EndpointSlice" => &ENDPOINT_SLICE,
        _ => &PLAIN,
    }
}

/// Maximum number of addresses, ports or hosts in a cell.
const SHOWN: usize = 3;

pub static SERVICE: Printer = Printer::new(&[
    NAME,
    Column::new("Type", Cell::Text("spec.type"), "Type of the service."),
    Column::new("Cluster-IP", Cell::Special(cluster_ip), "Cluster IP."),
    Column::new("External-IP", Cell::Special(external_ip), "External addresses."),
    Column::new("Port(s)", Cell::Special(service_ports), "Ports and node ports."),
    AGE,
    Column::new("Selector", Cell::Labels("spec.selector"), "Selector of the pods.").wide(),
]);

fn cluster_ip(service: &Value, _: Timestamp) -> Value {
    list(service, "spec.clusterIPs").first().and_then(Value::as_str).unwrap_or("<none>").into()
}

fn external_ip(service: &Value, _: Timestamp) -> Value {
    let given = joined(list(service, "spec.externalIPs"));
    match text(service, "spec.type") {
        "ClusterIP" | "NodePort" if given.is_empty() => "<none>".into(),
        "ClusterIP" | "NodePort" => given.into(),
        "LoadBalancer" => match (balancer(service), given.is_empty()) {
            (address, true) if address.is_empty() => "<pending>".into(),
            (address, true) => address.into(),
            (address, false) if address.is_empty() => given.into(),
            (address, false) => format!("{address},{given}").into(),
        },
        "ExternalName" => text(service, "spec.externalName").into(),
        _ => "<unknown>".into(),
    }
}

fn joined(texts: &[Value]) -> String {
    texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

/// Returns the addresses of a load balancer.
fn balancer(object: &Value) -> String {
    let ingress = list(object, "status.loadBalancer.ingress").iter();
    distinct(
        ingress.map(|point| text_or(point, "ip", text(point, "hostname"))).filter(|text| !text.is_empty()),
    )
}

fn service_ports(service: &Value, _: Timestamp) -> Value {
    let ports = list(service, "spec.ports").iter().map(|port| {
        let (own, protocol) = (number(port, "port"), text(port, "protocol"));
        match number(port, "nodePort") {
            node if node > 0 => format!("{own}:{node}/{protocol}"),
            _ => format!("{own}/{protocol}"),
        }
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    if ports.is_empty() { "<none>".into() } else { ports.into() }
}

pub static ENDPOINTS: Printer =
    Printer::new(&[NAME, Column::new("Endpoints", Cell::Special(endpoints), "Addresses with ports."), AGE]);

fn endpoints(object: &Value, _: Timestamp) -> Value {
    let subsets = list(object, "subsets");
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut shown: Vec<String> = Vec::new();
    let mut count = 0;
    let mut add = |address: &Value, port: Option<i64>| {
        count += 1;
        if shown.len() < SHOWN {
            shown.push(host_and_port(text(address, "ip"), port));
        }
    };
    for subset in subsets {
        let addresses = list(subset, "addresses");
        let ports = list(subset, "ports");
        // A Service without ports has endpoints without ports.
        if ports.is_empty() {
            addresses.iter().for_each(|address| add(address, None));
        }
        for port in ports {
            addresses.iter().for_each(|address| add(address, Some(number(port, "port"))));
        }
    }
    let shown = shown.join(",");
    match count {
        count if count > SHOWN => format!("{shown} + {} more...", count - SHOWN).into(),
        _ => shown.into(),
    }
}

fn host_and_port(address: &str, port: Option<i64>) -> String {
    match port {
        None => address.to_owned(),
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
    }
}

static ENDPOINT_SLICE: Printer = Printer::new(&[
    NAME,
    Column::new("AddressType", Cell::Text("addressType"), "Type of the addresses."),
    Column::new("Ports", Cell::Special(slice_ports), "Ports of each endpoint."),
    Column::new("Endpoints", Cell::Special(slice_addresses), "Addresses."),
    AGE,
]);

fn slice_ports(slice: &Value, _: Timestamp) -> Value {
    let ports = list(slice, "ports").iter().map(|port| match (at(port, "port"), at(port, "name")) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.as_str().unwrap_or_default().to_owned(),
        (None, None) => "*".to_owned(),
    });
    first_few(&ports.collect::<Vec<_>>(), SHOWN, "<unset>").into()
}

fn slice_addresses(slice: &Value, _: Timestamp) -> Value {
    let endpoints = list(slice, "endpoints").iter();
    let addresses: Vec<&str> =
        endpoints.flat_map(|endpoint| list(endpoint, "addresses")).filter_map(Value::as_str).collect();
    first_few(&addresses, SHOWN, "<unset>").into()
}

static INGRESS: Printer = Printer::new(&[
    NAME,
    Column::new("Class", Cell::Given("spec.ingressClassName", "<none>"), "Ingress class."),
    Column::new("Hosts", Cell::Special(hosts), "Host names."),
    Column::new(
        "Address",
        Cell::Special(|object, _| balancer(object).into()),
        "Addresses of the load balancer.",
    ),
    Column::new("Ports", Cell::Special(ingress_ports), "Ports."),
    AGE,
]);

fn hosts(ingress: &Value, _: Timestamp) -> Value {
    let rules = list(ingress, "spec.rules");
    let mut shown: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= shown.len() == SHOWN;
        let host = text(rule, "host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".into(),
        // Rules without a host are counted here, too.
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - SHOWN).into(),
        (false, false) => shown.join(",").into(),
    }
}

fn ingress_ports(ingress: &Value, _: Timestamp) -> Value {
    if list(ingress, "spec.tls").is_empty() { "80".into() } else { "80, 443".into() }
}

static INGRESS_CLASS: Printer = Printer::new(&[
    Column::new("Name", Cell::Special(class_name), NAME_DESCRIPTION).naming(),
    Column::new("Controller", Cell::Text("spec.controller"), "Controller of the class."),
    Column::new("Parameters", Cell::Special(parameters), "Reference to parameters."),
    AGE,
]);

fn class_name(class: &Value, _: Timestamp) -> Value {
    let name = text(class, "metadata.name");
    match annotation(class, "ingressclass.kubernetes.io/is-default-class") {
        Some("true") => format!("{name} (default)").into(),
        _ => name.into(),
    }
}

fn parameters(class: &Value, _: Timestamp) -> Value {
    let Some(parameters) = at(class, "spec.parameters") else { return "<none>".into() };
    let (kind, name) = (text(parameters, "kind"), text(parameters, "name"));
    match at(parameters, "apiGroup").and_then(Value::as_str) {
        Some(group) => format!("{kind}.{group}/{name}").into(),
        None => format!("{kind}/{name}").into(),
    }
}

static NETWORK_POLICY: Printer = Printer::new(&[
    NAME,
    Column::new("Pod-Selector", Cell::Selector("spec.podSelector"), "Selector of the pods."),
    AGE,
]);

static SERVICE_CIDR: Printer = Printer::new(&[
    NAME,
    Column::new(
        "CIDRs",
        Cell::Special(|object, _| joined(list(object, "spec.cidrs")).into()),
        "Ranges of addresses for services.",
    ),
    AGE,
]);

static IP_ADDRESS: Printer = Printer {
    surplus: Some(AGE.cell),
    ..Printer::new(&[NAME, Column::new("ParentRef", Cell::Special(parent), "Object that uses the address.")])
};

fn parent(address: &Value, _: Timestamp) -> Value {
    let Some(parent) = at(address, "spec.parentRef") else { return "<none>".into() };
    let mut resource = text(parent, "resource").to_owned();
    for (separator, field) in [(".", "group"), ("/", "namespace")] {
        let value = text(parent, field);
        if field == "namespace" {
            resource = resource.to_lowercase();
        }
        if !value.is_empty() {
            resource = format!("{resource}{separator}{value}");
        }
    }
    format!("{resource}/{}", text(parent, "name")).into()
}
