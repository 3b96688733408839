//! Causes: why a cluster takes nothing, or no more, with the remedy.

use crate::demand::Eviction;
use crate::node::{Effect, Taint};

/// The cause why a cluster takes nothing, or no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    BeingRemoved,
    Observed,
    Fenced,
    Paused,
    Cordoned,
    Evicted(Eviction),
    NotReported,
    /// A cluster of a workspace above has not reported what is free.
    RoomNotReported,
    NotReady {
        reason: &'a str,
    },
    WorkspaceRefused,
    ClusterScoped,
    /// An autoscaler on a cluster of a workspace above.
    Autoscales,
    NotServed {
        resource: &'a str,
    },
    VersionNotServed {
        resource: &'a str,
        version: &'a str,
    },
    RightsMissing {
        resource: &'a str,
    },
    ClassMissing {
        kind: &'static str,
        name: &'a str,
    },
    Excluded {
        by: &'a str,
    },
    NoWeight {
        by: &'a str,
    },
    NoDomain {
        label: &'a str,
    },
    WorkloadMissing {
        text: &'a str,
    },
    WorkloadPresent {
        text: &'a str,
    },
    Taint(&'a Taint),
    NoNodes,
    NoNodeSelected,
    NoNodeTolerated,
    Limit {
        resource: &'a str,
        within: i64,
    },
    /// ResourceQuotas of the cluster allow at most `within` replicas.
    Quota {
        resource: &'a str,
        within: i64,
    },
    MostReplicas(i64),
    NoRoom {
        fits: i64,
        missing: Vec<&'a str>,
        is_cut: bool,
    },
    /// The cluster could take replicas, but others were chosen.
    NotChosen,
    /// The rules allow no more clusters.
    EnoughClusters(i64),
    /// A balance between domains allows no more.
    Skew {
        label: &'a str,
        most: i64,
    },
}

impl Cause<'_> {
    /// Whether the present replicas of the cluster must leave it. Other causes only keep new replicas away.
    pub fn ends_shares(&self) -> bool {
        match self {
            Cause::Evicted(_) | Cause::Fenced | Cause::BeingRemoved => true,
            Cause::Excluded { .. } | Cause::NoWeight { .. } => true,
            Cause::Taint(taint) => taint.effect == Effect::NoExecute,
            _ => false,
        }
    }

    /// A word in CamelCase.
    pub fn code(&self) -> &'static str {
        match self {
            Cause::BeingRemoved => "BeingRemoved",
            Cause::Observed => "Observed",
            Cause::Fenced => "Fenced",
            Cause::Paused => "Paused",
            Cause::Cordoned => "Cordoned",
            Cause::Evicted(_) => "Evicted",
            Cause::NotReported => "NotReported",
            Cause::RoomNotReported => "RoomNotReported",
            Cause::NotReady { .. } => "NotReady",
            Cause::WorkspaceRefused => "WorkspaceRefused",
            Cause::ClusterScoped => "ClusterScoped",
            Cause::Autoscales => "Autoscales",
            Cause::NotServed { .. } => "NotServed",
            Cause::VersionNotServed { .. } => "VersionNotServed",
            Cause::RightsMissing { .. } => "RightsMissing",
            Cause::ClassMissing { .. } => "ClassMissing",
            Cause::Excluded { .. } => "Excluded",
            Cause::NoWeight { .. } => "NoWeight",
            Cause::NoDomain { .. } => "NoDomain",
            Cause::WorkloadMissing { .. } => "WorkloadMissing",
            Cause::WorkloadPresent { .. } => "WorkloadPresent",
            Cause::Taint(_) => "Tainted",
            Cause::NoNodes => "NoNodes",
            Cause::NoNodeSelected => "NoNodeSelected",
            Cause::NoNodeTolerated => "NoNodeTolerated",
            Cause::Limit { .. } => "LimitReached",
            Cause::Quota { .. } => "QuotaReached",
            Cause::MostReplicas(_) => "MostReplicas",
            Cause::NoRoom { .. } => "NoRoom",
            Cause::NotChosen => "NotChosen",
            Cause::EnoughClusters(_) => "EnoughClusters",
            Cause::Skew { .. } => "Skew",
        }
    }

    /// A sentence about the cluster with this name, which it follows: `is cordoned; open it with: …`.
    pub fn text(&self, name: &str) -> String {
        match self {
            Cause::BeingRemoved => {
                format!("is being removed; see what is still there with: atoll cluster describe {name}")
            }
            Cause::Observed => {
                format!("is only observed; to manage it: atoll cluster join {name} --kubeconfig FILE")
            }
            Cause::Fenced => format!("is fenced; lift that with: atoll cluster fence {name} --lift"),
            Cause::Paused => format!("is paused; resume it with: atoll resume --cluster {name}"),
            Cause::Cordoned => format!("is cordoned; open it with: atoll cluster uncordon {name}"),
            Cause::Evicted(Eviction::Lost) => {
                format!("is lost, so others replace it; see what is wrong with: atoll cluster describe {name}")
            }
            Cause::Evicted(Eviction::Emptied) => {
                "is being emptied: it has a taint with the effect NoExecute that is not tolerated".into()
            }
            Cause::Evicted(Eviction::Leaving) => {
                "has not yet confirmed that the object's earlier share there is gone".into()
            }
            Cause::Evicted(Eviction::RecentlyReady) => {
                "became ready a moment ago, and objects move there only if it stays ready".into()
            }
            Cause::NotReported => {
                format!(
                    "has not reported its state yet; see what is wrong with: atoll cluster describe {name}"
                )
            }
            Cause::RoomNotReported => {
                "has not reported its room yet; it belongs to a workspace above and accepts no objects until then".into()
            }
            Cause::NotReady { reason } => {
                format!("is not ready: {reason}; see what is wrong with: atoll cluster describe {name}")
            }
            Cause::WorkspaceRefused => {
                "does not accept objects of this workspace; its administrator can add it to spec.workspaces"
                    .into()
            }
            Cause::ClusterScoped => {
                "takes cluster-scoped objects only from the workspace in which it is registered".into()
            }
            Cause::Autoscales => atoll_fleet::autoscaling::WHY_ABOVE.into(),
            Cause::NotServed { resource } => {
                format!("does not serve {resource}; install its definition there")
            }
            Cause::VersionNotServed { resource, version } => {
                format!("does not serve {resource} in version {version}; install that version of its definition there")
            }
            Cause::RightsMissing { resource } => format!(
                "does not let Atoll write {resource}; grant it with: atoll cluster join {name} --kubeconfig FILE"
            ),
            Cause::ClassMissing { kind, name } => format!("has no {kind} {name:?}; create it there"),
            Cause::Excluded { by } => format!("is excluded by {by}"),
            Cause::NoWeight { by } => format!("has no weight in {by}"),
            Cause::NoDomain { label } => {
                format!("has no label {label}, by which replicas are spread; set it on the Cluster")
            }
            Cause::WorkloadMissing { text } => {
                format!("does not run workloads that match {text}, as required")
            }
            Cause::WorkloadPresent { text } => {
                format!("runs workloads that match {text}, which must be avoided")
            }
            Cause::Taint(taint) => format!("has the taint {taint}, which is not tolerated"),
            Cause::NoNodes => "has no node that accepts pods".into(),
            Cause::NoNodeSelected => {
                "has no node that matches the node selector and affinity of the pods".into()
            }
            Cause::NoNodeTolerated => "has only nodes with taints that the pods do not tolerate".into(),
            Cause::Limit { resource, within } => format!(
                "has a limit of {resource} in spec.limits that leaves {}",
                plural(*within, "replica", "no replica")
            ),
            Cause::Quota { resource, within } => format!(
                "has a ResourceQuota of {resource} in the namespace that leaves room for {}",
                plural(*within, "replica", "no replica")
            ),
            Cause::MostReplicas(most) => {
                format!("may have at most {}", plural(*most, "replica", "no replica"))
            }
            Cause::NoRoom { fits, missing, is_cut } => no_room(*fits, missing, *is_cut),
            Cause::NotChosen => "could take it, but others come first".into(),
            Cause::EnoughClusters(most) => {
                format!("could take it, but at most {} may be used", plural(*most, "cluster", "no cluster"))
            }
            Cause::Skew { label, most } => {
                format!("could take it, but replicas per {label} may differ by at most {most}")
            }
        }
    }
}

fn no_room(fits: i64, missing: &[&str], is_cut: bool) -> String {
    let room = plural(fits, "replica", "no replica");
    let what = match missing {
        // The nodes have enough room in total, but no single node has.
        [] => "no node has enough left for one more".to_string(),
        missing => format!("too little {} is free for one more", missing.join(", ")),
    };
    let cut = if is_cut { "; it reports only a part of its nodes" } else { "" };
    format!("has room for {room}: {what}{cut}")
}

fn plural(count: i64, word: &str, none: &str) -> String {
    match count {
        0 => none.to_string(),
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}
