//! The state of a cluster that placement decisions depend on.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::node::{NodeShape, Taint};
use crate::resources::Resources;

/// Label of a Cluster that names its region; without it, `status.region` counts.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Label of a Cluster that names its zone; without it, the only one of `status.zones` counts.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of a Cluster that names its provider.
pub const PROVIDER: &str = "atoll.dev/provider";

/// Everything about a Cluster that decisions depend on, except for its capacity, see [`CapacityReport`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// Path of the registering workspace, such as `root:org`.
    pub workspace: Arc<str>,
    /// Creation time in seconds: of equal clusters, the one that was registered first wins.
    pub registered: i64,
    /// Labels, with those of region and zone filled in from the status.
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub readiness: Readiness,
    /// Whether it was Ready and failed, at any time.
    pub has_failed: bool,
    pub is_cordoned: bool,
    pub is_fenced: bool,
    pub is_observed: bool,
    pub is_paused: bool,
    pub is_being_removed: bool,
    /// Whether the agent of the cluster stops run-once work itself when it loses its lease, so that a
    /// cluster that is not Ready runs none.
    pub stops_itself: bool,
    /// Workspaces that may use the cluster, relative to the registering one; `None` for all.
    pub workspaces: Option<Vec<String>>,
    /// Served resources, as [`resource_name`] writes them; `None` if they are not known.
    pub apis: Option<BTreeSet<String>>,
    /// Served versions by API group; a group that is missing is not known.
    pub versions: BTreeMap<String, BTreeSet<String>>,
    /// Resources that the account of the syncer may not write, as [`resource_name`] writes them.
    pub missing_rights: BTreeSet<String>,
    /// Classes that exist in the cluster; `None` if they are not known.
    pub classes: Option<Classes>,
    /// `spec.limits`: maximum total requests of placed objects, by resource.
    pub limits: BTreeMap<String, i64>,
}

impl ClusterState {
    /// Whether a workspace, by its path, may use the cluster, as far as `spec.workspaces` says.
    pub fn is_open_to(&self, workspace_path: &str) -> bool {
        let Some(allowed) = &self.workspaces else { return true };
        let path = workspace_path.strip_prefix(&*self.workspace).unwrap_or_default();
        let path = path.strip_prefix(':').unwrap_or(path);
        let covers = |allowed: &String| {
            path.strip_prefix(allowed.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        path.is_empty() || allowed.iter().any(covers)
    }
}

/// Whether a cluster is ready, with times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// No Ready condition, or its status is Unknown: the cluster is not known to have failed.
    #[default]
    Unknown,
    Ready {
        since: i64,
    },
    NotReady {
        since: i64,
        reason: String,
    },
}

impl Readiness {
    pub fn is_ready(&self) -> bool {
        matches!(self, Readiness::Ready { .. })
    }

    pub fn is_not_ready(&self) -> bool {
        matches!(self, Readiness::NotReady { .. })
    }
}

/// Names of cluster-scoped classes: those that a workload needs, or those that a cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    pub priority: BTreeSet<String>,
    pub storage: BTreeSet<String>,
    pub runtime: BTreeSet<String>,
    pub ingress: BTreeSet<String>,
}

impl Classes {
    /// Returns the first class that others do not contain: its kind and name.
    pub fn missing_in<'a>(&'a self, present: &Classes) -> Option<(&'static str, &'a str)> {
        let kinds = [
            ("PriorityClass", &self.priority, &present.priority),
            ("StorageClass", &self.storage, &present.storage),
            ("RuntimeClass", &self.runtime, &present.runtime),
            ("IngressClass", &self.ingress, &present.ingress),
        ];
        kinds.into_iter().find_map(|(kind, wanted, found)| {
            wanted.iter().find(|name| !found.contains(*name)).map(|name| (kind, name.as_str()))
        })
    }

    pub fn is_empty(&self) -> bool {
        [&self.priority, &self.storage, &self.runtime, &self.ingress].into_iter().all(BTreeSet::is_empty)
    }
}

/// One report of a cluster about its capacity. What is free and which pods are bound belong together: a pod
/// that the report counts as bound is not free any more, and any other pod still is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityReport {
    /// Nodes that accept pods, in groups.
    pub nodes: Vec<NodeShape>,
    /// Whether there are more groups than the report contains.
    pub is_cut: bool,
    /// Number of bound pods by uid of the placed object that they belong to.
    pub bound: BTreeMap<Arc<str>, i64>,
    /// Amounts that resource quotas of the cluster leave, by workspace id and namespace above.
    pub quotas: BTreeMap<(Arc<str>, Arc<str>), BTreeMap<String, i64>>,
}

impl CapacityReport {
    /// Whether something may fit now that did not fit by an earlier report.
    pub fn has_more_than(&self, earlier: &CapacityReport) -> bool {
        let is_covered = |shape: &NodeShape| {
            earlier.nodes.iter().any(|known| {
                (&known.labels, &known.taints) == (&shape.labels, &shape.taints)
                    && known.free.has(&shape.free)
            })
        };
        let left = |of: &CapacityReport, key, name: &str| {
            of.quotas.get(key).and_then(|left| left.get(name).copied())
        };
        let has_quota = earlier.quotas.iter().any(|(key, left_before)| {
            let mut amounts = left_before.iter();
            amounts.any(|(name, before)| left(self, key, name).is_none_or(|now| now > *before))
        });
        let total = self.total();
        // Pods that are bound without taking what is free leave more of it to others.
        let is_bound = self.bound != earlier.bound && total.has(&earlier.total());
        has_quota || is_bound || !earlier.total().has(&total) || !self.nodes.iter().all(is_covered)
    }

    /// Returns the free resources of all nodes together.
    pub fn total(&self) -> Resources {
        let mut total = Resources::default();
        for shape in &self.nodes {
            total.add(&shape.free, shape.count);
        }
        total
    }
}

/// Returns the name of a resource in [`ClusterState::apis`]: `deployments.apps`, or `configmaps`.
pub fn resource_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_string() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(shapes: &[(i64, i64)], bound: i64, quota: Option<i64>) -> CapacityReport {
        let shape = |(count, cores): &(i64, i64)| NodeShape {
            count: *count,
            free: Resources { milli_cpu: cores * 1000, pods: 10, ..Resources::default() },
            ..NodeShape::default()
        };
        let left = quota.map(|left| (("w".into(), "n".into()), BTreeMap::from([("cpu".to_string(), left)])));
        CapacityReport {
            nodes: shapes.iter().map(shape).collect(),
            is_cut: false,
            bound: [("u".into(), bound)].into(),
            quotas: left.into_iter().collect(),
        }
    }

    #[test]
    fn reports_with_more_room_are_told_from_those_with_less() {
        let before = report(&[(2, 4)], 1, Some(2));
        for (now, expected) in [
            (report(&[(2, 4)], 1, Some(2)), false),
            (report(&[(2, 3)], 2, Some(2)), false),
            (report(&[(1, 4)], 1, Some(1)), false),
            (report(&[(3, 4)], 1, Some(2)), true),
            (report(&[(2, 5)], 0, Some(2)), true),
            // As much in all, and more on one node.
            (report(&[(1, 8)], 1, Some(2)), true),
            (report(&[(2, 4)], 3, Some(2)), true),
            (report(&[(2, 4)], 1, Some(3)), true),
            (report(&[(2, 4)], 1, None), true),
            (report(&[], 0, Some(2)), false),
        ] {
            assert_eq!(now.has_more_than(&before), expected, "{now:?}");
        }
    }
}
