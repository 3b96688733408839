//! The decision: shares, and a reason for every cluster that gets none.

mod divide;
mod fixed;
mod left_out;
mod pack;
mod paused;
mod plan;
mod single;
mod spread;
mod verdict;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::resource_name;
use crate::demand::{Demand, Work};
use crate::filters::Question;
use crate::fleet::Fleet;
use crate::rules::{ClusterFilter, Division, Rules};

use self::plan::SharePlan;

/// The decision about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementDecision {
    pub by: Arc<str>,
    /// The shares to have in the end; [`crate::moves`] says how to get there.
    pub shares: Vec<DecidedShare>,
    /// Replicas without a cluster; for objects without replicas, 1 if no cluster has the object.
    pub unplaced: i64,
    /// Replicas in `shares` on clusters that they are to leave, and where they stay because no other cluster takes them.
    pub kept: i64,
    /// Why replicas are not placed: a sentence for the whole, where there is more to say than about each
    /// cluster.
    pub reason: Option<String>,
    /// A reason for each cluster that serves the workspace and takes no more, if replicas are not placed or are kept.
    /// [`explain`] returns them in any case.
    pub refusals: Vec<Refusal>,
    /// A reason for each cluster that the rules name and that takes nothing, if others have shares.
    pub left_out: Vec<Refusal>,
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

/// The reason why a cluster takes nothing, or no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// A word in CamelCase, such as `Cordoned`.
    pub code: &'static str,
    /// A sentence that says what to do, such as `is cordoned; open it with: atoll cluster uncordon east`.
    pub text: String,
}

impl Refusal {
    /// Whether more room, on this cluster or beside it, may help. Everything else takes a change of the Cluster itself, or of
    /// the object and its rules.
    pub fn may_depend_on_room(&self) -> bool {
        !INDEPENDENT_OF_ROOM.contains(&self.code)
    }
}

/// Codes of refusals that no room changes.
const INDEPENDENT_OF_ROOM: [&str; 20] = [
    "BeingRemoved",
    "Observed",
    "Fenced",
    "Paused",
    "Cordoned",
    "Evicted",
    "NotReady",
    "WorkspaceRefused",
    "ClusterScoped",
    "NotServed",
    "VersionNotServed",
    "RightsMissing",
    "ClassMissing",
    "Excluded",
    "NoWeight",
    "NoDomain",
    "WorkloadMissing",
    "WorkloadPresent",
    "Tainted",
    "PodSecurity",
];

/// The part of an explanation that is about one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// Its share, if it was chosen.
    pub share: Option<DecidedShare>,
    /// The reason why the cluster has no share, or no larger one.
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
pub fn decide(fleet: &Fleet, demand: &Demand, rules: &Rules) -> PlacementDecision {
    let resource = resource_name(&demand.object.group, &demand.object.resource);
    let question = Question { fleet, demand, rules, resource: &resource };
    let plan = plan(question);
    let mut decision = plan.decision(question);
    decision.reason = decision.reason.or_else(|| unknown_clusters(question));
    decision.left_out = left_out::of(question, &decision);
    if decision.unplaced > 0 || decision.kept > 0 {
        decision.refusals = verdict::refusals(question, &decision);
    }
    decision
}

/// Decides as [`decide`] does, and says of every cluster that serves the workspace why it was chosen or not.
pub fn explain(fleet: &Fleet, demand: &Demand, rules: &Rules) -> (PlacementDecision, Vec<Verdict>) {
    let resource = resource_name(&demand.object.group, &demand.object.resource);
    let question = Question { fleet, demand, rules, resource: &resource };
    let plan = plan(question);
    let mut decision = plan.decision(question);
    decision.reason = decision.reason.or_else(|| unknown_clusters(question));
    decision.left_out = left_out::of(question, &decision);
    let verdicts = verdict::verdicts(question, &decision);
    if decision.unplaced > 0 || decision.kept > 0 {
        decision.refusals = verdicts.iter().filter_map(|verdict| verdict.refusal.clone()).collect();
    }
    (decision, verdicts)
}

/// Reports named clusters that do not exist.
fn unknown_clusters(question: Question<'_>) -> Option<String> {
    let Question { fleet, demand, rules, .. } = question;
    let pins = match &rules.division {
        Division::Pinned(pins) => pins.as_slice(),
        _ => &[],
    };
    let names = rules.clusters.names.iter().chain(pins.iter().map(|(name, _)| name));
    // Clusters that do not serve the workspace are treated as nonexistent, unless the object is there.
    let is_unknown = |name: &&String| {
        fleet.named(&demand.workspace_path, name).is_none_or(|state| {
            !state.is_open_to(&demand.workspace_path) && demand.share(&state.uid).is_none()
        })
    };
    let unknown: BTreeSet<&str> = names.filter(is_unknown).map(String::as_str).collect();
    let list = unknown.into_iter().collect::<Vec<_>>().join(", ");
    (!list.is_empty())
        .then(|| format!("no cluster serves this workspace under the name {list}; see: atoll cluster list"))
}

fn plan(question: Question<'_>) -> SharePlan {
    let (demand, rules) = (question.demand, question.rules);
    if rules.division == Division::Nowhere {
        return SharePlan::above(format!("{} keeps it in the control plane", rules.by));
    }
    if let Some(plan) = fixed::continued(question) {
        return plan;
    }
    if demand.is_paused && !matches!(rules.division, Division::Pinned(_)) {
        return paused::follow(question);
    }
    if rules.terms.is_empty() || demand.is_paused {
        return attempt(question, None);
    }
    let mut best: Option<SharePlan> = None;
    for term in terms(question) {
        let plan = attempt(question, Some(term));
        if plan.unplaced == 0 && plan.reason.is_none() {
            return plan;
        }
        if best.as_ref().is_none_or(|best| plan.unplaced < best.unplaced) {
            best = Some(plan);
        }
    }
    best.unwrap_or_else(|| attempt(question, None))
}

/// The terms in the order in which they are tried. Without balancing, the term of the present clusters comes
/// first.
fn terms<'a>(question: Question<'a>) -> Vec<&'a ClusterFilter> {
    let Question { fleet, demand, rules, .. } = question;
    let mut terms: Vec<&ClusterFilter> = rules.terms.iter().collect();
    if !demand.may_rebalance && !demand.current.is_empty() {
        let holds = |term: &&ClusterFilter| {
            demand
                .current
                .iter()
                .all(|share| fleet.cluster(&share.uid).is_some_and(|state| term.selects(state)))
        };
        terms.sort_by_key(|term| !holds(term));
    }
    terms
}

fn attempt<'a>(question: Question<'a>, term: Option<&'a ClusterFilter>) -> SharePlan {
    match (question.demand.work, &question.rules.division) {
        (Work::Whole, _) | (_, Division::Single) => single::single(question, term),
        (Work::Copy | Work::EveryNode, Division::Pack) => single::single(question, term),
        (Work::Copy | Work::EveryNode, _) | (_, Division::Duplicate) => single::duplicate(question, term),
        (_, Division::Pinned(pins)) => fixed::pinned(question, pins),
        _ => {
            let mut plan = divide::divide(question, term);
            plan.is_divided = true;
            plan
        }
    }
}

impl PlacementDecision {
    /// Pods of the shares of this decision by uid of the cluster, for [`Fleet::reserve`].
    pub fn reservations(&self, fleet: &Fleet, demand: &Demand) -> Vec<(Arc<str>, i64)> {
        self.shares.iter().map(|share| (share.uid.clone(), share.pods(fleet, demand))).collect()
    }
}

impl DecidedShare {
    /// Pods that this share runs at once.
    pub fn pods(&self, fleet: &Fleet, demand: &Demand) -> i64 {
        match demand.work {
            Work::Completions { .. } | Work::Whole => self.parallelism.unwrap_or_else(|| demand.pods()),
            Work::Replicas | Work::Ordinals => self.replicas.unwrap_or(demand.replicas),
            Work::EveryNode => fleet.nodes(&self.uid, &demand.needs).unwrap_or(0),
            Work::Copy => 0,
        }
    }
}

#[cfg(test)]
mod tests;
