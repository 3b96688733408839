//! The ledger: what clusters report as free, less what placements have reserved.
//!
//! ```text
//!   report: free nodes, pods bound by uid ─┐
//!   shares: replicas × requests, by uid ───┴─► reserved = (share − bound) × requests ─► seats left on nodes
//! ```
//!
//! Nothing else is remembered, so that a restarted scheduler has the same account, and a late heartbeat only
//! means that more is reserved and less is bound.

mod node_room;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::CapacityReport;
use crate::demand::{Needs, ObjectKey};
use crate::resources::Resources;

use self::node_room::NodeRoom;

/// Stands for a number of replicas without limit, and leaves room for sums.
pub const UNLIMITED: i64 = i64::MAX / 4096;

/// The account of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Account {
    report: Option<Arc<CapacityReport>>,
    nodes: NodeRoom,
    /// By uid of the object.
    shares: BTreeMap<Arc<str>, Reservation>,
    /// Requests of all shares together, bound or not, to which limits apply.
    placed: Resources,
    room: i64,
    /// Whether reservations are to be assigned to nodes again.
    is_stale: bool,
}

#[derive(Clone, Debug)]
struct Reservation {
    workspace: Arc<str>,
    namespace: Arc<str>,
    needs: Arc<Needs>,
    replicas: i64,
    /// Pods that are not bound and for which room on a node is reserved.
    reserved: i64,
}

impl Account {
    /// Room in one number, see [`Resources::room`]; -1 before the first report.
    pub fn room(&self) -> i64 {
        if self.report.is_some() { self.room } else { -1 }
    }

    pub fn report(&self) -> Option<&CapacityReport> {
        self.report.as_deref()
    }

    pub fn set_report(&mut self, report: Arc<CapacityReport>) {
        // A Cluster changes for other reasons, too, and seating many pods takes long.
        if self.report.as_ref() == Some(&report) {
            return;
        }
        self.report = Some(report);
        self.reserve_all();
    }

    /// Sets the share of an object; `replicas` of 0 remove it.
    pub fn set_share(&mut self, object: &ObjectKey, needs: &Arc<Needs>, replicas: i64) {
        self.set_share_later(object, needs, replicas);
        self.settle();
    }

    /// Assigns all reservations to nodes again, if shares have changed since.
    pub fn settle(&mut self) {
        if self.is_stale {
            self.reserve_all();
        }
    }

    /// Like [`Account::set_share`], but the room is right only after [`Account::settle`]: assigning many
    /// reservations to nodes takes long.
    pub fn set_share_later(&mut self, object: &ObjectKey, needs: &Arc<Needs>, replicas: i64) {
        let bound = self.bound(&object.uid);
        let before = self.shares.get(&object.uid).map(|share| (share.replicas, share.needs.clone()));
        let unbound = |replicas: i64| (replicas - bound).max(0);
        let (waited, is_same) = match &before {
            Some((replicas, old)) => (unbound(*replicas), Arc::ptr_eq(old, needs) || **old == **needs),
            None => (0, true),
        };
        if let Some((replicas, old)) = &before {
            self.placed.add(&old.requests, -replicas);
        }
        if replicas == 0 {
            self.shares.remove(&object.uid);
        } else {
            self.placed.add(&needs.requests, replicas);
            let share = self.shares.entry(object.uid.clone()).or_insert_with(|| Reservation {
                workspace: object.workspace.clone(),
                namespace: object.namespace.clone(),
                needs: needs.clone(),
                replicas,
                reserved: 0,
            });
            share.replicas = replicas;
            share.needs = needs.clone();
        }
        // Additional pods find room beside the others. With fewer pods, the room that is left depends on the
        // order in which it was reserved, so that all pods are assigned again.
        let more = unbound(replicas) - waited;
        if self.is_stale || !(waited == 0 || (is_same && more >= 0)) {
            self.is_stale = true;
        } else {
            self.reserve_more(&object.uid, more);
        }
    }

    fn reserve_more(&mut self, uid: &str, pods: i64) {
        if let (Some(report), Some(share)) = (&self.report, self.shares.get_mut(uid))
            && pods > 0
        {
            share.reserved += self.nodes.reserve(report, &share.needs, pods);
            self.room = self.nodes.total().room();
        }
    }

    /// Assigns all pods that are not bound to nodes, large ones first, because small ones fit into the gaps.
    fn reserve_all(&mut self) {
        self.is_stale = false;
        let Some(report) = self.report.clone() else { return };
        self.nodes = NodeRoom::of(&report);
        let mut shares: Vec<_> = self.shares.iter_mut().collect();
        shares.sort_by_cached_key(|(uid, share)| (Reverse(share.needs.requests.size()), (*uid).clone()));
        for (uid, share) in shares {
            let bound = report.bound.get(uid).copied().unwrap_or(0);
            share.reserved = self.nodes.reserve(&report, &share.needs, (share.replicas - bound).max(0));
        }
        self.room = self.nodes.total().room();
    }

    fn bound(&self, uid: &str) -> i64 {
        self.report.as_ref().and_then(|report| report.bound.get(uid)).copied().unwrap_or(0)
    }

    /// Free resources less those that are reserved.
    pub fn free(&self) -> Option<Resources> {
        self.report.as_ref().map(|_| self.nodes.total().clone())
    }

    /// Number of nodes that pods with these needs may run on.
    pub fn nodes(&self, needs: &Needs) -> i64 {
        let shapes = self.report.iter().flat_map(|report| &report.nodes);
        shapes.filter(|shape| needs.node.allow(shape)).map(|shape| shape.count).sum()
    }

    /// Returns how many pods of an object the nodes and quotas take, those that they have included, counting
    /// no further than `enough`; `None` before the first report.
    pub fn takes(&self, object: &ObjectKey, needs: &Needs, enough: i64) -> Option<i64> {
        let report = self.report.as_ref()?;
        let bound = self.bound(&object.uid);
        let own = self.shares.get(&object.uid);
        let on_nodes = match own {
            Some(own) if *own.needs == *needs => {
                own.reserved + self.nodes.fits(report, needs, (enough - bound - own.reserved).max(0))
            }
            Some(own) if own.reserved > 0 => {
                let mut without = self.clone();
                without.set_share(object, &own.needs.clone(), 0);
                without.nodes.fits(report, needs, (enough - bound).max(0))
            }
            _ => self.nodes.fits(report, needs, (enough - bound).max(0)),
        };
        let (quota, _) = self.quota_takes(report, object, needs);
        let unbound = own.map_or(0, |own| (own.replicas - bound).max(0));
        // Pods of other objects may wait for the room that bound pods are about to leave, so that these cannot
        // stay.
        let in_total =
            bound.saturating_add(unbound).saturating_add(self.nodes.total().balance(&needs.requests));
        Some(bound.saturating_add(on_nodes.min(quota)).min(in_total).clamp(0, enough))
    }

    /// Returns how many pods of an object the resource quotas of its namespace allow, those that it has included, and
    /// the resource that limits them.
    pub fn quota_of(&self, object: &ObjectKey, needs: &Needs) -> (i64, Option<&str>) {
        let Some(report) = &self.report else { return (UNLIMITED, None) };
        let (more, resource) = self.quota_takes(report, object, needs);
        (more.saturating_add(self.bound(&object.uid)), resource)
    }

    /// Returns how many more pods the resource quotas of the namespace allow, and the resource that limits them.
    fn quota_takes<'r>(
        &self,
        report: &'r CapacityReport,
        object: &ObjectKey,
        needs: &Needs,
    ) -> (i64, Option<&'r str>) {
        if report.quotas.is_empty() {
            return (UNLIMITED, None);
        }
        let key = (object.workspace.clone(), object.namespace.clone());
        let Some(left) = report.quotas.get(&key) else { return (UNLIMITED, None) };
        let mut reserved = Resources::default();
        for (uid, share) in &self.shares {
            if *uid != object.uid && (&share.workspace, &share.namespace) == (&key.0, &key.1) {
                reserved.add(&share.needs.requests, (share.replicas - self.bound(uid)).max(0));
            }
        }
        slots_within(left, &reserved, &needs.requests)
    }

    /// Returns how many pods of an object `spec.limits` of the cluster allow, and the resource that limits
    /// them.
    pub fn limits_take<'a>(
        &self,
        limits: &'a BTreeMap<String, i64>,
        object: &ObjectKey,
        needs: &Needs,
    ) -> (i64, Option<&'a str>) {
        if limits.is_empty() {
            return (UNLIMITED, None);
        }
        let mut others = self.placed.clone();
        if let Some(own) = self.shares.get(&object.uid) {
            others.add(&own.needs.requests, -own.replicas);
        }
        let of = |name: &str, limit: i64| match needs.requests.amount(name) {
            asked if asked > 0 => (limit - others.amount(name)).max(0) / asked,
            _ => UNLIMITED,
        };
        let tightest = limits.iter().map(|(name, limit)| (of(name, *limit), name)).min();
        match tightest {
            Some((slots, name)) if slots < UNLIMITED => (slots, Some(name)),
            _ => (UNLIMITED, None),
        }
    }

    /// Names of the resources of which too little is free for one more pod than fit; none if the nodes have
    /// enough together, but no single one does.
    pub fn missing<'a>(&self, needs: &'a Needs) -> Vec<&'a str> {
        let (Some(report), Some(mut free)) = (&self.report, self.free()) else { return Vec::new() };
        let fits = self.nodes.fits(report, needs, UNLIMITED);
        free.add(&needs.requests, -fits);
        free.missing(&needs.requests)
    }
}

/// Returns how many requests fit into amounts by resource, of which some are reserved, and the resource that limits
/// them.
fn slots_within<'l>(
    left: &'l BTreeMap<String, i64>,
    reserved: &Resources,
    request: &Resources,
) -> (i64, Option<&'l str>) {
    let of = |name: &str, left: i64| match request.amount(name) {
        asked if asked > 0 => left.saturating_sub(reserved.amount(name)).max(0) / asked,
        _ => UNLIMITED,
    };
    match left.iter().map(|(name, left)| (of(name, *left), name)).min() {
        Some((slots, name)) if slots < UNLIMITED => (slots, Some(name)),
        _ => (UNLIMITED, None),
    }
}

#[cfg(test)]
mod tests;
