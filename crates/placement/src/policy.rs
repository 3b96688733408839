//! Placement policies: the rules that placements are computed from.
//!
//! ```text
//!   JSON of PlacementPolicy,        ┌─ matches, select ─► the policy of an object, and why not the others
//!   ClusterPlacementPolicy ─ parse ─┼─ clusters, bounds, spread … ─► decide
//!                                   └─ check_intent ─► what an annotation may ask for
//! ```
//!
//! A policy is read and validated in one pass: the server refuses what [`Policy::parse`] refuses, and the
//! scheduler reads stored policies with the same function.

mod allow;
mod parse;
mod select;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use atoll_meta::views::{TaintView, TolerationView, items, text};
use atoll_meta::{LabelSelector, LabelSet, object};
use serde_json::Value;

pub use allow::Excess;
pub use select::{ANY_CUSTOM_KIND, Loser, Loss, PolicySelection, PolicyTarget, Specificity, select};

/// API group of the policy kinds.
pub const GROUP: &str = "atoll.dev";

/// Defines an enumeration whose values in JSON are the names of its variants.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident { $($(#[$of_variant:meta])* $variant:ident,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$of_variant])* $variant,)+ }

        impl $name {
            /// The values in JSON.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($variant),)+];

            pub fn parse(text: &str) -> Option<$name> {
                match text {
                    $(stringify!($variant) => Some($name::$variant),)+
                    _ => None,
                }
            }

            /// Returns the value in JSON.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant),)+ }
            }
        }
    };
}

words! {
    /// The two kinds of policies.
    PolicyKind {
        /// For objects of its namespace.
        PlacementPolicy,
        /// For objects of its workspace and of the workspaces below.
        ClusterPlacementPolicy,
    }
}

words! {
    /// How replicas are shared between the clusters of an object.
    Division {
        /// All of them run on one cluster.
        Single,
        /// Every cluster runs all of them.
        Duplicate,
        /// They are divided evenly.
        Even,
        /// They are divided by the weights of the policy.
        Weighted,
        /// They are divided by free capacity.
        Capacity,
        /// They run on as few clusters as possible.
        Pack,
        /// The object stays in the control plane.
        None,
    }
}

words! {
    /// Whether something happens by itself.
    Mode { Automatic, Never, }
}

words! {
    /// How a new template reaches the clusters of an object.
    #[derive(Default)]
    Strategy {
        #[default]
        AllAtOnce,
        OneByOne,
    }
}

/// A placement policy. Fields that it does not set have their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub kind: PolicyKind,
    /// Empty for a ClusterPlacementPolicy.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Creation time in the format of Kubernetes, in which the order of texts is the order of times.
    pub created: String,
    pub generation: i64,
    /// Levels between the workspace of the policy and that of the object: 0 is the same workspace, 1 its
    /// parent. Set by the caller, because a policy does not know where it is.
    pub distance: usize,
    /// The objects that it applies to; an object must match one of them. None for every workload kind.
    pub objects: Vec<ObjectRule>,
    /// Labels of the namespaces that a ClusterPlacementPolicy applies to.
    pub namespaces: LabelSelector,
    pub clusters: ClusterRule,
    pub replicas: ReplicaRule,
    pub bounds: Bounds,
    pub spread: Vec<SpreadRule>,
    /// Workloads that must be in the same domain.
    pub affinity: Vec<WorkloadRule>,
    /// Workloads that must not be in the same domain.
    pub anti_affinity: Vec<WorkloadRule>,
    /// How long a cluster must have been lost before its shares are replaced.
    pub failover: Reaction,
    /// How long a returned cluster must have been Ready before it gets shares again.
    pub failback: Reaction,
    /// How many replicas of an object may be moving at once; `None` for all.
    pub max_moving: Option<Amount>,
    pub rollout: Strategy,
    /// How long Pods of a new template may take to become available, where the kind has no such time of its own.
    pub rollout_deadline: Option<Duration>,
}

/// Objects that a policy applies to. Unset fields match everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectRule {
    pub group: Option<String>,
    pub kind: Option<String>,
    pub name: Option<String>,
    pub selector: Option<LabelSelector>,
}

/// Clusters that a policy allows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterRule {
    pub filter: ClusterTerm,
    pub exclude: Vec<String>,
    /// In order: the first term whose clusters suffice is used. None for all clusters that pass the filter.
    pub affinity: Vec<ClusterTerm>,
    /// JSON of tolerations, as in Pods.
    pub tolerations: Vec<Value>,
}

/// A choice of clusters. Unset fields match everything; a cluster must match both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterTerm {
    pub selector: Option<LabelSelector>,
    pub names: Vec<String>,
}

/// How replicas are shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaRule {
    /// `None` if the policy does not say; see [`ReplicaRule::division`].
    pub division: Option<Division>,
    pub weights: Vec<WeightRule>,
}

/// The weight of one cluster, or of those with some labels.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightRule {
    pub clusters: WeightedClusters,
    pub weight: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WeightedClusters {
    Name(String),
    Selector(LabelSelector),
}

/// Limits of a placement. Replicas are those of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub min_clusters: Option<i64>,
    pub max_clusters: Option<i64>,
    pub min_replicas: Option<i64>,
    pub max_replicas: Option<i64>,
}

/// How an object is spread over domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadRule {
    pub by: Domain,
    pub min_domains: Option<i64>,
    pub max_domains: Option<i64>,
    /// Maximum difference of the replicas of two domains.
    pub max_skew: Option<i64>,
}

/// Other workloads, in the namespace of the object.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadRule {
    /// `None` for every workload kind.
    pub kind: Option<String>,
    pub selector: LabelSelector,
    pub by: Domain,
}

/// A reaction to a cluster that is lost or returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaction {
    pub mode: Mode,
    pub after: Duration,
}

impl Reaction {
    /// Failover without a policy.
    pub const FAILOVER: Reaction = Reaction { mode: Mode::Automatic, after: Duration::from_secs(15) };
    /// Failback without a policy.
    pub const FAILBACK: Reaction = Reaction { mode: Mode::Automatic, after: Duration::from_secs(30) };
}

/// A number, or a part of the whole in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Number(i64),
    Percent(i64),
}

impl Amount {
    /// Returns the number for a whole; parts are rounded up, so that a positive percentage is never nothing.
    pub fn of(self, whole: i64) -> i64 {
        match self {
            Amount::Number(number) => number,
            Amount::Percent(percent) => {
                let product = i128::from(whole.max(0)) * i128::from(percent);
                i64::try_from((product + 99) / 100).unwrap_or(i64::MAX)
            }
        }
    }
}

/// A property of clusters by which they are grouped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    Cluster,
    Region,
    Zone,
    Provider,
    /// The value of this label of the Cluster.
    Label(String),
}

/// Label of a Cluster: its provider.
pub const PROVIDER_LABEL: &str = "atoll.dev/provider";
const REGION_LABEL: &str = "topology.kubernetes.io/region";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

impl Domain {
    /// Reads a word or the key of a label.
    pub fn parse(text: &str) -> Domain {
        match text {
            "cluster" => Domain::Cluster,
            "region" => Domain::Region,
            "zone" => Domain::Zone,
            "provider" => Domain::Provider,
            key => Domain::Label(key.to_string()),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Domain::Cluster => "cluster",
            Domain::Region => "region",
            Domain::Zone => "zone",
            Domain::Provider => "provider",
            Domain::Label(key) => key,
        }
    }

    /// Returns the domain of a Cluster. Labels have precedence over what its nodes report; a cluster with
    /// nodes in several zones is a domain of its own, named after all of them.
    pub fn of<'a>(&self, cluster: &'a Value) -> Option<Cow<'a, str>> {
        let label = |key: &str| object::label(cluster, key).filter(|value| !value.is_empty());
        let found = match self {
            Domain::Cluster => Some(object::name(cluster)),
            Domain::Region => label(REGION_LABEL).or_else(|| text(&cluster["status"]["region"])),
            Domain::Provider => label(PROVIDER_LABEL),
            Domain::Label(key) => label(key),
            Domain::Zone => {
                if let Some(zone) = label(ZONE_LABEL) {
                    return Some(zone.into());
                }
                let zones: Vec<&str> = items(&cluster["status"]["zones"]).iter().filter_map(text).collect();
                return match zones.as_slice() {
                    [] => None,
                    [zone] => Some((*zone).into()),
                    several => Some(several.join("+").into()),
                };
            }
        };
        found.map(Cow::Borrowed)
    }
}

impl ClusterTerm {
    /// Whether the term restricts nothing.
    pub fn is_empty(&self) -> bool {
        self.selector.is_none() && self.names.is_empty()
    }

    pub fn matches(&self, name: &str, labels: &impl LabelSet) -> bool {
        let is_named = self.names.is_empty() || self.names.iter().any(|known| known == name);
        is_named && self.selector.as_ref().is_none_or(|selector| selector.matches_labels(labels))
    }
}

impl ClusterRule {
    /// Whether the policy allows a cluster. Affinity terms are a choice among these: see
    /// [`ClusterRule::terms`].
    pub fn allows(&self, name: &str, labels: &impl LabelSet) -> bool {
        !self.exclude.iter().any(|excluded| excluded == name)
            && self.filter.matches(name, labels)
            && (self.affinity.is_empty() || self.affinity.iter().any(|term| term.matches(name, labels)))
    }

    /// Returns the terms to try in order; one that matches everything if there are none.
    pub fn terms(&self) -> Cow<'_, [ClusterTerm]> {
        match self.affinity.as_slice() {
            [] => Cow::Owned(vec![ClusterTerm::default()]),
            terms => Cow::Borrowed(terms),
        }
    }

    /// Whether a taint of a Cluster is tolerated.
    pub fn tolerates(&self, taint: TaintView<'_>) -> bool {
        self.tolerations.iter().any(|toleration| TolerationView::of(toleration).tolerates(taint))
    }
}

impl ReplicaRule {
    /// Returns the division; without one, an object runs on one cluster, as without a policy.
    pub fn division(&self) -> Division {
        self.division.unwrap_or(Division::Single)
    }

    /// Returns the weight of a cluster: of the first row with its name, otherwise of the first row with a
    /// matching selector, otherwise 0.
    pub fn weight(&self, name: &str, labels: &impl LabelSet) -> i64 {
        let by_name = |rule: &&WeightRule| matches!(&rule.clusters, WeightedClusters::Name(of) if of == name);
        let by_labels = |rule: &&WeightRule| match &rule.clusters {
            WeightedClusters::Selector(selector) => selector.matches_labels(labels),
            WeightedClusters::Name(_) => false,
        };
        let rule = self.weights.iter().find(by_name).or_else(|| self.weights.iter().find(by_labels));
        rule.map_or(0, |rule| rule.weight)
    }
}

impl Policy {
    /// Whether objects with this policy stay in the control plane.
    pub fn keeps_above(&self) -> bool {
        self.replicas.division == Some(Division::None)
    }

    /// Names the policy, for `by` of placements, events and messages: `placementpolicy/spread`.
    pub fn reference(&self) -> String {
        let kind = match self.kind {
            PolicyKind::PlacementPolicy => "placementpolicy",
            PolicyKind::ClusterPlacementPolicy => "clusterplacementpolicy",
        };
        format!("{kind}/{}", self.name)
    }
}
