//! The objects that the scheduler places: workloads that no other component places.

use atoll_fleet::scheduled::is_left_to_scheduler;
use atoll_fleet::{Placement, placed_by};
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

/// The position of the kind and the key of an object in the queue.
pub fn target(key: &Key) -> Option<(usize, Key)> {
    let (kind, namespace) = key.namespace.split_once('/')?;
    let kind = kind.parse::<usize>().ok().filter(|kind| *kind < kinds().len())?;
    Some((kind, Key::new(&key.workspace, namespace, &key.name)))
}

/// Whether the scheduler places an object now. It leaves alone what is being deleted, has finished, or was
/// placed by other means.
pub fn is_placed_here(resource: &Resource, object: &Value, placement: &Placement) -> bool {
    let is_others = !placement.clusters.is_empty() && !placed_by::is_scheduled(&placement.by);
    !is_others && is_own(resource, object)
}

/// Whether the scheduler is responsible for an object, whatever its placement.
pub fn is_own(resource: &Resource, object: &Value) -> bool {
    is_left_to_scheduler((&resource.group, &resource.plural), object)
        && !object::is_being_deleted(object)
        && !has_finished(object)
}

/// Whether a Job has ended.
pub fn has_finished(object: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|kind| condition(object, kind).is_some_and(|found| found.is_true()))
}
