//! The rules of one decision, independent of the kind of intent that they come from.

use std::collections::BTreeSet;
use std::sync::Arc;

use atoll_meta::LabelSelector;

use crate::cluster::{ClusterState, PROVIDER, REGION, ZONE};
use crate::node::Toleration;
use crate::policy::Strategy;

/// The rules that apply to one object, after it was decided which intent wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The intent that the rules come from, for `by` of the placement.
    pub by: Arc<str>,
    /// Clusters that may be chosen.
    pub clusters: ClusterFilter,
    /// Groups of clusters in the order of preference: the first that takes all replicas wins. Without any,
    /// all clusters are one group.
    pub terms: Vec<ClusterFilter>,
    /// Taints of clusters that the policy tolerates, besides those that the pods do.
    pub tolerations: Vec<Toleration>,
    pub division: Division,
    /// Fewest clusters; with fewer, nothing is placed.
    pub min_clusters: Option<i64>,
    pub max_clusters: Option<i64>,
    /// Fewest replicas of a cluster that gets any.
    pub min_replicas: Option<i64>,
    /// Most replicas of one cluster.
    pub max_replicas: Option<i64>,
    /// Constraints from the widest to the narrowest: the second applies within each domain of the first.
    pub spread: Vec<Spread>,
    /// Largest difference of replicas between two clusters, of one domain if they are spread over domains.
    pub max_skew: Option<i64>,
    /// Workloads to share clusters with.
    pub with: Vec<OtherWorkloads>,
    /// Workloads to stay away from.
    pub without: Vec<OtherWorkloads>,
    /// Whether a user named the clusters. Named clusters need not have reported anything yet.
    pub names_clusters: bool,
    /// Whether an object stays on the cluster of its namespace together with other objects: the default without
    /// any intent. A new object goes to another cluster if that one has no room.
    pub keeps_namespace_together: bool,
    pub failover: Failover,
    pub moves: MoveBudget,
    /// How a new Pod template reaches the clusters.
    pub rollout: Strategy,
    /// Seconds that Pods of a new template may take to become available, where the kind has no such time of its own;
    /// `None` for the default.
    pub rollout_deadline: Option<i64>,
}

/// How replicas are divided between clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Division {
    /// All on one cluster, the one with most room.
    #[default]
    Single,
    /// All on each of the clusters.
    Duplicate,
    /// The same number on each.
    Even,
    /// By the weights of the first entries that match; 0 without a match.
    Weighted(Vec<(ClusterFilter, i64)>),
    /// By the number of replicas that each has room for.
    Capacity,
    /// On as few clusters as possible.
    Pack,
    /// Exact counts by name of the cluster. `spec.replicas` does not count.
    Pinned(Vec<(String, i64)>),
    /// Nowhere: the object stays above.
    Nowhere,
}

/// Selects clusters. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFilter {
    /// Names; empty for all.
    pub names: BTreeSet<String>,
    pub selector: Option<LabelSelector>,
    /// Names that are excluded.
    pub except: BTreeSet<String>,
    /// Excludes clusters by labels.
    pub except_selector: Option<LabelSelector>,
    /// Excludes clusters by uid, so that others of the same name may be chosen.
    pub except_uids: BTreeSet<Arc<str>>,
}

impl ClusterFilter {
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> ClusterFilter {
        ClusterFilter { names: names.into_iter().map(str::to_string).collect(), ..ClusterFilter::default() }
    }

    pub fn selects(&self, cluster: &ClusterState) -> bool {
        let label = |key: &str| cluster.labels.get(key).map(String::as_str);
        (self.names.is_empty() || self.names.contains(&*cluster.name))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(label))
            && !self.except.contains(&*cluster.name)
            && !self.except_uids.contains(&cluster.uid)
            && !self.except_selector.as_ref().is_some_and(|selector| selector.matches(label))
    }
}

/// A constraint on the domains of chosen clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    pub by: Topology,
    /// Fewest domains; with fewer, nothing is placed.
    pub min_domains: Option<i64>,
    pub max_domains: Option<i64>,
    /// Largest difference of replicas between two domains; `None` for no such rule.
    pub max_skew: Option<i64>,
}

/// The property by which clusters belong to the same domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topology {
    Region,
    Zone,
    Provider,
    /// The value of any label of the Cluster.
    Label(String),
}

impl Topology {
    pub fn label(&self) -> &str {
        match self {
            Topology::Region => REGION,
            Topology::Zone => ZONE,
            Topology::Provider => PROVIDER,
            Topology::Label(key) => key,
        }
    }

    /// Returns the domain of a cluster; `None` if it is in none.
    pub fn domain<'a>(&self, cluster: &'a ClusterState) -> Option<&'a str> {
        cluster.labels.get(self.label()).map(String::as_str)
    }
}

/// Other workloads, resolved to the clusters that they are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherWorkloads {
    /// The selector as the policy has it, for reasons. The objects are not named, because the user may not be
    /// allowed to see them.
    pub text: String,
    /// Uids of the clusters of these workloads.
    pub clusters: BTreeSet<Arc<str>>,
    /// Whether the rule is required, and not only preferred.
    pub is_required: bool,
}

/// Reactions to a cluster that is lost, and to its return. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// Whether the share of a lost cluster is replaced.
    pub is_enabled: bool,
    /// Time after Ready turned False.
    pub after: i64,
    /// Whether the share comes back when the cluster returns.
    pub returns: bool,
    /// Time that the returned cluster must have been Ready.
    pub returns_after: i64,
}

impl Default for Failover {
    fn default() -> Failover {
        Failover { is_enabled: true, after: 15, returns: true, returns_after: 30 }
    }
}

/// Limits of one move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveBudget {
    /// Most replicas beyond those asked for while it moves; `None` without a limit.
    pub max_surge: Option<i64>,
    /// Replicas that may be unavailable while it moves.
    pub max_unavailable: i64,
}

impl Rules {
    /// The rules without any intent.
    pub fn by_default() -> Rules {
        Rules { by: "default".into(), keeps_namespace_together: true, ..Rules::default() }
    }
}
