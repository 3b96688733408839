//! Clusters that the intent of an object names and that take nothing.

use serde::{Deserialize, Serialize};

/// Most clusters that a placement records as left out.
pub const MAX_LEFT_OUT: usize = 16;

/// A named cluster without a share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    pub name: String,
    /// A word such as `Cordoned`; explanations have the sentence.
    pub reason: String,
}

/// Lists clusters with their reasons, such as `west (Cordoned)`.
pub fn text(left_out: &[LeftOut]) -> String {
    let one = |one: &LeftOut| format!("{} ({})", one.name, one.reason);
    left_out.iter().map(one).collect::<Vec<_>>().join(", ")
}
