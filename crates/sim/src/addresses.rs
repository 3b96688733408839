//! Addresses of pods: in 10.0.0.0/8 in the API, and in 127.0.0.0/8 where their servers listen.

use std::collections::HashSet;
use std::net::Ipv4Addr;

/// Addresses of one cluster. Each cluster has a range of 65,000, chosen by its name.
pub struct Addresses {
    second: u8,
    next: u16,
    used: HashSet<u16>,
}

impl Addresses {
    pub fn new(cluster: &str) -> Addresses {
        // FNV-1a: evenly distributed and deterministic.
        let hash = cluster
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Addresses { second: 16 + (hash % 224) as u8, next: 1, used: HashSet::new() }
    }

    /// Allocates a free address; `None` if all are in use.
    pub fn allocate(&mut self) -> Option<Ipv4Addr> {
        for _ in 0..u16::MAX {
            let number = self.next;
            self.next = self.next.checked_add(1).unwrap_or(1);
            let is_plain = !matches!(number & 0xff, 0 | 0xff);
            if is_plain && self.used.insert(number) {
                let [third, fourth] = number.to_be_bytes();
                return Some(Ipv4Addr::new(10, self.second, third, fourth));
            }
        }
        None
    }

    /// Reserves the address of an existing pod. Returns whether it was free.
    pub fn reserve(&mut self, address: Ipv4Addr) -> bool {
        let [10, second, third, fourth] = address.octets() else { return false };
        second == self.second && self.used.insert(u16::from_be_bytes([third, fourth]))
    }

    pub fn release(&mut self, address: Ipv4Addr) {
        let [_, _, third, fourth] = address.octets();
        self.used.remove(&u16::from_be_bytes([third, fourth]));
    }
}

/// Returns the address at which the server of a pod listens.
pub fn loopback(address: Ipv4Addr) -> Ipv4Addr {
    let [_, second, third, fourth] = address.octets();
    Ipv4Addr::new(127, second, third, fourth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique() {
        let mut addresses = Addresses::new("east");
        let first = addresses.allocate().unwrap();
        assert_eq!((first.octets()[0], loopback(first).octets()[0]), (10, 127));
        let mut seen = HashSet::from([first]);
        for _ in 0..1000 {
            assert!(seen.insert(addresses.allocate().unwrap()));
        }
        assert!(!addresses.reserve(first));
        addresses.release(first);
        assert!(addresses.reserve(first));
        assert!(!addresses.reserve(Ipv4Addr::new(192, 168, 0, 1)));
        assert_ne!(Addresses::new("west").allocate(), Addresses::new("east").allocate());
    }

    #[test]
    fn allocation_fails_when_all_addresses_are_used() {
        let mut addresses = Addresses::new("east");
        let count = std::iter::from_fn(|| addresses.allocate()).count();
        assert!(count > 60_000);
        assert_eq!(addresses.allocate(), None);
    }
}
