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
pub(crate) use allocate::{PORTS, Taken};
pub(crate) use fields::drop_what_the_type_has_not;

use crate::row::Row;

/// From where Services are given addresses and ports.
#[derive(Clone, Debug)]
pub struct Network {
    /// One range, or one for each family; the first one's family is the one that Services get unless they ask.
    pub ranges: Vec<Prefix>,
    pub ports: PortRange,
}

impl Default for Network {
    fn default() -> Self {
        Network { ranges: vec![Prefix::DEFAULT], ports: PortRange::DEFAULT }
    }
}

pub(crate) fn is_services(row: &Row) -> bool {
    row.resource == "services" && row.group.is_empty()
}
