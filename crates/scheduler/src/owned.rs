//! Objects that are placed with their owners and have no other reason to be placed.

use std::time::Duration;

use atoll_fleet::owners::owner_shares;
use atoll_fleet::placed_by::REFERENCE;
use atoll_fleet::placement::{Share, are_same};
use atoll_fleet::scheduled::goes_with_owner;
use atoll_fleet::{Placement, placed_by};
use atoll_informer::{Change, Key};
use atoll_meta::object;
use atoll_placement::cluster::resource_name;

use crate::round::{DecidedStep, Round};
use crate::scopes::{AT_ONCE_BY_LISTENERS, ChangeScope};
use crate::writer::{PlacementTarget, Wanted};
use crate::{Scheduler, workloads};

/// Delay before an object is decided about again whose owners are not known yet.
const UNKNOWN_DELAY: Duration = Duration::from_secs(1);

impl Scheduler {
    /// Adds the objects that an object owns whose clusters have changed.
    pub fn enqueue_owned(&self, change: &Change) {
        let uid = object::uid(change.object());
        let others = self.kinds.others_in(&change.key.workspace);
        if others.iter().map(|(_, cache)| cache.count_owned(uid)).sum::<usize>() > AT_ONCE_BY_LISTENERS {
            let owned = ChangeScope::Owned(uid.to_string());
            return self.scope_changed(&change.key.workspace, &change.key.namespace, &owned);
        }
        for (kind, cache) in others {
            for owned in cache.owned_by(&change.key, uid) {
                self.queue.add(workloads::queue_key(kind, &Key::of(&owned)));
            }
        }
    }
}

impl Round<'_> {
    /// The clusters of the owners of an object that serve its kind. `None` if it is not placed with owners, or they
    /// are not known yet.
    pub fn owned_shares(&self, target: &PlacementTarget) -> Option<Vec<Share>> {
        let (resource, at, kinds) = (&target.resource, &target.at, &self.scheduler.kinds);
        if !is_owned_kind(target) || !kinds.knows_owners(at, &target.object) {
            return None;
        }
        let name = resource_name(&resource.group, &resource.plural);
        let is_served = |share: &Share| {
            let apis = self.ledger.fleet.cluster(&share.uid).and_then(|cluster| cluster.apis.as_ref());
            apis.is_none_or(|apis| apis.contains(&name))
        };
        let mut shares = owner_shares(&target.object, &|owner| kinds.owner(at, owner));
        shares.retain(is_served);
        Some(shares)
    }

    /// Places an object without clusters of its own on those of its owners.
    pub fn place_with_owners(
        &mut self,
        key: &Key,
        target: &PlacementTarget,
        placement: &Placement,
    ) -> Option<DecidedStep> {
        let is_along = placement.by == REFERENCE && !placement.clusters.is_empty();
        let Some(shares) = self.owned_shares(target) else {
            if !is_owned_kind(target) {
                return None;
            }
            self.wake_after(key, UNKNOWN_DELAY);
            // No cluster is removed before the owners are known.
            let may_go_along = is_along || placed_by::is_scheduled(&placement.by);
            return may_go_along.then_some(DecidedStep::Settled);
        };
        if shares.is_empty() && !is_along {
            return None;
        }
        self.scheduler.pending.remove(key);
        self.scheduler.counts.remove(key);
        self.ledger.remove_object(key);
        if is_along && are_same(&placement.clusters, &shares) {
            return Some(DecidedStep::Settled);
        }
        let wanted = Wanted { shares, by: REFERENCE.to_string(), ..Wanted::default() };
        let (resource, at, object) = (target.resource.clone(), target.at.clone(), target.object.clone());
        Some(DecidedStep::Place(PlacementTarget { resource, at, object }, wanted, None))
    }
}

fn is_owned_kind(target: &PlacementTarget) -> bool {
    target.resource.namespaced && goes_with_owner((&target.resource.group, &target.resource.plural))
}
