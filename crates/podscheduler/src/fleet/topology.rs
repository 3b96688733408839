//! Which nodes have the same value of a label, for the labels that somebody asks about.

use std::collections::HashMap;
use std::sync::Arc;

use crate::labels::Labels;

/// The domain of a node without the label.
pub const NO_DOMAIN: u32 = u32::MAX;

/// One label: the nodes by its values.
#[derive(Debug, Default)]
pub struct Topology {
    values: HashMap<Arc<str>, u32>,
    /// By slot.
    domains: Vec<u32>,
}

impl Topology {
    /// How many domains there are or have been.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The domain of the node in a slot.
    pub fn domain(&self, slot: usize) -> u32 {
        self.domains.get(slot).copied().unwrap_or(NO_DOMAIN)
    }

    /// The domains of all slots.
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

/// All labels that are asked about.
#[derive(Debug, Default)]
pub struct Topologies(HashMap<Arc<str>, Topology>);

impl Topologies {
    /// What a node in a slot is labelled with; nothing if there is no node there.
    pub fn set(&mut self, slot: usize, labels: Option<&Labels>, nodes: usize) {
        // Values of labels come and go with nodes: so many of the past are forgotten from time to time.
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

    /// A label that is followed, with its own key.
    pub fn entry(&self, key: &str) -> Option<(&str, &Topology)> {
        self.0.get_key_value(key).map(|(key, topology)| (&**key, topology))
    }

    pub fn get(&self, key: &str) -> Option<&Topology> {
        self.0.get(key)
    }
}
