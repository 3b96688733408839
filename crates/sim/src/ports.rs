//! Actual addresses of the servers of pods: in 127.0.0.0/8, at another port if the container's port is in use
//! or privileged.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maps addresses and ports of pods to those of their servers.
#[derive(Default)]
pub struct Ports {
    served: Mutex<HashMap<Ipv4Addr, HashMap<u16, SocketAddr>>>,
}

impl Ports {
    pub fn find(&self, address: Ipv4Addr, port: u16) -> Option<SocketAddr> {
        self.served().get(&address)?.get(&port).copied()
    }

    pub(crate) fn add(&self, address: Ipv4Addr, port: u16, served: SocketAddr) {
        self.served().entry(address).or_default().insert(port, served);
    }

    /// Removes a pod.
    pub(crate) fn remove(&self, address: Ipv4Addr) {
        self.served().remove(&address);
    }

    fn served(&self) -> MutexGuard<'_, HashMap<Ipv4Addr, HashMap<u16, SocketAddr>>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
