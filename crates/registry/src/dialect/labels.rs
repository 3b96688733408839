//! Placement by kcp's cluster labels.
//!
//! ```text
//!   every write ─► LabelPlacements: objects with such a label, or placed by one ─► run ─► decide ─► …/placement
//!   a Cluster or a dialect ConfigMap changes ─► all of them again
//! ```
//!
//! A label applies only where no other placement exists: placements by hand, by a policy or as a dependent
//! stay.

mod refusal;
mod terms;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::labels::cluster_labels;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_fleet::pause::CAUSE;
use atoll_fleet::placement::{self, Share};
use atoll_meta::{FieldError, FieldPath, Status, names, object};
use atoll_store::{Key, Revision, key};
use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::Value;
use tokio::sync::Notify;

pub use atoll_fleet::labels::{CLUSTER, STATES};

use self::terms::Terms;
use super::{MARKER, kcp};
use crate::Registry;
use crate::catalog::ATOLL;
use crate::placement::unplaceable_reason;
use crate::row::{ObjectRef, Row};

/// The value of `by` in placements by label.
pub const BY: &str = "label";
/// Part of the stored placement annotation: JSON inside a JSON string.
const PLACED: &str = r#"\"by\":\"label\""#;
/// Delay before a failed write is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Objects with such a label or placed by one, updated with every write.
pub struct LabelPlacements {
    state: Mutex<LabelState>,
    woken: Notify,
    finders: [Finder<'static>; 4],
}

#[derive(Default)]
struct LabelState {
    known: HashSet<Key>,
    /// Objects to reconcile.
    pending: HashSet<Key>,
    /// The revision from which all pending changes are visible.
    revision: Revision,
    clusters: HashMap<Key, Terms>,
}

impl Default for LabelPlacements {
    fn default() -> Self {
        let finders = [CLUSTER, STATES[0], STATES[1], PLACED].map(Finder::new);
        LabelPlacements { state: Mutex::default(), woken: Notify::new(), finders }
    }
}

impl LabelPlacements {
    /// Handles a write.
    pub(crate) fn changed(
        &self,
        key: &Key,
        parts: &key::Parts<'_>,
        value: Option<&Bytes>,
        revision: Revision,
    ) {
        let is_cluster = (parts.group, parts.resource) == (ATOLL, "clusters");
        let is_marker = (parts.group, parts.resource, parts.namespace, parts.name)
            == (key::CORE, "configmaps", SYSTEM_NAMESPACE, MARKER);
        let is_labelled =
            value.is_some_and(|value| self.finders.iter().any(|finder| finder.find(value).is_some()));
        let mut state = self.state();
        let mut all = is_marker;
        if is_cluster {
            let now = value.map(Terms::of);
            let before = match &now {
                Some(now) => state.clusters.insert(key.clone(), now.clone()),
                None => state.clusters.remove(key),
            };
            all |= now != before;
        }
        let was_known = if is_labelled { !state.known.insert(key.clone()) } else { state.known.remove(key) };
        if all {
            let known: Vec<Key> = state.known.iter().cloned().collect();
            state.pending.extend(known);
        } else if is_labelled || was_known {
            state.pending.insert(key.clone());
        } else {
            return;
        }
        state.revision = state.revision.max(revision);
        drop(state);
        self.woken.notify_one();
    }

    fn take(&self) -> (Vec<Key>, Revision) {
        let mut state = self.state();
        (state.pending.drain().collect(), state.revision)
    }

    fn requeue(&self, keys: Vec<Key>) {
        self.state().pending.extend(keys);
        self.woken.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, LabelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Places labelled objects, until the future is dropped.
pub async fn run(registry: Arc<Registry>) {
    let label_placements = &registry.placements.label_placements;
    loop {
        let (mut keys, revision) = label_placements.take();
        if keys.is_empty() {
            label_placements.woken.notified().await;
            continue;
        }
        registry.cache.wait_for(revision).await;
        keys.sort_unstable();
        let mut left = Vec::new();
        for key in keys {
            match registry.apply_label(&key).await {
                // Placement changes are paused.
                Err(status) if status.has_cause(CAUSE) => left.push(key),
                // The label cannot be satisfied. It is retried when the object or a Cluster has changed.
                Err(status) if status.code() == 422 => {
                    if let Err(error) = refusal::write_event(&registry, &key, &status).await {
                        tracing::warn!(%error, %status, object = %key, "the cluster label of an object is refused, and the event about it cannot be written");
                    }
                }
                // The object was deleted or changed; a change is handled separately.
                Err(status) if !matches!(status.code(), 404 | 409) => {
                    tracing::warn!(%status, object = %key, "cannot place an object by its cluster label; retrying");
                    left.push(key);
                }
                _ => {}
            }
        }
        if !left.is_empty() {
            tokio::time::sleep(RETRY_DELAY).await;
            label_placements.requeue(left);
        }
    }
}

impl Registry {
    /// Updates the placement of one object from its label, if the label applies.
    async fn apply_label(&self, key: &Key) -> Result<(), Status> {
        let Some(parts) = key.parts() else { return Ok(()) };
        if !self.dialect_enabled(parts.workspace, kcp::NAME) {
            return Ok(());
        }
        let Some((row, found)) = self.placeable_object(key)? else { return Ok(()) };
        if unplaceable_reason(&row.group, parts.resource, &found).is_some() {
            return Ok(());
        }
        let refused: Mutex<BTreeMap<String, String>> = Mutex::default();
        let takes = |object: &Value, name: &str| match self.admits(&row, parts.workspace, object, name)? {
            Ok(uid) => Some(uid),
            Err(refusal) => {
                let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.insert(name.to_string(), refusal);
                None
            }
        };
        if decide(&found, &Placement::of(&found), &takes).is_some() {
            let object_ref =
                ObjectRef { workspace: parts.workspace, namespace: parts.namespace, name: parts.name };
            let change = |existing: &Value, current: &Placement| {
                let decided = decide(existing, current, &takes).unwrap_or_else(|| current.clone());
                check_duplicates(&row, &object_ref, current, &decided)?;
                self.unless_paused(&row, &object_ref, current, decided)
            };
            self.place(&row, &object_ref, Some(object::uid(&found)), false, &change).await?;
        }
        // Report each refusal, even though the other labels were applied.
        let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let labels = FieldPath::new("metadata").child("labels");
        let error = |(label, name): (&str, &str)| {
            Some(FieldError::forbidden(&labels.key(label), refused.get(name)?.as_str()))
        };
        let errors: Vec<FieldError> = cluster_labels(&found).into_iter().filter_map(error).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid(&row.group, &row.kind, parts.name, errors)),
        }
    }
}

/// Refuses more than one cluster for an object that must run once; labels cannot allow duplicates.
fn check_duplicates(
    row: &Row,
    object_ref: &ObjectRef<'_>,
    current: &Placement,
    decided: &Placement,
) -> Result<(), Status> {
    let object = (row.group.as_str(), row.resource.as_str(), object_ref.namespace, object_ref.name);
    let reason = placement::duplicates(object, current, &decided.clusters, decided.duplicate);
    reason.map_or(Ok(()), |reason| {
        let error = FieldError::forbidden(&FieldPath::new("metadata").child("labels"), reason);
        Err(Status::invalid(&row.group, &row.kind, object_ref.name, vec![error]))
    })
}

/// The clusters in the labels of an object.
fn named_clusters(object: &Value) -> BTreeSet<&str> {
    cluster_labels(object).into_iter().map(|(_, name)| name).filter(|name| is_name(name)).collect()
}

fn is_name(name: &str) -> bool {
    names::name_is_dns_label(name, false).is_empty()
}

/// The placement by label, if it differs from the current one and the label applies. An object that is
/// already on a cluster stays there, whether or not the cluster accepts new objects.
fn decide(
    object: &Value,
    current: &Placement,
    takes: &dyn Fn(&Value, &str) -> Option<String>,
) -> Option<Placement> {
    let is_others = !current.clusters.is_empty() && current.by != BY;
    if is_others || object::is_being_deleted(object) {
        return None;
    }
    let named = named_clusters(object);
    let wanted: Vec<Share> = named
        .into_iter()
        .filter_map(|name| match current.share(name) {
            Some(share) => Some(Share { replicas: None, ..share.clone() }),
            None => Some(Share { name: name.to_string(), uid: takes(object, name)?, replicas: None }),
        })
        .collect();
    let same = current.clusters.len() == wanted.len()
        && wanted.iter().all(|share| current.share(&share.name).is_some());
    (!same).then(|| current.decided(wanted, BY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_fleet::placement::Leaving;
    use serde_json::json;

    fn on(names: &[&str], leaving: &[&str], by: &str) -> Placement {
        Placement {
            clusters: names.iter().map(|name| Share { name: name.to_string(), ..Share::default() }).collect(),
            leaving: leaving
                .iter()
                .map(|name| Leaving { name: name.to_string(), ..Leaving::default() })
                .collect(),
            by: by.into(),
            duplicate: false,
        }
    }

    #[test]
    fn a_label_applies_only_without_another_placement() {
        let takes = |_: &Value, name: &str| (name != "closed" && name != "absent").then(String::new);
        let (nowhere, east) = (on(&[], &[], ""), on(&["east"], &[], "label"));
        for (labels, current, expected) in [
            (json!({}), nowhere.clone(), None),
            (json!({ CLUSTER: "east" }), nowhere.clone(), Some(east.clone())),
            (json!({ CLUSTER: "east" }), east.clone(), None),
            (json!({ CLUSTER: "west" }), east.clone(), Some(on(&["west"], &["east"], "label"))),
            (json!({}), east.clone(), Some(on(&[], &["east"], ""))),
            (json!({ CLUSTER: "" }), east.clone(), Some(on(&[], &["east"], ""))),
            // Invalid names are ignored.
            (json!({ CLUSTER: "No Name" }), nowhere.clone(), None),
            (json!({ CLUSTER: "absent" }), nowhere.clone(), None),
            (json!({ CLUSTER: "absent" }), east.clone(), Some(on(&[], &["east"], ""))),
            // A closed cluster gets no new objects and keeps those that it has.
            (json!({ CLUSTER: "closed" }), nowhere.clone(), None),
            (json!({ CLUSTER: "closed" }), on(&["closed"], &[], "label"), None),
            (json!({ CLUSTER: "west" }), on(&[], &["east"], ""), Some(on(&["west"], &["east"], "label"))),
            // Placements of other origin are kept.
            (json!({ CLUSTER: "west" }), on(&["east"], &[], "hand"), None),
            (json!({ CLUSTER: "west" }), on(&["east"], &[], "policy"), None),
            (json!({ CLUSTER: "west" }), on(&["east"], &[], "reference"), None),
            (json!({}), on(&["east"], &[], "hand"), None),
            // The label format of later kcp versions.
            (json!({ "state.workload.kcp.io/east": "Sync" }), nowhere.clone(), Some(east.clone())),
            (json!({ "state.workload.kcp.io/east": "" }), nowhere.clone(), None),
            (
                json!({ "state.workload.kcp.io/east": "Sync", "state.workload.kcp.dev/west": "Sync" }),
                nowhere.clone(),
                Some(on(&["east", "west"], &[], "label")),
            ),
        ] {
            let object = json!({ "metadata": { "labels": labels } });
            assert_eq!(decide(&object, &current, &takes), expected, "{labels} {current:?}");
        }
        let going = json!({ "metadata": { "labels": { CLUSTER: "west" }, "deletionTimestamp": "now" } });
        assert_eq!(decide(&going, &east, &takes), None);
    }

    #[test]
    fn labelled_objects_are_reconciled() {
        let label_placements = LabelPlacements::default();
        let note = |key: &Key, value: Option<Value>| {
            let value = value.map(|value| Bytes::from(value.to_string()));
            label_placements.changed(key, &key.parts().unwrap(), value.as_ref(), 1);
        };
        let (a, b) =
            (Key::object("", "configmaps", "w", "n", "a"), Key::object("", "configmaps", "w", "n", "b"));
        let only_a = [a.clone()];
        note(&b, Some(json!({ "metadata": { "labels": { "app": "x" } } })));
        assert_eq!(label_placements.take().0, []);
        note(&a, Some(json!({ "metadata": { "labels": { CLUSTER: "east" } } })));
        assert_eq!(label_placements.take().0, only_a);
        // The label was removed, but its placement exists; so does the state after a restart.
        let placed = on(&["east"], &[], BY).text().unwrap();
        note(&a, Some(json!({ "metadata": { "annotations": { "atoll.dev/placement": placed } } })));
        assert_eq!(label_placements.take().0, only_a);
        let east = Key::object(ATOLL, "clusters", "w", "", "east");
        note(&east, Some(json!({ "metadata": {}, "spec": {} })));
        assert_eq!(label_placements.take().0, only_a, "a cluster was added");
        note(&east, Some(json!({ "metadata": {}, "spec": {}, "status": { "nodes": 3 } })));
        assert_eq!(label_placements.take().0, [], "nothing relevant changed");
        note(&east, Some(json!({ "metadata": {}, "spec": { "unschedulable": true } })));
        assert_eq!(label_placements.take().0, only_a);
        note(&east, Some(json!({ "metadata": {}, "spec": {} })));
        assert_eq!(label_placements.take().0, only_a);
        note(&east, Some(json!({ "metadata": {}, "spec": { "workspaces": ["team"] } })));
        assert_eq!(label_placements.take().0, only_a, "its workspaces changed");
        note(&super::super::marker("v"), Some(json!({ "data": { "kcp": "" } })));
        assert_eq!(label_placements.take().0, only_a);
        note(&a, Some(json!({ "metadata": {} })));
        assert_eq!(label_placements.take().0, only_a);
        note(&a, Some(json!({ "metadata": {} })));
        assert_eq!(label_placements.take().0, []);
    }
}
