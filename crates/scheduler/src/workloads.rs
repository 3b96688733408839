//! The objects that the scheduler places: those that no other component places.

use atoll_fleet::placement::{self, Needed, Share};
use atoll_fleet::scheduled::is_placed_alone;
use atoll_fleet::{Placement, placed_by, placed_condition};
use atoll_informer::{Key, Resource, resources};
use atoll_meta::object;
use atoll_meta::views::condition;
use serde_json::Value;

/// The kinds that run nowhere until they are placed. The position of a kind is part of queue keys.
pub fn kinds() -> [&'static Resource; 7] {
    [
        &resources::CRON_JOBS,
        &resources::DAEMON_SETS,
        &resources::DEPLOYMENTS,
        &resources::JOBS,
        &resources::REPLICA_SETS,
        &resources::REPLICATION_CONTROLLERS,
        &resources::STATEFUL_SETS,
    ]
}

/// The position of a kind, by group and resource.
pub fn position(group: &str, resource: &str) -> Option<usize> {
    kinds().iter().position(|kind| (&*kind.group, &*kind.plural) == (group, resource))
}

/// The queue key of an object: the position of its kind is before the namespace.
pub fn queue_key(kind: usize, at: &Key) -> Key {
    Key::new(&at.workspace, &format!("{kind}/{}", at.namespace), &at.name)
}

/// Whether the object with this queue key is a workload.
pub fn is_workload_key(key: &Key) -> bool {
    target(key).is_some_and(|(kind, _)| kind < kinds().len())
}

/// The number of the kind and the key of an object in the queue.
pub fn target(key: &Key) -> Option<(usize, Key)> {
    let (kind, namespace) = key.namespace.split_once('/')?;
    let kind = kind.parse::<usize>().ok()?;
    Some((kind, Key::new(&key.workspace, namespace, &key.name)))
}

/// Whether the scheduler places an object now. It does not place objects that are being deleted, have finished,
/// or were placed by other means. A dependent is placed where it is needed and where its user places it.
pub fn is_placed_here(resource: &Resource, object: &Value, placement: &Placement) -> bool {
    let is_dependent = !is_workload(resource) && placement.by == placed_by::REFERENCE;
    // A dialect's controller places objects of other kinds by their labels.
    let is_scheduled =
        placed_by::is_scheduled(&placement.by) || (is_workload(resource) && placement.by == placed_by::LABEL);
    let is_others = !placement.clusters.is_empty() && !is_scheduled && !is_dependent;
    !is_others && is_own(object)
}

/// Whether the scheduler is responsible for an object, whatever its placement.
pub fn is_own(object: &Value) -> bool {
    is_placed_alone(object) && !object::is_being_deleted(object) && !has_finished(object)
}

/// Whether a kind is placed without any intent, because it runs nowhere otherwise.
pub fn is_workload(resource: &Resource) -> bool {
    placed_condition::is_workload((&resource.group, &resource.plural))
}

/// The decided shares of a placement, or those to be decided: without shares that are there only because other
/// objects need the object.
pub fn decided_shares(placement: &Placement) -> Vec<Share> {
    let is_decided =
        |share: &&Share| placement.by != placed_by::REFERENCE && share.needed != Some(Needed::Only);
    placement.clusters.iter().filter(is_decided).cloned().collect()
}

/// The shares to write if these are decided: clusters where other objects need the object stay.
pub fn with_decided(placement: &Placement, decided: Vec<Share>) -> Vec<Share> {
    let mut current = placement.clusters.clone();
    if placement.by == placed_by::REFERENCE {
        current.iter_mut().for_each(|share| share.needed = Some(Needed::Only));
    }
    placement::with_decided(&current, decided)
}

/// Whether a Job has finished.
pub fn has_finished(object: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|kind| condition(object, kind).is_some_and(|found| found.is_true()))
}
