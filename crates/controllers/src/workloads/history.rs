//! ControllerRevisions: the history of a workload's template.

// upstream: pkg/controller/history/controller_history.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/rand/rand.go

mod store;

use std::cmp::Ordering;

use atoll_informer::{Resource, WORKSPACE, resources};
use atoll_meta::{json as text, object};
use serde_json::{Map, Value, json};

pub(crate) use store::History;

use crate::shared::pods::controller_reference;
use crate::shared::views::WorkloadView;

/// Label with the hash of a StatefulSet's revision.
pub(crate) const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Label of pods with the name or hash of their revision.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";
/// Maximum length of the owner's name in the name of a revision.
const PREFIX: usize = 223;

/// Returns the strategic merge patch that restores the current template.
pub(crate) fn snapshot(owner: &Value) -> Value {
    let mut template = WorkloadView::of(owner).template().clone();
    if let Value::Object(template) = &mut template {
        template.insert("$patch".into(), "replace".into());
    }
    json!({"spec": {"template": template}})
}

/// Returns the template that a revision restores.
pub(crate) fn template_of(revision: &Value) -> Value {
    let mut template = WorkloadView::of(&revision["data"]).template().clone();
    if let Value::Object(template) = &mut template {
        template.remove("$patch");
    }
    template
}

/// Returns a hash of the data in safe characters. `collisions` changes the hash.
pub(crate) fn hash(data: &Value, collisions: Option<i64>) -> String {
    let mut sum = Fnv::default();
    sum.add(&text::to_vec(data));
    if let Some(collisions) = collisions {
        sum.add(collisions.to_string().as_bytes());
    }
    safe(&sum.0.to_string())
}

/// FNV-1 with 32 bits.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0x811c_9dc5)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(0x0100_0193) ^ u32::from(*byte);
        }
    }
}

/// Encodes digits in characters that form no words.
fn safe(digits: &str) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    digits.bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
}

pub(crate) fn name(owner: &str, hash: &str) -> String {
    let end = (0..=owner.len().min(PREFIX)).rev().find(|end| owner.is_char_boundary(*end)).unwrap_or(0);
    format!("{}-{hash}", &owner[..end])
}

/// Returns a new revision of the owner. `label` is the key of the hash label.
pub(crate) fn revision(
    owner: &Value,
    kind: &Resource,
    data: Value,
    number: i64,
    label: &str,
    hash: &str,
) -> Value {
    let mut labels = WorkloadView::of(owner).template_labels().cloned().unwrap_or_default();
    labels.insert(label.into(), hash.into());
    let annotations: Map<String, Value> = object::annotations(owner)
        .filter(|(key, _)| *key != WORKSPACE)
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    let mut revision = json!({
        "apiVersion": resources::CONTROLLER_REVISIONS.api_version(),
        "kind": resources::CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name(object::name(owner), hash),
            "namespace": object::namespace(owner),
            "labels": labels,
            "ownerReferences": [controller_reference(kind, owner)],
        },
        "data": data,
        "revision": number,
    });
    if !annotations.is_empty() {
        revision["metadata"]["annotations"] = annotations.into();
    }
    revision
}

pub(crate) fn number(revision: &Value) -> i64 {
    revision["revision"].as_i64().unwrap_or(0)
}

/// Orders revisions by number, then by age and name.
pub(crate) fn in_order(one: &Value, other: &Value) -> Ordering {
    let created = |revision| object::creation_timestamp(revision).unwrap_or_default();
    number(one)
        .cmp(&number(other))
        .then_with(|| created(one).cmp(created(other)))
        .then_with(|| object::name(one).cmp(object::name(other)))
}

/// Whether two values are equal if null fields count as missing.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let present = |map: &Map<String, Value>| map.values().filter(|value| !value.is_null()).count();
            let has = |(key, value): (&String, &Value)| {
                value.is_null() || other.get(key).is_some_and(|other| same(value, other))
            };
            present(one) == present(other) && one.iter().all(has)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
