//! The workloads of a simulation: what their policies ask for, and whether placements follow them.

use std::collections::BTreeMap;

use atoll_informer::{Resource, resources};
use atoll_placement::cluster::REGION;
use serde_json::{Value, json};

/// Fewest replicas of a cluster under the policy with such a bound.
const LEAST: i64 = 3;

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
    /// Divided over at most four clusters, where those of one region get three times as many.
    Weighted,
    /// Divided evenly over at most three clusters, with one replica more than asked for while it moves.
    Slow,
    /// Divided evenly over at most four clusters, with at least three replicas on each.
    Least,
}

impl Profile {
    pub const ALL: [Profile; 10] = [
        Profile::Default,
        Profile::RunOnce,
        Profile::Single,
        Profile::Even,
        Profile::Regions,
        Profile::Capacity,
        Profile::Pack,
        Profile::Weighted,
        Profile::Slow,
        Profile::Least,
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
            Profile::Weighted => "weighted",
            Profile::Slow => "slow",
            Profile::Least => "least",
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
            Profile::Weighted => {
                let of_region = |operator: &str| {
                    let north = json!({ "key": REGION, "operator": operator, "values": ["north"] });
                    json!({ "matchExpressions": [north] })
                };
                let weights = [("In", 3), ("NotIn", 1)]
                    .map(|(operator, weight)| json!({ "selector": of_region(operator), "weight": weight }));
                json!({
                    "replicas": { "division": "Weighted", "weights": weights }, "bounds": { "maxClusters": 4 },
                })
            }
            Profile::Slow => json!({
                "replicas": { "division": "Even" }, "bounds": { "maxClusters": 3 },
                "disruption": { "maxMoving": 1 },
            }),
            Profile::Least => {
                let bounds = json!({ "maxClusters": 4, "minReplicas": LEAST });
                json!({ "replicas": { "division": "Even" }, "bounds": bounds })
            }
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
            Profile::Even | Profile::Slow => 3,
            Profile::Regions | Profile::Weighted | Profile::Least => 4,
            Profile::Capacity | Profile::Pack => usize::MAX,
        };
        if used > most {
            return Some(format!("runs on {used} clusters instead of {most} at most"));
        }
        if self == Profile::Capacity && shares.iter().any(|(_, replicas)| *replicas > 6) {
            return Some("has more than 6 replicas on a cluster".to_string());
        }
        let all: i64 = shares.iter().map(|(_, replicas)| replicas).sum();
        if self == Profile::Least && shares.iter().any(|(_, replicas)| (1..LEAST.min(all)).contains(replicas))
        {
            return Some(format!("has fewer than {LEAST} replicas on a cluster"));
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
