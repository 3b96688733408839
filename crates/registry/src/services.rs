//! Allocation of addresses and node ports of Services, unique in each workspace.
//!
//! ```text
//!   fields     interprets a request: address families, and previous values that are kept (pure)
//!   address    ranges of addresses and ports, and the order of candidates (pure)
//!   allocate   allocates missing values, releases unused ones
//! ```
//!
//! An allocation is written before the Service, each under a key that can exist only once: an address as an
//! IPAddress, a port under an internal key. A failed request releases its allocations; allocations that a
//! crash left behind have no Service and are reused by the next Service that needs them.

// upstream: pkg/registry/core/service/storage/alloc.go
// upstream: pkg/registry/core/service/ipallocator/cidrallocator.go
// upstream: pkg/registry/core/service/portallocator/allocator.go

mod address;
mod allocate;
mod fields;

pub use address::{PortRange, Prefix};
pub(crate) use fields::drop_type_dependent_fields;

/// The ranges of addresses and node ports of Services.
#[derive(Clone, Debug)]
pub struct Network {
    /// One range, or one for each family; the first one's family is the default.
    pub ranges: Vec<Prefix>,
    pub ports: PortRange,
}

impl Network {
    /// Checks the ranges: one range, or one of each family.
    pub fn new(ranges: Vec<Prefix>, ports: PortRange) -> Result<Self, String> {
        match ranges.as_slice() {
            [_] => Ok(Network { ranges, ports }),
            [first, second] if first.family() != second.family() => Ok(Network { ranges, ports }),
            _ => {
                let given: Vec<String> = ranges.iter().map(ToString::to_string).collect();
                Err(format!(
                    "expected one range of addresses, or one of each family, not {}",
                    given.join(" and ")
                ))
            }
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Network { ranges: vec![Prefix::DEFAULT], ports: PortRange::DEFAULT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_range_per_family_is_allowed() {
        for (ranges, fits) in [
            (vec!["10.0.0.0/16"], true),
            (vec!["10.0.0.0/16", "fd00::/108"], true),
            (vec!["10.0.0.0/16", "10.1.0.0/16"], false),
            (vec!["10.0.0.0/16", "fd00::/108", "fd01::/108"], false),
        ] {
            let parsed = ranges.iter().map(|range| range.parse().expect("a range")).collect();
            assert_eq!(Network::new(parsed, PortRange::DEFAULT).is_ok(), fits, "{ranges:?}");
        }
    }
}
