//! `kubernetes.net.ip`: addresses.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/ip.go

use std::net::IpAddr;

use super::address::{is_global_unicast, is_link_local_multicast, is_link_local_unicast, parse_address};
use super::arguments::{opaque, text};
use super::costs::{estimate_read, estimate_read_twice, read, read_twice};
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::{Opaque, Value};

pub static LIBRARY: Library = Library {
    name: "kubernetes.net.ip",
    functions: &[
        Function {
            name: "ip",
            overloads: &[Overload::new("string_to_ip", "(string) -> net.IP()", ip).costs(read, estimate_read)],
        },
        Function {
            name: "isIP",
            overloads: &[Overload::new("is_ip", "(string) -> bool", is_ip).costs(read, estimate_read)],
        },
        Function {
            name: "ip.isCanonical",
            overloads: &[Overload::new("ip_is_canonical", "(string) -> bool", is_canonical)
                .costs(read_twice, estimate_read_twice)],
        },
        Function { name: "family", overloads: &[Overload::new("ip_family", "net.IP().() -> int", family)] },
        Function {
            name: "isUnspecified",
            overloads: &[Overload::new("ip_is_unspecified", "net.IP().() -> bool", |arguments| {
                test(arguments, |address| address.is_unspecified())
            })],
        },
        Function {
            name: "isLoopback",
            overloads: &[Overload::new("ip_is_loopback", "net.IP().() -> bool", |arguments| {
                test(arguments, |address| address.is_loopback())
            })],
        },
        Function {
            name: "isLinkLocalMulticast",
            overloads: &[Overload::new("ip_is_link_local_multicast", "net.IP().() -> bool", |arguments| {
                test(arguments, is_link_local_multicast)
            })],
        },
        Function {
            name: "isLinkLocalUnicast",
            overloads: &[Overload::new("ip_is_link_local_unicast", "net.IP().() -> bool", |arguments| {
                test(arguments, is_link_local_unicast)
            })],
        },
        Function {
            name: "isGlobalUnicast",
            overloads: &[Overload::new("ip_is_global_unicast", "net.IP().() -> bool", |arguments| {
                test(arguments, is_global_unicast)
            })],
        },
        Function {
            name: "string",
            overloads: &[Overload::new("ip_to_string", "(net.IP()) -> string", to_string)],
        },
    ],
    types: &["net.IP"],
};

/// An address as a value.
#[derive(Debug)]
pub(super) struct Address(pub IpAddr);

impl Opaque for Address {
    fn type_name(&self) -> &'static str {
        "net.IP"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast::<Address>().is_some_and(|other| self.0 == other.0)
    }

    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }
}

fn ip<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    parse_address(text(arguments, 0)?).map(|address| Value::opaque(Address(address))).map_err(Error::new)
}

fn is_ip<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(parse_address(text(arguments, 0)?).is_ok()))
}

fn is_canonical<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let text = text(arguments, 0)?;
    let address = parse_address(text).map_err(Error::new)?;
    Ok(Value::Bool(address.to_string() == text))
}

fn family<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let address: &Address = opaque(arguments, 0)?;
    Ok(Value::Int(if address.0.is_ipv4() { 4 } else { 6 }))
}

fn test<'a>(arguments: &[Value<'a>], holds: fn(IpAddr) -> bool) -> Result<Value<'a>, Error> {
    let address: &Address = opaque(arguments, 0)?;
    Ok(Value::Bool(holds(address.0)))
}

fn to_string<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let address: &Address = opaque(arguments, 0)?;
    Ok(address.0.to_string().into())
}
