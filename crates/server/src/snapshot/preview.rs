//! The effects of restoring a snapshot, without doing it.

use std::collections::{BTreeMap, BTreeSet};

use atoll_fleet::Placement;
use atoll_meta::json;
use atoll_registry::catalog::ATOLL;
use atoll_store::{Key, key};
use bytes::Bytes;
use serde_json::{Value, json};

/// Counts objects that would be deleted, changed and created.
pub fn summary(current: &BTreeMap<Key, Bytes>, restored: &BTreeMap<Key, Bytes>) -> Value {
    let (mut deleted, mut workspaces, mut namespaces) = (0, BTreeSet::new(), 0);
    let mut placed: BTreeMap<String, usize> = BTreeMap::new();
    for (key, value) in current.iter().filter(|(key, _)| !restored.contains_key(*key)) {
        let Some(parts) = key.parts() else { continue };
        match (parts.group, parts.resource) {
            (ATOLL, "workspaces") => drop(workspaces.insert(key)),
            (key::CORE, "namespaces") => namespaces += 1,
            _ => deleted += 1,
        }
        let object = json::parse(value).map(|parsed| parsed.value).unwrap_or_default();
        if (parts.group, parts.resource) != (key::CORE, "namespaces") {
            for cluster in Placement::of(&object).names() {
                *placed.entry(cluster.to_string()).or_default() += 1;
            }
        }
    }
    let changed = restored.iter().filter(|(key, value)| current.get(*key).is_some_and(|now| now != *value));
    let created = restored.keys().filter(|key| !current.contains_key(*key));
    json!({
        "workspaces": workspaces.len(), "namespaces": namespaces, "deleted": deleted, "placed": placed,
        "changed": changed.count(), "created": created.count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_missing_in_the_snapshot_are_counted() {
        let object = |group: &str, resource: &str, name: &str| Key::object(group, resource, "w", "", name);
        let plain = Bytes::from_static(b"{}");
        let placement = r#"{"clusters":[{"name":"east"}],"leaving":["west"]}"#;
        let placed =
            json!({ "metadata": { "annotations": { "atoll.dev/placement": placement } } }).to_string();
        let restored = BTreeMap::from([
            (object("", "configmaps", "same"), plain.clone()),
            (object("", "configmaps", "other"), plain.clone()),
            (object("", "configmaps", "back"), plain.clone()),
        ]);
        let current = BTreeMap::from([
            (object("", "configmaps", "same"), plain.clone()),
            (object("", "configmaps", "other"), Bytes::from_static(b"{\"data\":{}}")),
            (object("", "configmaps", "lost"), Bytes::from(placed.clone())),
            (object("", "namespaces", "shop"), Bytes::from(placed)),
            (object(ATOLL, "workspaces", "team"), plain),
        ]);
        assert_eq!(
            summary(&current, &restored),
            json!({
                "workspaces": 1, "namespaces": 1, "deleted": 1, "placed": { "east": 1, "west": 1 },
                "changed": 1, "created": 1,
            })
        );
        assert_eq!(summary(&restored, &restored)["deleted"], 0);
    }
}
