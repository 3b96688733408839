//! Settings of a simulated cluster.

use std::time::Duration;

use atoll_meta::object;
use serde_json::Value;

use crate::node::SIMULATED;

/// Default value of the annotation of simulated nodes.
pub const MARK: &str = "true";

/// The nodes of a cluster. All have the same settings except for names and zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's name: nodes are named `NAME-node-1` and so on, or `node-1` if it is empty.
    pub name: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Capacity of each node, as quantities.
    pub cpu: String,
    pub memory: String,
    /// Maximum number of Pods on each node.
    pub pods: u32,
    /// Label `topology.kubernetes.io/region` of the nodes, if not empty.
    pub region: String,
    /// Labels `topology.kubernetes.io/zone`, assigned in turn.
    pub zones: Vec<String>,
    /// Time that a Pod takes to start.
    pub pod_start_delay: Duration,
    /// Host name of all nodes for clients; if empty, each node has its own name, which only the cluster's API
    /// server can resolve.
    pub host: String,
    /// Value of the annotation of nodes that are simulated here; several simulators may share one API server.
    pub mark: String,
}

impl Settings {
    /// Whether a node is simulated here, regardless of its creator.
    pub fn simulates(&self, node: &Value) -> bool {
        object::annotation(node, SIMULATED) == Some(&self.mark)
    }

    /// Returns the name of the node at `position`, from 0.
    pub fn node(&self, position: usize) -> String {
        match self.name.as_str() {
            "" => format!("node-{}", position + 1),
            name => format!("{name}-node-{}", position + 1),
        }
    }

    /// Returns the zone of the node at `position`, if there are zones.
    pub fn zone(&self, position: usize) -> Option<&str> {
        self.zones.get(position % self.zones.len().max(1)).map(String::as_str)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            name: String::new(),
            nodes: 3,
            cpu: "8".into(),
            memory: "32Gi".into(),
            pods: 110,
            region: String::new(),
            zones: Vec::new(),
            pod_start_delay: Duration::from_millis(100),
            host: String::new(),
            mark: MARK.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_and_spread_over_zones() {
        let zones = vec!["a".to_string(), "b".to_string()];
        let east = Settings { name: "east".into(), zones, ..Settings::default() };
        assert_eq!((east.node(0).as_str(), east.zone(0)), ("east-node-1", Some("a")));
        assert_eq!((east.node(2).as_str(), east.zone(2)), ("east-node-3", Some("a")));
        let plain = Settings::default();
        assert_eq!((plain.node(1).as_str(), plain.zone(1)), ("node-2", None));
    }
}
