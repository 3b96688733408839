//! Addresses that the control plane may connect to on behalf of tenants. An administrator of a workspace
//! below root can put addresses into Nodes, Pods, Clusters and kubeconfigs. Without a check, the control
//! plane would connect to services that only it can reach: on its own machine, and the metadata service of
//! its cloud.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses that tenants may make the control plane connect to.
#[derive(Clone, Debug, Default)]
pub struct TenantAddresses {
    /// Whether all addresses are allowed.
    all: bool,
    /// Addresses of this server in addition to those of the machine's interfaces.
    own: Vec<IpAddr>,
}

/// Reason why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    Unspecified,
    Loopback,
    LinkLocal,
    Multicast,
    Metadata,
    Own,
}

impl fmt::Display for AddressRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            AddressRefusal::Unspecified => "an unspecified address",
            AddressRefusal::Loopback => "a loopback address",
            AddressRefusal::LinkLocal => "a link-local address",
            AddressRefusal::Multicast => "a multicast or broadcast address",
            AddressRefusal::Metadata => "the address of a metadata service",
            AddressRefusal::Own => "an address of the control plane itself",
        })
    }
}

/// Metadata services of clouds that do not have a link-local address.
const METADATA: [IpAddr; 4] = [
    // AWS over IPv6.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    // Google Cloud over IPv6.
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    // Alibaba Cloud.
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    // Azure's wire server.
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// Returns why tenants may not use an address, if so; `is_own` tells whether it belongs to the control plane.
pub fn refusal(address: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> Option<AddressRefusal> {
    let address = plain(address);
    let broadcast = IpAddr::V4(Ipv4Addr::BROADCAST);
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let is_unspecified = match address {
        // Linux treats all of 0.0.0.0/8 as this machine.
        IpAddr::V4(address) => address.octets()[0] == 0,
        IpAddr::V6(address) => address.is_unspecified(),
    };
    match address {
        _ if is_unspecified => Some(AddressRefusal::Unspecified),
        _ if address.is_loopback() => Some(AddressRefusal::Loopback),
        _ if is_link_local => Some(AddressRefusal::LinkLocal),
        _ if address.is_multicast() || address == broadcast => Some(AddressRefusal::Multicast),
        _ if METADATA.contains(&address) => Some(AddressRefusal::Metadata),
        _ if is_own(address) => Some(AddressRefusal::Own),
        _ => None,
    }
}

/// Returns the IPv4 address that an IPv6 address embeds: mapped, compatible, translated (NAT64) or 6to4.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    let four = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match six.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => four(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => four(high, low),
        [0x2002, high, low, ..] => four(high, low),
        // `::` and `::1` are native IPv6 addresses.
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) != (0, 0) && (high, low) != (0, 1) => four(high, low),
        _ => address,
    }
}

impl TenantAddresses {
    /// Allows all addresses except those that [`refusal`] names. `own` are addresses of the control plane
    /// that its interfaces do not have, such as that of a load balancer.
    pub fn restricted(own: Vec<IpAddr>) -> TenantAddresses {
        TenantAddresses { all: false, own }
    }

    pub fn unrestricted() -> TenantAddresses {
        TenantAddresses { all: true, own: Vec::new() }
    }

    pub fn are_unrestricted(&self) -> bool {
        self.all
    }

    /// Returns the resolved addresses that may be connected to. The caller must connect to these and must not
    /// resolve the name again.
    pub fn allowed(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
        if self.all {
            return Ok(found);
        }
        let is_own = |address: IpAddr| self.own.contains(&address) || is_local(address);
        let mut refused = None;
        let allowed: Vec<SocketAddr> = found
            .into_iter()
            .filter(|address| match refusal(address.ip(), is_own) {
                Some(reason) => {
                    refused.get_or_insert((reason, address.ip()));
                    false
                }
                None => true,
            })
            .collect();
        match refused {
            Some((reason, address)) if allowed.is_empty() => {
                let name = if host.parse::<IpAddr>().is_ok() { String::new() } else { format!("{host} is ") };
                Err(format!(
                    "workspaces below root may not make the control plane connect to {reason} ({name}{address}); use an address that \
                     other machines can reach, or start Atoll with --allow-tenant-addresses"
                ))
            }
            _ => Ok(allowed),
        }
    }
}

/// Whether an address belongs to this machine: a socket connected to it would have it as its source. No
/// packet is sent.
fn is_local(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    from().is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_cannot_reach_the_control_plane_or_metadata_services() {
        let own: IpAddr = "203.0.113.7".parse().unwrap();
        for (address, expected) in [
            ("10.0.0.1", None),
            ("172.16.3.4", None),
            ("192.168.1.1", None),
            ("100.64.0.1", None),
            ("8.8.8.8", None),
            ("fd00::1", None),
            ("2001:db8::1", None),
            ("::ffff:10.0.0.1", None),
            ("0.0.0.0", Some(AddressRefusal::Unspecified)),
            ("0.1.2.3", Some(AddressRefusal::Unspecified)),
            ("::", Some(AddressRefusal::Unspecified)),
            ("::ffff:0.0.0.0", Some(AddressRefusal::Unspecified)),
            ("127.0.0.1", Some(AddressRefusal::Loopback)),
            ("127.255.0.9", Some(AddressRefusal::Loopback)),
            ("::1", Some(AddressRefusal::Loopback)),
            ("::ffff:127.0.0.1", Some(AddressRefusal::Loopback)),
            ("::127.0.0.1", Some(AddressRefusal::Loopback)),
            ("64:ff9b::7f00:1", Some(AddressRefusal::Loopback)),
            ("2002:7f00:1::", Some(AddressRefusal::Loopback)),
            ("169.254.1.1", Some(AddressRefusal::LinkLocal)),
            ("169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("::ffff:169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("fe80::1", Some(AddressRefusal::LinkLocal)),
            ("febf::1", Some(AddressRefusal::LinkLocal)),
            ("224.0.0.1", Some(AddressRefusal::Multicast)),
            ("255.255.255.255", Some(AddressRefusal::Multicast)),
            ("ff02::1", Some(AddressRefusal::Multicast)),
            ("fd00:ec2::254", Some(AddressRefusal::Metadata)),
            ("fd20:ce::254", Some(AddressRefusal::Metadata)),
            ("100.100.100.200", Some(AddressRefusal::Metadata)),
            ("168.63.129.16", Some(AddressRefusal::Metadata)),
            ("203.0.113.7", Some(AddressRefusal::Own)),
            ("::ffff:203.0.113.7", Some(AddressRefusal::Own)),
        ] {
            let found = refusal(address.parse().unwrap(), |address| address == own);
            assert_eq!(found, expected, "{address}");
        }
    }

    #[test]
    fn only_allowed_addresses_of_a_name_are_used() {
        let found =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let rule = TenantAddresses::restricted(vec!["203.0.113.7".parse().unwrap()]);
        let mixed = found(&["127.0.0.1:80", "192.0.2.1:80"]);
        assert_eq!(rule.allowed("both", mixed.clone()), Ok(found(&["192.0.2.1:80"])));
        let refused = rule.allowed("rebound.example", found(&["127.0.0.1:80"])).unwrap_err();
        assert!(refused.contains("a loopback address (rebound.example is 127.0.0.1)"), "{refused}");
        assert!(refused.contains("--allow-tenant-addresses"), "{refused}");
        assert!(
            rule.allowed("203.0.113.7", found(&["203.0.113.7:6443"]))
                .unwrap_err()
                .contains("itself (203.0.113.7)")
        );
        assert_eq!(TenantAddresses::unrestricted().allowed("both", mixed.clone()), Ok(mixed));
        assert!(is_local(Ipv4Addr::LOCALHOST.into()) && !is_local("192.0.2.1".parse().unwrap()));
    }
}
