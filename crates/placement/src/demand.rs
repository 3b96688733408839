//! Demands: objects to place, with their needs.

mod read;
mod requests;

use std::sync::Arc;

use crate::cluster::Classes;
use crate::node::NodeRequirements;
use crate::resources::Resources;

pub use self::read::{claim_names, storage_class};
pub use self::requests::pod_requests;

/// The reason why a cluster gets no share of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The cluster is lost.
    Lost,
    /// The cluster is drained, or has another taint that makes the object leave.
    Emptied,
    /// The cluster was removed from the placement and has not confirmed it.
    Leaving,
    /// The cluster has not been Ready for long enough to take over replicas.
    RecentlyReady,
}

/// A cluster that gets no share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    pub uid: Arc<str>,
    pub why: Eviction,
}

impl Evicted {
    pub fn lost(uid: &str) -> Evicted {
        Evicted { uid: uid.into(), why: Eviction::Lost }
    }
}

/// An object to place, with its needs and its present shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub object: ObjectKey,
    /// The API version in which it is sent to clusters; empty if it is not known.
    pub version: Arc<str>,
    /// Path of the workspace of the object: clusters that are registered there or above serve it.
    pub workspace_path: Arc<str>,
    /// Whether only clusters that are registered in its own workspace take it, because cluster-scoped objects
    /// concern all workspaces in a cluster.
    pub is_cluster_scoped: bool,
    pub work: Work,
    /// `spec.replicas`, the completions of a Job that can be divided, or the pods that another Job, or one of a CronJob,
    /// runs at once; 1 for what has no such number.
    pub replicas: i64,
    /// Needs of one replica.
    pub needs: Arc<Needs>,
    /// Whether two copies of its work must never run at the same time, not even during a move.
    pub runs_once: bool,
    /// Whether each of its Pods waits until the previous one is ready: a StatefulSet that is not `Parallel`.
    pub is_ordered: bool,
    /// Whether it has bound volume claims, so that its data is in its present clusters.
    pub has_bound_claims: bool,
    /// Whether it may start with empty volumes on another cluster: an administrator accepts that, or its data
    /// is copied.
    pub may_leave_volumes: bool,
    /// The shares of the placement.
    pub current: Vec<CurrentShare>,
    /// Uids of clusters that were removed from the placement and have not confirmed it.
    pub leaving: Vec<Arc<str>>,
    /// Clusters that get no share. Shares there are replaced.
    pub evicted: Vec<Evicted>,
    /// Uids of the clusters of other objects of its namespace, the most used first. By default, an object goes
    /// to the first.
    pub namespace_on: Vec<Arc<str>>,
    /// Whether other objects of its namespace are on its clusters.
    pub shares_cluster_with_namespace: bool,
    /// Uids of the clusters of other namespaces of its workspace, the most used first.
    pub workspace_on: Vec<Arc<str>>,
    /// Whether a pause applies: shares follow `replicas`, but no cluster enters or leaves.
    pub is_paused: bool,
    /// Whether an autoscaler in its only cluster sets the replicas there, so that its share has no number.
    pub is_scaled_below: bool,
    /// Whether shares may change for the sake of balance alone. Otherwise shares that break no rule stay, and
    /// only the difference to `replicas` is divided.
    pub may_rebalance: bool,
}

/// Identity of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Id of the workspace.
    pub workspace: Arc<str>,
    pub group: Arc<str>,
    pub resource: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

/// How the work of an object can be divided between clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// Replicas that are all alike: Deployment, ReplicaSet, ReplicationController.
    Replicas,
    /// Replicas with ordinals: StatefulSet. Divided into contiguous segments.
    Ordinals,
    /// A pod on every node of every chosen cluster: DaemonSet.
    EveryNode,
    /// Completions of a Job, with its parallelism. Divided once, when it is created.
    Completions { parallelism: i64 },
    /// Work that only one cluster can do: an Indexed Job, a Job without completions, a CronJob.
    Whole,
    /// No known work: a custom object, or any other kind that is placed by name.
    #[default]
    Copy,
}

/// The needs of one replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Requests, with one pod per replica.
    pub requests: Resources,
    pub node: NodeRequirements,
    pub classes: Classes,
}

/// The share of one cluster in the present placement, with what is reported from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentShare {
    pub uid: Arc<str>,
    /// `None` if replicas are not divided.
    pub replicas: Option<i64>,
    /// Number of Pods of a StatefulSet that precede the first one of this cluster.
    pub first_ordinal: Option<i64>,
    pub completions: Option<i64>,
    pub parallelism: Option<i64>,
    /// Reported ready replicas; those of a cluster that is not Ready do not count.
    pub ready: i64,
    /// Replicas that the cluster reports as unschedulable.
    pub unschedulable: i64,
    /// Whether the cluster reports that it has the object.
    pub is_applied: bool,
}

impl Demand {
    /// Returns the share of a cluster.
    pub fn share(&self, uid: &str) -> Option<&CurrentShare> {
        self.current.iter().find(|share| *share.uid == *uid)
    }

    /// Returns the replicas of a share; all replicas if the object is not divided.
    pub fn replicas_of(&self, share: &CurrentShare) -> i64 {
        share.replicas.or(share.completions).unwrap_or(self.replicas)
    }

    /// Adds storage classes that every cluster of the object must have.
    pub fn need_storage(&mut self, classes: impl IntoIterator<Item = String>) {
        let classes: Vec<String> = classes.into_iter().collect();
        if !classes.is_empty() {
            Arc::make_mut(&mut self.needs).classes.storage.extend(classes);
        }
    }

    pub fn is_evicted(&self, uid: &str) -> bool {
        self.eviction(uid).is_some()
    }

    /// Why the cluster gets no share; the first reason if there are several.
    pub fn eviction(&self, uid: &str) -> Option<Eviction> {
        self.evicted.iter().find(|evicted| *evicted.uid == *uid).map(|evicted| evicted.why)
    }

    /// Adds clusters to those that get no share.
    pub fn evict(&mut self, clusters: impl IntoIterator<Item = Arc<str>>, why: Eviction) {
        self.evicted.extend(clusters.into_iter().map(|uid| Evicted { uid, why }));
    }

    /// Whether shares carry numbers of replicas.
    pub fn has_replicas(&self) -> bool {
        matches!(self.work, Work::Replicas | Work::Ordinals | Work::Completions { .. })
    }

    /// Number of pods that run at once if one cluster has all of the object; for a DaemonSet, one per node.
    pub fn pods(&self) -> i64 {
        match self.work {
            Work::Completions { parallelism } => parallelism.min(self.replicas),
            Work::Replicas | Work::Ordinals | Work::Whole => self.replicas,
            Work::EveryNode => 1,
            Work::Copy => 0,
        }
    }

    /// Number of pods that the share of one cluster runs at once.
    pub fn pods_of(&self, share: &CurrentShare) -> i64 {
        match self.work {
            Work::Completions { .. } | Work::Whole => share.parallelism.unwrap_or_else(|| self.pods()),
            Work::Replicas | Work::Ordinals => self.replicas_of(share),
            Work::EveryNode | Work::Copy => self.pods(),
        }
    }

    /// Whether the object is placed even if there is room for some of its replicas only.
    pub fn may_be_partial(&self) -> bool {
        matches!(self.work, Work::Replicas | Work::Ordinals)
    }
}
