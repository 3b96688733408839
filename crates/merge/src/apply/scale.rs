//! Who manages the replicas of an object, seen through its scale.
//!
//! In a Scale it is always `spec.replicas` of `autoscaling/v1`; in the object it is a field of its own version.

use serde_json::Value;

use super::managed::{self, Entry};
use super::set::Set;

const SCALE_VERSION: &str = "autoscaling/v1";
/// Where a Scale, and every built-in kind that has one, says how many replicas are wanted.
pub const REPLICAS: &[&str] = &["spec", "replicas"];

/// `managedFields` of the Scale of an object of `api_version` that has `parent`, and its replicas at `path`.
pub fn scale_fields(parent: Option<&Value>, api_version: &str, path: &[&str]) -> Option<Value> {
    let entries = managed::decode(parent).unwrap_or_default().into_iter();
    let of_replicas = entries.filter(|entry| entry.api_version == api_version && entry.set.has(path));
    let shown = of_replicas.map(|entry| Entry {
        api_version: SCALE_VERSION.into(),
        set: Set::of_path(REPLICAS),
        ..entry
    });
    managed::encode(shown.collect())
}

/// `managedFields` of the object of `api_version` that had `parent`, now that its Scale has `scale`.
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
            // Those who update are other managers to a Scale, because it has another version.
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
