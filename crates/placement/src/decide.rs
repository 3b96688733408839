//! The decision: shares, and a reason for every cluster that gets none.

use std::sync::Arc;

use crate::demand::Demand;
use crate::fleet::Fleet;
use crate::rules::Rules;

/// What was decided about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub by: Arc<str>,
    /// The shares to have in the end; [`crate::moves`] says how to get there.
    pub shares: Vec<DecidedShare>,
    /// Replicas that no cluster takes; for objects without replicas, 1 if it is placed nowhere.
    pub unplaced: i64,
    /// Why replicas are not placed: a sentence for the whole, where there is more to say than about each
    /// cluster.
    pub reason: Option<String>,
    /// A reason for each cluster that serves the workspace and takes no more, if replicas are not placed.
    /// [`explain`] returns them in any case.
    pub refusals: Vec<Refusal>,
}

/// The share of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecidedShare {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// `None` if the object goes there as it is.
    pub replicas: Option<i64>,
    /// Number of Pods of a StatefulSet that precede the first one of this cluster.
    pub first_ordinal: Option<i64>,
    pub completions: Option<i64>,
    pub parallelism: Option<i64>,
}

/// Why a cluster takes nothing, or no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// A word in CamelCase, such as `Cordoned`.
    pub code: &'static str,
    /// A sentence that says what to do, such as `is cordoned; open it with: atoll cluster uncordon east`.
    pub text: String,
}

/// What is to say about one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// Its share, if it was chosen.
    pub share: Option<DecidedShare>,
    /// Why not, or why no more.
    pub refusal: Option<Refusal>,
    /// Replicas that it has room for, those that it runs included; `None` if that is not known.
    pub fits: Option<i64>,
    pub scores: Vec<Score>,
}

/// One score of a cluster; the clusters with the highest scores are chosen, the first score counting most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Score {
    pub name: &'static str,
    pub value: i64,
    pub text: String,
}

/// Decides which clusters run an object. The same arguments always lead to the same decision. The fleet is
/// not changed: record the result with [`Fleet::reserve`].
pub fn decide(fleet: &Fleet, demand: &Demand, rules: &Rules) -> Decision {
    let _ = (fleet, demand);
    Decision { by: rules.by.clone(), ..Decision::default() }
}

/// Decides as [`decide`] does, and says of every cluster that serves the workspace why it was chosen or not.
pub fn explain(fleet: &Fleet, demand: &Demand, rules: &Rules) -> (Decision, Vec<Verdict>) {
    (decide(fleet, demand, rules), Vec::new())
}
