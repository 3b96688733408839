//! What a simulated cluster consists of.

use std::time::Duration;

use atoll_meta::object;
use serde_json::Value;

use crate::node::SIMULATED;

/// What nodes say that whoever simulates the cluster simulates.
pub const MARK: &str = "true";

/// The nodes of a cluster. All are alike but for their names and zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's name: nodes are called `NAME-node-1` and so on, or `node-1` if it is empty.
    pub name: String,
    /// How many there are.
    pub nodes: usize,
    /// What each of them has, as quantities.
    pub cpu: String,
    pub memory: String,
    /// How many Pods each of them runs at most.
    pub pods: u32,
    /// Their label `topology.kubernetes.io/region`, if it is not empty.
    pub region: String,
    /// Their labels `topology.kubernetes.io/zone`, in turn.
    pub zones: Vec<String>,
    /// How long a Pod takes to start.
    pub pod_start_delay: Duration,
    /// What all of them are called by those who call them; if it is empty, each by its name, which only their own server understands.
    pub host: String,
    /// What the annotation of nodes says that are simulated here: several may be at work on one server.
    pub mark: String,
}

impl Settings {
    /// Whether a node is simulated here, whoever made it.
    pub fn simulates(&self, node: &Value) -> bool {
        object::annotation(node, SIMULATED) == Some(&self.mark)
    }

    /// The name of the node at `position`, from 0.
    pub fn node(&self, position: usize) -> String {
        match self.name.as_str() {
            "" => format!("node-{}", position + 1),
            name => format!("{name}-node-{}", position + 1),
        }
    }

    /// The zone of the node at `position`, if there are zones.
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
    fn nodes_have_names_and_take_turns_in_zones() {
        let zones = vec!["a".to_string(), "b".to_string()];
        let east = Settings { name: "east".into(), zones, ..Settings::default() };
        assert_eq!((east.node(0).as_str(), east.zone(0)), ("east-node-1", Some("a")));
        assert_eq!((east.node(2).as_str(), east.zone(2)), ("east-node-3", Some("a")));
        let plain = Settings::default();
        assert_eq!((plain.node(1).as_str(), plain.zone(1)), ("node-2", None));
    }
}
