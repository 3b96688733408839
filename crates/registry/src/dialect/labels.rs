//! Labels of kcp that say on which cluster an object shall be, and the placements that follow from them.
//!
//! ```text
//!   every write ─► Labelled: what carries such a label, or was placed by one ─► run ─► decide ─► …/placement
//!   a Cluster comes, goes, is closed or opened; a dialect is spoken or not ─► all of them once more
//! ```
//!
//! A label counts where nobody else has decided: what was placed by hand, by a policy or because something else needs it stays.

mod refusal;
mod terms;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::brake::CAUSE;
use atoll_fleet::labels::naming;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
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
use crate::placement::is_kept;
use crate::row::{Place, Row};

/// Who decided.
pub const BY: &str = "label";
/// As a placement by a label is stored: JSON in a text of JSON.
const PLACED: &str = r#"\"by\":\"label\""#;
/// How soon something is tried again that could not be written.
const AGAIN: Duration = Duration::from_secs(1);

/// What carries such a label or was placed by one, kept up to date with every write.
pub struct Labelled {
    state: Mutex<State>,
    woken: Notify,
    sought: [Finder<'static>; 4],
}

#[derive(Default)]
struct State {
    known: HashSet<Key>,
    /// What is to be looked at.
    pending: HashSet<Key>,
    /// From here on all of that is to be seen.
    revision: Revision,
    clusters: HashMap<Key, Terms>,
}

impl Default for Labelled {
    fn default() -> Self {
        let sought = [CLUSTER, STATES[0], STATES[1], PLACED].map(Finder::new);
        Labelled { state: Mutex::default(), woken: Notify::new(), sought }
    }
}

impl Labelled {
    /// Takes notice of a write.
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
        let is_ours =
            value.is_some_and(|value| self.sought.iter().any(|sought| sought.find(value).is_some()));
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
        let was_known = if is_ours { !state.known.insert(key.clone()) } else { state.known.remove(key) };
        if all {
            let known: Vec<Key> = state.known.iter().cloned().collect();
            state.pending.extend(known);
        } else if is_ours || was_known {
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

    fn again(&self, keys: Vec<Key>) {
        self.state().pending.extend(keys);
        self.woken.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Places what says by a label where it shall be, for as long as it is polled.
pub async fn run(registry: Arc<Registry>) {
    let labelled = &registry.placements.labelled;
    loop {
        let (mut keys, revision) = labelled.take();
        if keys.is_empty() {
            labelled.woken.notified().await;
            continue;
        }
        registry.cache.wait_for(revision).await;
        keys.sort_unstable();
        let mut left = Vec::new();
        for key in keys {
            match registry.follow_label(&key).await {
                // Somebody has paused that.
                Err(status) if status.has_cause(CAUSE) => left.push(key),
                // What it asks for cannot be. It is looked at again when it, or a Cluster, has changed.
                Err(status) if status.code() == 422 => {
                    if let Err(error) = refusal::tell(&registry, &key, &status).await {
                        tracing::warn!(%error, %status, object = %key, "a label is not followed, and no event says so");
                    }
                }
                // It is gone or no longer what it was; then it has changed, and is looked at for that.
                Err(status) if !matches!(status.code(), 404 | 409) => {
                    tracing::warn!(%status, object = %key, "a label cannot be followed");
                    left.push(key);
                }
                _ => {}
            }
        }
        if !left.is_empty() {
            tokio::time::sleep(AGAIN).await;
            labelled.again(left);
        }
    }
}

impl Registry {
    /// Brings the placement of one object in line with its label, if that is to decide.
    async fn follow_label(&self, key: &Key) -> Result<(), Status> {
        let Some(parts) = key.parts() else { return Ok(()) };
        if !self.speaks(parts.workspace, kcp::NAME) {
            return Ok(());
        }
        let Some((row, found)) = self.placeable(key)? else { return Ok(()) };
        if is_kept(&row.group, parts.resource, &found).is_some() {
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
            let place = Place { workspace: parts.workspace, namespace: parts.namespace, name: parts.name };
            let change = |existing: &Value, current: &Placement| {
                let decided = decide(existing, current, &takes).unwrap_or_else(|| current.clone());
                check_duplicates(&row, &place, current, &decided)?;
                self.unless_paused(&row, &place, current, decided)
            };
            self.place(&row, &place, Some(object::uid(&found)), false, &change).await?;
        }
        // Whatever other labels say was done, each refusal is told.
        let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let labels = FieldPath::new("metadata").child("labels");
        let error = |(label, name): (&str, &str)| {
            Some(FieldError::forbidden(&labels.key(label), refused.get(name)?.as_str()))
        };
        let errors: Vec<FieldError> = naming(&found).into_iter().filter_map(error).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid(&row.group, &row.kind, parts.name, errors)),
        }
    }
}

/// Labels cannot say that what runs once may run in several clusters.
fn check_duplicates(
    row: &Row,
    place: &Place<'_>,
    current: &Placement,
    decided: &Placement,
) -> Result<(), Status> {
    let object = (row.group.as_str(), row.resource.as_str(), place.namespace, place.name);
    let reason = placement::duplicates(object, current, &decided.clusters, decided.duplicate);
    reason.map_or(Ok(()), |reason| {
        let error = FieldError::forbidden(&FieldPath::new("metadata").child("labels"), reason);
        Err(Status::invalid(&row.group, &row.kind, place.name, vec![error]))
    })
}

/// The clusters that an object names by labels.
fn named(object: &Value) -> BTreeSet<&str> {
    naming(object).into_iter().map(|(_, name)| name).filter(|name| is_name(name)).collect()
}

fn is_name(name: &str) -> bool {
    names::name_is_dns_label(name, false).is_empty()
}

/// The placement that a label asks for, if that is not the one that is there and the label is to decide. Who is on a cluster
/// already stays there, whether or not it takes anything new.
fn decide(
    object: &Value,
    current: &Placement,
    takes: &dyn Fn(&Value, &str) -> Option<String>,
) -> Option<Placement> {
    let is_others = !current.clusters.is_empty() && current.by != BY;
    if is_others || object::is_being_deleted(object) {
        return None;
    }
    let named = named(object);
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
    fn a_label_decides_where_nobody_else_did() {
        let takes = |_: &Value, name: &str| (name != "closed" && name != "absent").then(String::new);
        let (nowhere, east) = (on(&[], &[], ""), on(&["east"], &[], "label"));
        for (labels, current, expected) in [
            (json!({}), nowhere.clone(), None),
            (json!({ CLUSTER: "east" }), nowhere.clone(), Some(east.clone())),
            (json!({ CLUSTER: "east" }), east.clone(), None),
            (json!({ CLUSTER: "west" }), east.clone(), Some(on(&["west"], &["east"], "label"))),
            (json!({}), east.clone(), Some(on(&[], &["east"], ""))),
            (json!({ CLUSTER: "" }), east.clone(), Some(on(&[], &["east"], ""))),
            // Whoever says nothing sensible says nothing.
            (json!({ CLUSTER: "No Name" }), nowhere.clone(), None),
            (json!({ CLUSTER: "absent" }), nowhere.clone(), None),
            (json!({ CLUSTER: "absent" }), east.clone(), Some(on(&[], &["east"], ""))),
            // Nothing new comes to a closed cluster, and nothing goes because of that.
            (json!({ CLUSTER: "closed" }), nowhere.clone(), None),
            (json!({ CLUSTER: "closed" }), on(&["closed"], &[], "label"), None),
            (json!({ CLUSTER: "west" }), on(&[], &["east"], ""), Some(on(&["west"], &["east"], "label"))),
            // Others have decided.
            (json!({ CLUSTER: "west" }), on(&["east"], &[], "hand"), None),
            (json!({ CLUSTER: "west" }), on(&["east"], &[], "policy"), None),
            (json!({ CLUSTER: "west" }), on(&["east"], &[], "reference"), None),
            (json!({}), on(&["east"], &[], "hand"), None),
            // As kcp wrote it later.
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
    fn what_has_to_do_with_labels_is_looked_at() {
        let labelled = Labelled::default();
        let note = |key: &Key, value: Option<Value>| {
            let value = value.map(|value| Bytes::from(value.to_string()));
            labelled.changed(key, &key.parts().unwrap(), value.as_ref(), 1);
        };
        let (a, b) =
            (Key::object("", "configmaps", "w", "n", "a"), Key::object("", "configmaps", "w", "n", "b"));
        let only_a = [a.clone()];
        note(&b, Some(json!({ "metadata": { "labels": { "app": "x" } } })));
        assert_eq!(labelled.take().0, []);
        note(&a, Some(json!({ "metadata": { "labels": { CLUSTER: "east" } } })));
        assert_eq!(labelled.take().0, only_a);
        // The label is gone, what it did is not; a restart begins here.
        let placed = on(&["east"], &[], BY).text().unwrap();
        note(&a, Some(json!({ "metadata": { "annotations": { "atoll.dev/placement": placed } } })));
        assert_eq!(labelled.take().0, only_a);
        let east = Key::object(ATOLL, "clusters", "w", "", "east");
        note(&east, Some(json!({ "metadata": {}, "spec": {} })));
        assert_eq!(labelled.take().0, only_a, "a cluster has come");
        note(&east, Some(json!({ "metadata": {}, "spec": {}, "status": { "nodes": 3 } })));
        assert_eq!(labelled.take().0, [], "it is as it was");
        note(&east, Some(json!({ "metadata": {}, "spec": { "unschedulable": true } })));
        assert_eq!(labelled.take().0, only_a);
        note(&east, Some(json!({ "metadata": {}, "spec": {} })));
        assert_eq!(labelled.take().0, only_a);
        note(&east, Some(json!({ "metadata": {}, "spec": { "workspaces": ["team"] } })));
        assert_eq!(labelled.take().0, only_a, "it serves other workspaces");
        note(&super::super::marker("v"), Some(json!({ "data": { "kcp": "" } })));
        assert_eq!(labelled.take().0, only_a);
        note(&a, Some(json!({ "metadata": {} })));
        assert_eq!(labelled.take().0, only_a);
        note(&a, Some(json!({ "metadata": {} })));
        assert_eq!(labelled.take().0, []);
    }
}
