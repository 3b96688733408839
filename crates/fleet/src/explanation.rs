//! Explanations of placements, as the server sends them and `atoll explain` shows them.

use serde::{Deserialize, Serialize};

/// Why an object is where it is: `status.explanation` of a Placement that is read with `explain=true`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Explanation {
    /// The decision maker that applies now.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// A sentence about the object as a whole, such as why the scheduler leaves it alone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Replicas that the object asks for, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Replicas that no cluster takes.
    #[serde(skip_serializing_if = "is_zero")]
    pub unplaced: i64,
    /// Policies of the workspace that match the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyExplanation>,
    /// Every cluster that serves the workspace.
    pub clusters: Vec<ClusterExplanation>,
    /// Whether the scores were computed for this answer, from the state of the fleet as it is now.
    pub recomputed: bool,
}

/// A policy that matches an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyExplanation {
    /// The policy as in `by`.
    pub policy: String,
    pub applies: bool,
    /// Why it does not apply.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The verdict about one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterExplanation {
    pub name: String,
    /// Uid of the Cluster, within the control plane only.
    #[serde(skip)]
    pub uid: String,
    pub chosen: bool,
    /// Replicas that it should run, if they are divided or counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Replicas that it has now, if that differs from what it should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<i64>,
    /// Ready pods that it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
    /// When it first reported the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// A word in CamelCase for the reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Why it takes nothing, or no more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Replicas that it has room for, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<i64>,
    /// The score that counts most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreExplanation>,
}

/// One score of a cluster; more is better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoreExplanation {
    pub name: String,
    pub value: i64,
    pub reason: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
