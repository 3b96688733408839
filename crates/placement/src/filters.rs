//! Filters: which clusters take a share of a demand, and why others do not.
//!
//! ```text
//!   state ─► access ─► apis ─► policy ─► taints ─► room
//! ```
//!
//! Each filter looks at one cluster and returns a cause. Whether a cause only keeps new replicas away, or
//! ends a share too, is a property of the cause.

pub mod access;
mod cause;
pub mod policy;
mod state;

use crate::demand::Demand;
use crate::fleet::{ClusterEntry, Fleet};
use crate::ledger::UNLIMITED;
use crate::rules::Rules;

pub use self::cause::Cause;

/// The question that filters and scores answer.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub fleet: &'a Fleet,
    pub demand: &'a Demand,
    pub rules: &'a Rules,
    /// The resource of the object, as [`crate::cluster::resource_name`] writes it.
    pub resource: &'a str,
}

/// A filter returns why a cluster takes nothing.
type Filter = for<'a> fn(Question<'a>, &'a ClusterEntry) -> Option<Cause<'a>>;

const FILTERS: [Filter; 9] = [
    state::lifecycle,
    state::readiness,
    access::workspaces,
    access::scope,
    access::apis,
    access::classes,
    policy::clusters,
    policy::other_workloads,
    state::taints,
];

/// Whether a cluster takes replicas.
#[derive(Clone, Debug)]
pub enum Admission<'a> {
    /// The cluster takes as many replicas as it has room for.
    Open,
    /// The cluster keeps its replicas and takes no new ones.
    Keeps(Cause<'a>),
    /// The cluster takes no replicas, and its present ones must leave.
    Closed(Cause<'a>),
}

impl<'a> Question<'a> {
    /// Whether a cluster is registered in a workspace above that of the object, so that other workspaces use it, too.
    pub fn is_shared(self, entry: &ClusterEntry) -> bool {
        entry.state.workspace != self.demand.workspace_path
    }

    /// Returns whether a cluster takes replicas, regardless of its room.
    pub fn admission(self, entry: &'a ClusterEntry) -> Admission<'a> {
        let has_share = self.demand.share(&entry.state.uid).is_some();
        let mut kept = None;
        if let Some(why) = self.demand.eviction(&entry.state.uid) {
            // A pause of the cluster takes precedence over a reason to leave it.
            return match has_share && entry.state.is_paused {
                true => Admission::Keeps(Cause::Paused),
                false => Admission::Closed(Cause::Evicted(why)),
            };
        }
        for filter in FILTERS {
            match filter(self, entry) {
                Some(cause) if !has_share || (cause.ends_shares() && !entry.state.is_paused) => {
                    return Admission::Closed(cause);
                }
                Some(cause) => kept = kept.or(Some(cause)),
                None => {}
            }
        }
        kept.map_or(Admission::Open, Admission::Keeps)
    }

    /// Returns how many replicas a cluster may have by its room and limits, those that it has included,
    /// counting no further than `enough`. Replicas that are there stay unless they cannot be scheduled.
    pub fn room(self, entry: &ClusterEntry, enough: i64) -> i64 {
        let Question { demand, rules, .. } = self;
        let now = demand.share(&entry.state.uid).map_or(0, |share| {
            let pods = demand.pods_of(share);
            pods.saturating_sub(share.unschedulable).max(0)
        });
        let takes = entry.account.takes(&demand.object, &demand.needs, enough);
        let is_trusted = rules.names_clusters && !self.is_shared(entry);
        let takes = takes.unwrap_or(if is_trusted { UNLIMITED } else { 0 });
        let (within_limits, _) = self.limits(entry);
        takes.max(now).min(within_limits).min(rules.max_replicas.unwrap_or(UNLIMITED)).min(enough)
    }

    /// Returns how many pods the limits of a cluster allow, and the resource that limits them.
    pub fn limits(self, entry: &ClusterEntry) -> (i64, Option<&str>) {
        entry.account.limits_take(&entry.state.limits, &self.demand.object, &self.demand.needs)
    }

    /// Returns why a cluster takes no more, if no filter refuses it.
    pub fn why_full(self, entry: &'a ClusterEntry) -> Cause<'a> {
        let Question { demand, rules, .. } = self;
        let Some(report) = entry.account.report() else {
            return if self.is_shared(entry) { Cause::RoomNotReported } else { Cause::NotReported };
        };
        if let (within, Some(resource)) = self.limits_of(entry)
            && within < demand.replicas
        {
            return Cause::Limit { resource, within };
        }
        if rules.max_replicas.is_some_and(|most| self.room(entry, UNLIMITED) >= most) {
            return Cause::MostReplicas(rules.max_replicas.unwrap_or_default());
        }
        let needs = &demand.needs;
        let allowed = |shape: &&crate::node::NodeShape| needs.node.allow(shape);
        let selected = |shape: &&crate::node::NodeShape| needs.node.select(shape);
        if report.nodes.is_empty() {
            return Cause::NoNodes;
        }
        if !report.nodes.iter().any(|shape| selected(&shape)) {
            return Cause::NoNodeSelected;
        }
        if !report.nodes.iter().any(|shape| allowed(&shape)) {
            return Cause::NoNodeTolerated;
        }
        if let (within, Some(resource)) = entry.account.quota_of(&demand.object, needs)
            && entry.account.takes(&demand.object, needs, UNLIMITED).is_none_or(|takes| within <= takes)
        {
            return Cause::Quota { resource, within };
        }
        Cause::NoRoom {
            fits: self.room(entry, UNLIMITED),
            missing: entry.account.missing(needs),
            is_cut: report.is_cut,
        }
    }

    fn limits_of(self, entry: &'a ClusterEntry) -> (i64, Option<&'a str>) {
        entry.account.limits_take(&entry.state.limits, &self.demand.object, &self.demand.needs)
    }
}
