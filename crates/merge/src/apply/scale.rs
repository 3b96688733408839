//! Managers of the replicas of an object, as seen through its scale.
//!
//! In a Scale the path is always `spec.replicas` of `autoscaling/v1`; in the object it is a field of the
//! object's own version.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go

use serde_json::Value;

use super::managed::{self, Entry};
use super::path_set::Set;

const SCALE_VERSION: &str = "autoscaling/v1";
/// Path of the replicas in a Scale and in every built-in kind with one.
pub const REPLICAS: &[&str] = &["spec", "replicas"];

/// Returns the `managedFields` of the Scale of an object of `api_version` with the managers `parent` and its
/// replicas at `path`.
pub fn scale_fields(parent: Option<&Value>, api_version: &str, path: &[&str]) -> Option<Value> {
    let entries = managed::decode(parent).unwrap_or_default().into_iter();
    let of_replicas = entries.filter(|entry| entry.api_version == api_version && entry.set.has(path));
    let entries = of_replicas.map(|entry| Entry {
        api_version: SCALE_VERSION.into(),
        set: Set::of_path(REPLICAS),
        ..entry
    });
    managed::encode(entries.collect())
}

/// Returns the `managedFields` of an object of `api_version` with the managers `parent`, after its Scale was
/// updated to `scale`.
pub fn parent_fields(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    path: &[&str],
) -> Option<Value> {
    let parent = managed::decode(parent).unwrap_or_default();
    let mut scale = managed::decode(scale).unwrap_or_default();
    let times: Vec<_> = parent.iter().map(|entry| (entry.identifier(), entry.time.clone())).collect();
    let mut entries = Vec::with_capacity(parent.len() + scale.len());
    for mut entry in parent {
        if entry.api_version != api_version {
            continue;
        }
        if entry.set.has(path) {
            // Managers of updates have a different identity in a Scale, because of its version.
            match scale.iter().position(|other| other.is_same_manager(&entry)) {
                Some(index) => drop(scale.remove(index)),
                None => entry.set.remove(path, false),
            }
        }
        if !entry.set.is_empty() {
            entries.push(entry);
        }
    }
    for entry in scale {
        if entry.set.has(REPLICAS) {
            let identifier = entry.identifier();
            let time =
                times.iter().find(|(other, _)| *other == identifier).and_then(|(_, time)| time.clone());
            let set = Set::of_path(path);
            entries.push(Entry { api_version: api_version.into(), time, set, ..entry });
        }
    }
    managed::encode(entries)
}
