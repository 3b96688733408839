//! Services get addresses and node ports that no other Service of their workspace has.
//!
//! ```text
//!   fields     what the request means: which families, which values of before stay (pure)
//!   address    ranges of addresses and ports, and where in them to look (pure)
//!   allocate   takes what is missing, gives back what is no longer used
//! ```
//!
//! What is taken is written before the Service is, each under a key that can exist once: an address as an IPAddress,
//! a port under a key of our own. Whoever fails gives back what they took; what a crash left behind has no Service and is
//! taken over by the next one that wants it.

mod address;
mod allocate;
mod fields;

pub use address::{PortRange, Prefix};
pub(crate) use allocate::Taken;
pub(crate) use fields::drop_what_the_type_has_not;

use crate::row::Row;

/// From where Services are given addresses and ports.
#[derive(Clone, Debug)]
pub struct Network {
    /// One range, or one for each family; the first one's family is the one that Services get unless they ask.
    pub ranges: Vec<Prefix>,
    pub ports: PortRange,
}

impl Network {
    /// One range, or one of each family: what is wrong with others is said in the answer.
    pub fn new(ranges: Vec<Prefix>, ports: PortRange) -> Result<Self, String> {
        match ranges.as_slice() {
            [_] => Ok(Network { ranges, ports }),
            [first, second] if first.family() != second.family() => Ok(Network { ranges, ports }),
            _ => {
                let given: Vec<String> = ranges.iter().map(ToString::to_string).collect();
                Err(format!(
                    "give one range of addresses, or one of each family, and not {}",
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

pub(crate) fn is_services(row: &Row) -> bool {
    row.resource == "services" && row.group.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_range_of_a_family() {
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
