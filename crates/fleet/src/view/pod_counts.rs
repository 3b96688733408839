//! The Pods of a workload in a report.

use serde::{Deserialize, Serialize};

/// The Pods that a placed workload has in a cluster, directly or through objects that it owns. Finished Pods
/// are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCounts {
    pub total: i64,
    pub ready: i64,
    /// Pods that do not run yet.
    pub pending: i64,
    /// Pending Pods for which the scheduler of the cluster finds no node.
    pub unschedulable: i64,
    /// Message of the scheduler about one of these.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Pods that have a node.
    pub bound: i64,
    /// Resources in use, where the cluster has metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<PodUsage>,
}

/// Resources that ready Pods use, as quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodUsage {
    pub cpu: String,
    pub memory: String,
    /// Ready Pods that were measured; 0 in reports of older syncers.
    pub pods: i64,
    /// Requests of these Pods.
    pub requests: PodRequests,
}

/// Requests of Pods, as quantities. A resource that one of the Pods does not request is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodRequests {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}
