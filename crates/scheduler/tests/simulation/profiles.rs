//! The workloads of a simulation: what their policies ask for, and whether placements follow them.

use std::collections::BTreeMap;

use atoll_informer::{Resource, resources};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// No policy: with its namespace, on one cluster.
    Default,
    /// A StatefulSet, which must never run twice.
    RunOnce,
    /// On one cluster by a policy.
    Single,
    /// Divided evenly over at most three clusters.
    Even,
    /// Divided evenly over regions, in at most four clusters.
    Regions,
    /// Divided by free capacity, at most six replicas on each cluster.
    Capacity,
    /// On as few clusters as possible.
    Pack,
}

impl Profile {
    pub const ALL: [Profile; 7] = [
        Profile::Default,
        Profile::RunOnce,
        Profile::Single,
        Profile::Even,
        Profile::Regions,
        Profile::Capacity,
        Profile::Pack,
    ];

    /// The value of the label that policies select.
    pub fn label(self) -> &'static str {
        match self {
            Profile::Default => "default",
            Profile::RunOnce => "run-once",
            Profile::Single => "single",
            Profile::Even => "even",
            Profile::Regions => "regions",
            Profile::Capacity => "capacity",
            Profile::Pack => "pack",
        }
    }

    pub fn resource(self) -> &'static Resource {
        match self {
            Profile::RunOnce => &resources::STATEFUL_SETS,
            _ => &resources::DEPLOYMENTS,
        }
    }

    /// Whether all replicas are on one cluster.
    pub fn is_single(self) -> bool {
        matches!(self, Profile::Default | Profile::RunOnce | Profile::Single)
    }

    /// The spec of the policy; `None` without one.
    pub fn policy(self) -> Option<Value> {
        let rules = match self {
            Profile::Default | Profile::RunOnce => return None,
            Profile::Single => json!({ "replicas": { "division": "Single" } }),
            Profile::Even => json!({ "replicas": { "division": "Even" }, "bounds": { "maxClusters": 3 } }),
            Profile::Regions => json!({
                "replicas": { "division": "Even" }, "bounds": { "maxClusters": 4 },
                "spread": [{ "by": "region", "maxSkew": 1 }],
            }),
            Profile::Capacity => {
                json!({ "replicas": { "division": "Capacity" }, "bounds": { "maxReplicas": 6 } })
            }
            Profile::Pack => json!({ "replicas": { "division": "Pack" } }),
        };
        let mut spec = rules;
        spec["objects"] = json!([{ "selector": { "matchLabels": { "profile": self.label() } } }]);
        Some(spec)
    }

    /// How shares, each in a region, break the rules of the policy.
    pub fn violation(self, shares: &[(&str, i64)]) -> Option<String> {
        let used = shares.iter().filter(|(_, replicas)| *replicas > 0).count();
        let most = match self {
            Profile::Default | Profile::RunOnce | Profile::Single => 1,
            Profile::Even => 3,
            Profile::Regions => 4,
            Profile::Capacity | Profile::Pack => usize::MAX,
        };
        if used > most {
            return Some(format!("runs on {used} clusters instead of {most} at most"));
        }
        if self == Profile::Capacity && shares.iter().any(|(_, replicas)| *replicas > 6) {
            return Some("has more than 6 replicas on a cluster".to_string());
        }
        if self == Profile::Regions {
            let mut regions: BTreeMap<&str, i64> = BTreeMap::new();
            for (region, replicas) in shares.iter().filter(|(_, replicas)| *replicas > 0) {
                *regions.entry(region).or_default() += replicas;
            }
            let (most, least) = (regions.values().max().unwrap_or(&0), regions.values().min().unwrap_or(&0));
            if most - least > 1 {
                return Some(format!("is spread unevenly over regions: {regions:?}"));
            }
        }
        None
    }
}
