//! Ranges of addresses and ports.

// upstream: pkg/registry/core/service/ipallocator/ipallocator.go
// upstream: pkg/registry/core/service/portallocator/allocator.go

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses, `10.0.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    first: IpAddr,
    length: u8,
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

/// A range in two parts: the lower part is used for static allocation, and for dynamic allocation only when
/// the upper part is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub first: u128,
    /// Start of the upper part.
    pub middle: u128,
    pub last: u128,
}

impl Prefix {
    pub const DEFAULT: Prefix = Prefix { first: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), length: 16 };

    pub fn family(&self) -> &'static str {
        family(self.first)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let same_family = address.is_ipv4() == self.first.is_ipv4();
        same_family && number(address) & self.mask() == number(self.first)
    }

    /// The network address.
    pub fn network(&self) -> IpAddr {
        self.first
    }

    /// The first usable address.
    pub fn first_usable(&self) -> IpAddr {
        address(number(self.first) + 1, self.first.is_ipv4())
    }

    fn bits(&self) -> u8 {
        if self.first.is_ipv4() { 32 } else { 128 }
    }

    fn mask(&self) -> u128 {
        let host = u32::from(self.bits() - self.length);
        let all = if self.first.is_ipv4() { u128::from(u32::MAX) } else { u128::MAX };
        all & !1_u128.checked_shl(host).map_or(u128::MAX, |bit| bit - 1)
    }

    /// The usable part: without the network address and, for IPv4, the broadcast address.
    pub(super) fn parts(&self) -> Parts {
        let host = u32::from(self.bits() - self.length);
        let size = 1_u128.checked_shl(host).unwrap_or(u128::MAX);
        let first = number(self.first) + 1;
        let last = number(self.first) + (size - 1) - u128::from(self.first.is_ipv4());
        let low = if size <= 16 { 0 } else { (size / 16).clamp(16, 256) };
        Parts { first, middle: first + low, last: last.max(first) }
    }

    pub(super) fn address(&self, number: u128) -> IpAddr {
        address(number, self.first.is_ipv4())
    }
}

impl PortRange {
    pub const DEFAULT: PortRange = PortRange { first: 30000, last: 32767 };

    pub fn contains(&self, port: i64) -> bool {
        (i64::from(self.first)..=i64::from(self.last)).contains(&port)
    }

    pub(super) fn parts(&self) -> Parts {
        let (first, last) = (u128::from(self.first), u128::from(self.last));
        let size = last - first + 1;
        let low = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
        Parts { first, middle: first + low, last }
    }
}

impl Parts {
    /// Every number once: the upper part from a random start with wraparound, then the lower part likewise.
    pub fn candidates(self, random: u128) -> impl Iterator<Item = u128> {
        around(self.middle, self.last, random).chain(around(self.first, self.middle - 1, random))
    }
}

fn around(first: u128, last: u128, random: u128) -> impl Iterator<Item = u128> {
    let size = (last + 1).saturating_sub(first);
    let start = first + if size == 0 { 0 } else { random % size };
    (start..=last).chain(first..start).take(usize::try_from(size).unwrap_or(usize::MAX))
}

pub(super) fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn address(number: u128, is_ipv4: bool) -> IpAddr {
    match is_ipv4 {
        true => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
        false => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(address, length)| {
            let first: IpAddr = address.parse().ok()?;
            let length: u8 = length.parse().ok()?;
            let prefix = Prefix { first, length };
            (length <= prefix.bits() && prefix.contains(first)).then_some(prefix)
        });
        let prefix = parsed.ok_or_else(|| {
            format!("{text:?} is not a range of addresses; expected the form 10.0.0.0/16, with no bits set after the prefix length")
        })?;
        let room = prefix.bits() - prefix.length;
        match (2..=64).contains(&room) {
            true => Ok(prefix),
            false => Err(format!("{text:?} must contain between 4 and 2^64 addresses")),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('-').and_then(|(first, last)| {
            let range = PortRange { first: first.parse().ok()?, last: last.parse().ok()? };
            (range.first > 0 && range.first <= range.last).then_some(range)
        });
        parsed.ok_or_else(|| format!("{text:?} is not a range of ports; expected the form 30000-32767"))
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed() {
        let cases = [
            ("10.0.0.0/16", Ok("10.0.0.0/16")),
            ("fd00::/108", Ok("fd00::/108")),
            ("10.0.0.1/16", Err("no bits")),
            ("10.0.0.0/33", Err("not a range")),
            ("10.0.0.0", Err("not a range")),
            ("10.0.0.0/31", Err("between")),
            ("fd00::/8", Err("between")),
        ];
        for (text, expected) in cases {
            match (text.parse::<Prefix>(), expected) {
                (Ok(prefix), Ok(shown)) => assert_eq!(prefix.to_string(), shown),
                (Err(message), Err(part)) => assert!(message.contains(part), "{text}: {message}"),
                (outcome, _) => panic!("{text}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn candidates_contain_each_address_once_and_the_lower_part_last() {
        let prefix: Prefix = "10.0.0.0/24".parse().expect("a range");
        for random in [0, 1, 100, u128::MAX] {
            let all: Vec<u128> = prefix.parts().candidates(random).collect();
            assert_eq!(all.len(), 254);
            let mut sorted = all.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 254);
            assert_eq!(prefix.address(sorted[0]).to_string(), "10.0.0.1");
            assert_eq!(prefix.address(sorted[253]).to_string(), "10.0.0.254");
            let low = |number: &u128| (*number & 0xff) <= 16;
            assert!(all[238..].iter().all(low) && !all[..238].iter().any(low));
        }
        let ports = PortRange::DEFAULT.parts();
        assert_eq!((ports.first, ports.middle, ports.last), (30000, 30086, 32767));
    }

    #[test]
    fn membership() {
        let prefix: Prefix = "10.1.0.0/16".parse().expect("a range");
        for (address, inside) in [("10.1.2.3", true), ("10.2.0.0", false), ("::1", false)] {
            assert_eq!(prefix.contains(address.parse().expect("an address")), inside, "{address}");
        }
    }
}
