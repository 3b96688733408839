//! Questions about changes that were not made: what would move where.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::placement::Share;

/// A change to try out: the body of a request to `/services/what-if`. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WhatIf {
    /// Name of a cluster that is drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// Name of a cluster that is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lose: Option<String>,
    /// A workload that gets another number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<ScaleChange>,
    /// A PlacementPolicy or ClusterPlacementPolicy that is created or replaced.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub policy: Value,
}

/// Another number of replicas of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleChange {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub replicas: i64,
}

/// The answer: every object of the workspace that would be placed in another way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WhatIfAnswer {
    pub changes: Vec<PlacementEffect>,
    /// Number of objects in other workspaces that would be placed in another way. They are not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<i64>,
    /// Why the workspace is paused, and the command that resumes it. The changes happen when it is resumed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub paused: String,
}

/// The effect of a change on one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PlacementEffect {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The shares now.
    pub before: Vec<Share>,
    /// The shares in the end.
    pub after: Vec<Share>,
    /// The decision maker in the end.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Why replicas would have no place, or would stay where they are.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}
