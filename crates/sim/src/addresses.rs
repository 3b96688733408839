//! Addresses of pods: in 10.0.0.0/8 as the API shows them, and with 127 in front where their servers listen.

use std::collections::HashSet;
use std::net::Ipv4Addr;

/// Addresses of one cluster. Each cluster of a machine has its own 65,000, by its name.
pub struct Addresses {
    second: u8,
    next: u16,
    used: HashSet<u16>,
}

impl Addresses {
    pub fn new(cluster: &str) -> Addresses {
        // FNV-1a: spread evenly and the same each time.
        let hash = cluster
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Addresses { second: 16 + (hash % 224) as u8, next: 1, used: HashSet::new() }
    }

    /// One that nobody has; `None` if all are taken.
    pub fn take(&mut self) -> Option<Ipv4Addr> {
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

    /// Takes one that a pod has already; whether nobody else had it.
    pub fn keep(&mut self, address: Ipv4Addr) -> bool {
        let [10, second, third, fourth] = address.octets() else { return false };
        second == self.second && self.used.insert(u16::from_be_bytes([third, fourth]))
    }

    pub fn give_back(&mut self, address: Ipv4Addr) {
        let [_, _, third, fourth] = address.octets();
        self.used.remove(&u16::from_be_bytes([third, fourth]));
    }
}

/// Where the server of a pod with this address listens.
pub fn loopback(address: Ipv4Addr) -> Ipv4Addr {
    let [_, second, third, fourth] = address.octets();
    Ipv4Addr::new(127, second, third, fourth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_the_address_of_another() {
        let mut addresses = Addresses::new("east");
        let first = addresses.take().unwrap();
        assert_eq!((first.octets()[0], loopback(first).octets()[0]), (10, 127));
        let mut seen = HashSet::from([first]);
        for _ in 0..1000 {
            assert!(seen.insert(addresses.take().unwrap()));
        }
        assert!(!addresses.keep(first));
        addresses.give_back(first);
        assert!(addresses.keep(first));
        assert!(!addresses.keep(Ipv4Addr::new(192, 168, 0, 1)));
        assert_ne!(Addresses::new("west").take(), Addresses::new("east").take());
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut addresses = Addresses::new("east");
        let count = std::iter::from_fn(|| addresses.take()).count();
        assert!(count > 60_000);
        assert_eq!(addresses.take(), None);
    }
}
