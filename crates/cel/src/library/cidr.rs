//! `kubernetes.net.cidr`: networks.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/cidr.go

use super::address::{Network, parse_address, parse_network};
use super::arguments::{opaque, text};
use super::costs::{
    contains_address, contains_address_text, contains_network, contains_network_text,
    estimate_contains_address, estimate_contains_address_text, estimate_contains_network,
    estimate_contains_network_text, estimate_read, read,
};
use super::ip::Address;
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::{Opaque, Value};

pub static LIBRARY: Library = Library {
    name: "kubernetes.net.cidr",
    functions: &[
        Function {
            name: "cidr",
            overloads: &[
                Overload::new("string_to_cidr", "(string) -> net.CIDR()", cidr).costs(read, estimate_read)
            ],
        },
        Function {
            name: "isCIDR",
            overloads: &[Overload::new("is_cidr", "(string) -> bool", is_cidr).costs(read, estimate_read)],
        },
        Function {
            name: "containsIP",
            overloads: &[
                Overload::new("cidr_contains_ip_string", "net.CIDR().(string) -> bool", contains_ip_text)
                    .costs(contains_address_text, estimate_contains_address_text)
                    .ambiguously(contains_address),
                Overload::new("cidr_contains_ip_ip", "net.CIDR().(net.IP()) -> bool", contains_ip)
                    .costs(contains_address, estimate_contains_address),
            ],
        },
        Function {
            name: "containsCIDR",
            overloads: &[
                Overload::new("cidr_contains_cidr_string", "net.CIDR().(string) -> bool", contains_cidr_text)
                    .costs(contains_network_text, estimate_contains_network_text)
                    .ambiguously(contains_network),
                Overload::new("cidr_contains_cidr", "net.CIDR().(net.CIDR()) -> bool", contains_cidr)
                    .costs(contains_network, estimate_contains_network),
            ],
        },
        Function { name: "ip", overloads: &[Overload::new("cidr_ip", "net.CIDR().() -> net.IP()", ip)] },
        Function {
            name: "prefixLength",
            overloads: &[Overload::new("cidr_prefix_length", "net.CIDR().() -> int", prefix_length)],
        },
        Function {
            name: "masked",
            overloads: &[Overload::new("cidr_masked", "net.CIDR().() -> net.CIDR()", masked)],
        },
        Function {
            name: "string",
            overloads: &[Overload::new("cidr_to_string", "(net.CIDR()) -> string", to_string)],
        },
    ],
    types: &["net.CIDR"],
};

impl Opaque for Network {
    fn type_name(&self) -> &'static str {
        "net.CIDR"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast::<Network>() == Some(self)
    }

    fn size(&self) -> Option<u64> {
        Some(u64::from(self.length.div_ceil(8)))
    }
}

/// Parses a network. Upstream's error contains the reason twice.
fn read_network(text: &str) -> Result<Network, Error> {
    parse_network(text).map_err(|reason| {
        Error::new(format!("network address parse error during conversion from string: {reason}"))
    })
}

fn cidr<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    read_network(text(arguments, 0)?).map(Value::opaque)
}

fn is_cidr<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(parse_network(text(arguments, 0)?).is_ok()))
}

fn contains_ip<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (network, address): (&Network, &Address) = (opaque(arguments, 0)?, opaque(arguments, 1)?);
    Ok(Value::Bool(network.contains(address.0)))
}

fn contains_ip_text<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let network: &Network = opaque(arguments, 0)?;
    // Upstream drops the reason here.
    let address = parse_address(text(arguments, 1)?).map_err(|_| Error::NoSuchOverload)?;
    Ok(Value::Bool(network.contains(address)))
}

fn contains_cidr<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (network, other): (&Network, &Network) = (opaque(arguments, 0)?, opaque(arguments, 1)?);
    Ok(Value::Bool(network.contains_network(*other)))
}

fn contains_cidr_text<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let network: &Network = opaque(arguments, 0)?;
    let other = read_network(text(arguments, 1)?)?;
    Ok(Value::Bool(network.contains_network(other)))
}

fn ip<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let network: &Network = opaque(arguments, 0)?;
    Ok(Value::opaque(Address(network.address)))
}

fn prefix_length<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let network: &Network = opaque(arguments, 0)?;
    Ok(Value::Int(i64::from(network.length)))
}

fn masked<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let network: &Network = opaque(arguments, 0)?;
    Ok(Value::opaque(network.masked()))
}

fn to_string<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let network: &Network = opaque(arguments, 0)?;
    Ok(network.text().into())
}
