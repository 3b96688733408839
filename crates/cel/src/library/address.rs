//! IP addresses and networks as Go's `net/netip` parses and formats them, with Kubernetes' restrictions.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/ip.go
// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/cidr.go
// Go standard library: src/net/netip/netip.go

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use atoll_meta::quote::quote;

/// A network: an address, which may have bits beyond the prefix, and the prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address as written.
    pub address: IpAddr,
    /// Prefix length.
    pub length: u8,
}

/// Why a string is not an address, and where parsing stopped.
struct ParseError<'a> {
    reason: &'static str,
    at: &'a str,
}

impl ParseError<'_> {
    fn describe(&self, text: &str) -> String {
        let position = if self.at.is_empty() { String::new() } else { format!(" (at {})", quote(self.at)) };
        format!("ParseAddr({}): {}{position}", quote(text), self.reason)
    }
}

fn parse_error<T>(reason: &'static str) -> Result<T, ParseError<'static>> {
    Err(ParseError { reason, at: "" })
}

/// Parses an address. Zones and IPv4-mapped IPv6 addresses are rejected.
pub fn parse_address(text: &str) -> Result<IpAddr, String> {
    let (address, has_zone) = parse(text).map_err(|parse_error| {
        let reason = parse_error.describe(text);
        format!("IP Address {} parse error during conversion from string: {reason}", quote(text))
    })?;
    if has_zone {
        return Err(format!("IP address {} with zone value is not allowed", quote(text)));
    }
    refuse_mapped(text, address)?;
    Ok(address)
}

/// Parses a network such as `10.0.0.0/8`.
pub fn parse_network(text: &str) -> Result<Network, String> {
    let network = parse_prefix(text).map_err(|reason| {
        let quoted = quote(text);
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({quoted}): {reason}"
        )
    })?;
    refuse_mapped(text, network.address)?;
    Ok(network)
}

/// Checks that the contents of the brackets in a URL are an IPv6 address, with or without a zone.
pub(super) fn check_bracketed(text: &str) -> Result<(), String> {
    match parse(text) {
        Ok((IpAddr::V6(_), _)) => Ok(()),
        Ok((IpAddr::V4(_), _)) => Err("invalid IP-literal".to_owned()),
        Err(parse_error) => Err(format!("invalid host: {}", parse_error.describe(text))),
    }
}

fn refuse_mapped(text: &str, address: IpAddr) -> Result<(), String> {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)))
        }
        _ => Ok(()),
    }
}

fn parse_prefix(text: &str) -> Result<Network, String> {
    let Some((address, length)) = text.rsplit_once('/') else {
        return Err("no '/'".to_owned());
    };
    let (parsed, has_zone) = parse(address).map_err(|parse_error| parse_error.describe(address))?;
    if has_zone {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let bad = || format!("bad bits after slash: {}", quote(length));
    let starts_well = length.len() <= 1 || matches!(length.as_bytes()[0], b'1'..=b'9');
    if !starts_well || length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    // Go parses 64 bits before it checks the range.
    let bits: i64 = length.parse().map_err(|_| bad())?;
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    match u8::try_from(bits) {
        Ok(length) if length <= most => Ok(Network { address: parsed, length }),
        _ => Err("prefix length out of range".to_owned()),
    }
}

/// Parses an address. Also returns whether a zone follows.
fn parse(text: &str) -> Result<(IpAddr, bool), ParseError<'_>> {
    match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => {
            let mut octets = [0; 4];
            read_octets(text, &mut octets)?;
            Ok((IpAddr::V4(Ipv4Addr::from(octets)), false))
        }
        Some(b':') => parse_v6(text),
        Some(_) => parse_error("missing IPv6 address"),
        None => parse_error("unable to parse IP"),
    }
}

fn read_octets<'a>(text: &'a str, octets: &mut [u8]) -> Result<(), ParseError<'a>> {
    let bytes = text.as_bytes();
    let (mut value, mut digits, mut position) = (0u16, 0, 0);
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return parse_error("IPv4 field has octet with leading zero");
                }
                value = value * 10 + u16::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return parse_error("IPv4 field has value >255");
                }
            }
            b'.' => {
                if index == 0 || index == bytes.len() - 1 || bytes[index - 1] == b'.' {
                    return Err(ParseError {
                        reason: "IPv4 field must have at least one digit",
                        at: &text[index..],
                    });
                }
                if position == 3 {
                    return parse_error("IPv4 address too long");
                }
                octets[position] = value as u8;
                position += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(ParseError { reason: "unexpected character", at: &text[index..] }),
        }
    }
    if position < 3 {
        return parse_error("IPv4 address too short");
    }
    octets[3] = value as u8;
    Ok(())
}

fn parse_v6(text: &str) -> Result<(IpAddr, bool), ParseError<'_>> {
    let (mut rest, has_zone) = match text.split_once('%') {
        Some((_, "")) => return parse_error("zone must be a non-empty string"),
        Some((address, _)) => (address, true),
        None => (text, false),
    };
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        if after.is_empty() {
            return Ok((IpAddr::V6(Ipv6Addr::UNSPECIFIED), has_zone));
        }
        ellipsis = Some(0);
        rest = after;
    }
    while filled < 16 {
        let (group, length) = read_group(rest)?;
        if rest.as_bytes().get(length) == Some(&b'.') {
            if ellipsis.is_none() && filled != 12 {
                let reason = "embedded IPv4 address must replace the final 2 fields of the address";
                return Err(ParseError { reason, at: rest });
            }
            if filled + 4 > 16 {
                let reason = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err(ParseError { reason, at: rest });
            }
            read_octets(rest, &mut bytes[filled..filled + 4])?;
            rest = "";
            filled += 4;
            break;
        }
        bytes[filled..filled + 2].copy_from_slice(&group.to_be_bytes());
        filled += 2;
        rest = &rest[length..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(ParseError { reason: "unexpected character, want colon", at: rest });
        };
        if after.is_empty() {
            return Err(ParseError { reason: "colon must be followed by more characters", at: rest });
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(ParseError { reason: "multiple :: in address", at: rest });
            }
            ellipsis = Some(filled);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(ParseError { reason: "trailing garbage after address", at: rest });
    }
    match ellipsis {
        None if filled < 16 => return parse_error("address string too short"),
        Some(_) if filled == 16 => return parse_error("the :: must expand to at least one field of zeros"),
        // Move the groups after the ellipsis to the end.
        Some(start) => bytes[start..].rotate_right(16 - filled),
        None => {}
    }
    Ok((IpAddr::V6(Ipv6Addr::from(bytes)), has_zone))
}

/// Parses the hexadecimal group at the start. Also returns its number of digits.
fn read_group(text: &str) -> Result<(u16, usize), ParseError<'_>> {
    let length = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    match length {
        0 => Err(ParseError { reason: "each colon-separated field must have at least one digit", at: text }),
        1..=4 => Ok((u16::from_str_radix(&text[..length], 16).unwrap_or_default(), length)),
        _ => Err(ParseError { reason: "each group must have 4 or less digits", at: text }),
    }
}

impl Network {
    /// Returns the network without bits beyond its prefix.
    pub fn masked(self) -> Network {
        Network { address: mask(self.address, self.length), ..self }
    }

    /// Whether an address is in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && mask(self.address, self.length) == mask(address, self.length)
    }

    /// Whether another network is a subset of this one.
    pub fn contains_network(self, other: Network) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// Formats as `10.0.0.0/8`.
    pub fn text(self) -> String {
        format!("{}/{}", self.address, self.length)
    }
}

fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

/// Whether this is a link-local multicast address.
pub fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

/// Whether this is a link-local unicast address.
pub fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..2] == [169, 254],
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Whether this is a global unicast address, which includes private ones.
pub fn is_global_unicast(address: IpAddr) -> bool {
    !address.is_unspecified()
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}
