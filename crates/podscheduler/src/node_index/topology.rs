//! Topology domains: nodes by the value of a label, for the labels that are in use.

use std::collections::HashMap;
use std::sync::Arc;

use crate::labels::Labels;

/// Domain of a node without the label.
pub const NO_DOMAIN: u32 = u32::MAX;

/// The nodes by value of one label.
#[derive(Debug, Default)]
pub struct Topology {
    values: HashMap<Arc<str>, u32>,
    /// Domains by node.
    domains: Vec<u32>,
}

impl Topology {
    /// Returns the number of current and past domains.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the domain of a node.
    pub fn domain(&self, slot: usize) -> u32 {
        self.domains.get(slot).copied().unwrap_or(NO_DOMAIN)
    }

    /// Returns the domains of all nodes.
    pub fn domains(&self) -> &[u32] {
        &self.domains
    }

    fn set(&mut self, slot: usize, value: Option<&Arc<str>>) {
        if self.domains.len() <= slot {
            self.domains.resize(slot + 1, NO_DOMAIN);
        }
        self.domains[slot] = value.map_or(NO_DOMAIN, |value| {
            let next = u32::try_from(self.values.len()).unwrap_or(NO_DOMAIN);
            *self.values.entry(value.clone()).or_insert(next)
        });
    }
}

/// The topologies of all labels in use.
#[derive(Debug, Default)]
pub struct Topologies(HashMap<Arc<str>, Topology>);

impl Topologies {
    /// Sets the labels of a node; `None` if it was removed.
    pub fn set(&mut self, slot: usize, labels: Option<&Labels>, nodes: usize) {
        // Drop topologies with too many past values; they are computed again when needed.
        self.0.retain(|_, topology| topology.len() <= 2 * nodes + 64);
        for (key, topology) in &mut self.0 {
            topology.set(slot, labels.and_then(|labels| labels.get(key)));
        }
    }

    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub fn insert<'a>(&mut self, key: &Arc<str>, nodes: impl Iterator<Item = (usize, &'a Labels)>) {
        let mut topology = Topology::default();
        for (slot, labels) in nodes {
            topology.set(slot, labels.get(key));
        }
        self.0.insert(key.clone(), topology);
    }

    /// Returns the topology of a label, with its key.
    pub fn entry(&self, key: &str) -> Option<(&str, &Topology)> {
        self.0.get_key_value(key).map(|(key, topology)| (&**key, topology))
    }

    pub fn get(&self, key: &str) -> Option<&Topology> {
        self.0.get(key)
    }
}
