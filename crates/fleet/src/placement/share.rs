//! The part of a placement that belongs to one cluster.

use serde::{Deserialize, Serialize};

use super::is_same;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    pub name: String,
    /// Uid of the Cluster, because several workspaces may have one with the same name. Empty in older
    /// placements, which refer to the nearest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Number of replicas, if they are divided. For a PodDisruptionBudget, its number for this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Number of Pods of a StatefulSet that precede the first one of this cluster, if they are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ordinal: Option<i64>,
    /// Completions of a Job, if they are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i64>,
    /// Pods that may be unavailable while the cluster rolls out a Pod template: its part of the budget of the
    /// whole workload. Unset when there is no rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<i64>,
    /// Extra Pods while the cluster rolls out a Pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<i64>,
    /// Whether the turn of this cluster in a rollout has not come, so that it keeps its Pod template.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Whether other objects on this cluster need the object, in a placement that was not made for them alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<Needed>,
}

/// Whether a share is there only because other objects need it, or was decided as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Needed {
    Also,
    Only,
}

/// The divided numbers of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareNumbers {
    pub replicas: Option<i64>,
    pub first_ordinal: Option<i64>,
    pub completions: Option<i64>,
    pub parallelism: Option<i64>,
    pub max_unavailable: Option<i64>,
    pub max_surge: Option<i64>,
}

impl From<Option<i64>> for ShareNumbers {
    fn from(replicas: Option<i64>) -> ShareNumbers {
        ShareNumbers { replicas, ..ShareNumbers::default() }
    }
}

impl From<&Share> for ShareNumbers {
    fn from(share: &Share) -> ShareNumbers {
        share.numbers()
    }
}

impl Share {
    /// Returns a share of a cluster without numbers.
    pub fn on(name: &str, uid: &str) -> Share {
        Share { name: name.into(), uid: uid.into(), ..Share::default() }
    }

    pub fn is_of(&self, name: &str, uid: &str) -> bool {
        is_same((&self.name, &self.uid), (name, uid))
    }

    pub fn numbers(&self) -> ShareNumbers {
        ShareNumbers {
            replicas: self.replicas,
            first_ordinal: self.first_ordinal,
            completions: self.completions,
            parallelism: self.parallelism,
            max_unavailable: self.max_unavailable,
            max_surge: self.max_surge,
        }
    }

    /// Whether the cluster has a part of the budget of a rollout.
    pub fn is_rolling_out(&self) -> bool {
        self.max_unavailable.is_some() || self.max_surge.is_some()
    }

    /// Returns the first and the last number, exclusive, of the Pods of a divided StatefulSet.
    pub fn ordinals(&self) -> Option<(i64, i64)> {
        let first = self.first_ordinal?;
        Some((first, first.saturating_add(self.replicas?)))
    }
}
