//! The new ReplicaSet of a Deployment: its template, name, revision and annotations.

// upstream: pkg/controller/deployment/sync.go
// upstream: pkg/controller/deployment/util/deployment_util.go

use atoll_informer::resources::DEPLOYMENTS;
use atoll_meta::{json as text, object};
use serde_json::{Value, json};

use super::limits;
use super::set::{
    DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY, Set, TEMPLATE_HASH, by_age, is_same_template,
};
use crate::shared::pods::controller_reference;
use crate::shared::views::DeploymentView;

/// Maximum length of the revision history annotation.
const MAX_HISTORY_LENGTH: usize = 2000;
const MAX_NAME_LENGTH: usize = 253;
/// Alphabet of generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// Annotations that are not copied between a Deployment and its ReplicaSets.
const NOT_COPIED_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLBACK_TO,
];

pub fn is_copied(annotation: &str) -> bool {
    !NOT_COPIED_ANNOTATIONS.contains(&annotation) && annotation != atoll_informer::WORKSPACE
}

/// Returns the set with the Deployment's template, the oldest if there are several, and all others, oldest
/// first.
pub fn split(deployment: &Value, mut sets: Vec<Set>) -> (Option<Set>, Vec<Set>) {
    sets.sort_by(by_age);
    let template = DeploymentView::of(deployment).template();
    let new = sets.iter().position(|set| is_same_template(set.current_view().template(), template));
    let new = new.map(|position| sets.remove(position));
    (new, sets)
}

/// Returns the revision that follows those of the old sets.
pub fn next_revision(old: &[Set]) -> i64 {
    old.iter().filter_map(Set::revision).max().unwrap_or(0).max(0) + 1
}

/// Copies annotations and `minReadySeconds` of the Deployment to the new set, and sets its revision.
pub fn sync_with_deployment(deployment: &Value, new: &mut Set, revision: i64) {
    annotate(deployment, new, revision);
    let seconds = DeploymentView::of(deployment).min_ready_seconds();
    if new.current_view().min_ready_seconds() != seconds {
        new.change()["spec"]["minReadySeconds"] = seconds.into();
    }
}

fn annotate(deployment: &Value, set: &mut Set, revision: i64) {
    for (key, value) in object::annotations(deployment).filter(|(key, _)| is_copied(key)) {
        set.set_annotation(key, value);
    }
    let before = set.annotation(REVISION).map(String::from);
    let Some(number) =
        before.as_deref().filter(|text| !text.is_empty()).map_or(Some(0), |text| text.parse().ok())
    else {
        return;
    };
    if number >= revision {
        return;
    }
    set.set_annotation(REVISION, &revision.to_string());
    // The set was the new one before, and is it again.
    if let Some(before) = before
        && let Some(history) = append_revision(set.annotation(REVISION_HISTORY).unwrap_or_default(), &before)
    {
        set.set_annotation(REVISION_HISTORY, &history);
    }
}

/// Appends a revision to the history; `None` if there is no room.
fn append_revision(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.into());
    }
    let mut rest = history;
    while rest.len() + revision.len() + 1 > MAX_HISTORY_LENGTH {
        rest = rest.split_once(',')?.1;
    }
    Some(format!("{rest},{revision}"))
}

/// Returns the new set, to be created with `replicas` pods.
pub fn new_replica_set(deployment: &Value, replicas: i64, revision: i64) -> Value {
    let view = DeploymentView::of(deployment);
    let mut template = view.template().clone();
    let collisions = view.status().collision_count().and_then(|count| u64::try_from(count).ok());
    let hash = template_hash(&template, collisions);
    object::set_label(&mut template, TEMPLATE_HASH, &hash);
    let mut selector = view.selector().clone();
    selector["matchLabels"][TEMPLATE_HASH] = hash.as_str().into();
    let mut set = Set::new(std::sync::Arc::new(json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": set_name(object::name(deployment), &hash),
            "namespace": object::namespace(deployment),
            "ownerReferences": [controller_reference(&DEPLOYMENTS, deployment)],
            "labels": template["metadata"]["labels"],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    })));
    sync_with_deployment(deployment, &mut set, revision);
    set_replicas_annotations(deployment, &mut set);
    set.object().clone()
}

/// Stores the Deployment's replicas and maximum in annotations of a set. Returns whether they changed.
pub fn set_replicas_annotations(deployment: &Value, set: &mut Set) -> bool {
    let wanted = DeploymentView::of(deployment).replicas();
    let most = wanted + limits::max_surge(deployment);
    let desired = set.set_annotation(DESIRED_REPLICAS, &wanted.to_string());
    set.set_annotation(MAX_REPLICAS, &most.to_string()) || desired
}

/// Returns the name of the set. It is derived from the template, so that a set is not created twice.
fn set_name(deployment: &str, hash: &str) -> String {
    let room = MAX_NAME_LENGTH.saturating_sub(1 + hash.len());
    let start = if deployment.len() > room && room > 0 { &deployment[..room] } else { deployment };
    format!("{start}-{hash}")
}

/// Returns a short hash of a template, which differs for each collision.
fn template_hash(template: &Value, collisions: Option<u64>) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    let collisions = collisions.map(u64::to_le_bytes).unwrap_or_default();
    let counted: &[u8] = if collisions == [0; 8] { &[] } else { &collisions };
    for byte in text::to_vec(template).iter().chain(counted) {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    let letter = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    hash.to_string().bytes().map(letter).collect()
}

#[cfg(test)]
mod tests;
