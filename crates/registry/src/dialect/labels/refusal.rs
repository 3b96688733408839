//! Events about refused cluster labels.

use atoll_meta::{Status, object, time};
use atoll_store::Key;
use serde_json::{Value, json};

use crate::row::ObjectRef;
use crate::{NoAdmission, Registry, Update};

const COMPONENT: &str = "atoll-labels";
const REASON: &str = "PlacementRefused";
/// Namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Writes the event, one per object with the latest refusal. The same refusal is reported once, however often
/// the object changes.
pub async fn write_event(registry: &Registry, key: &Key, refused: &Status) -> Result<(), Status> {
    let Some((row, found)) = registry.placeable_object(key)? else { return Ok(()) };
    let events = registry.catalog.stored("", "events").ok_or_else(Status::not_found_generic)?;
    let Some(parts) = key.parts() else { return Ok(()) };
    let namespace = if parts.namespace.is_empty() { DEFAULT_NAMESPACE } else { parts.namespace };
    let name = format!("{}.placement-refused", object::uid(&found));
    let at = ObjectRef { workspace: parts.workspace, namespace, name: &name };
    let known = registry.get(events, &at).and_then(|event| crate::parse(&event.json()));
    if known.is_ok_and(|event| event["message"] == refused.message()) {
        return Ok(());
    }
    let now = time::format(registry.clock.seconds());
    let mut involved = json!({
        "apiVersion": row.api_version(), "kind": row.kind, "name": parts.name, "uid": object::uid(&found),
    });
    if !parts.namespace.is_empty() {
        involved["namespace"] = parts.namespace.into();
    }
    let transform = |existing: Option<&Value>| {
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": namespace },
            "involvedObject": involved, "type": "Warning", "reason": REASON, "message": refused.message(),
            "source": { "component": COMPONENT }, "reportingComponent": COMPONENT,
            "count": 1, "firstTimestamp": now, "lastTimestamp": now,
        });
        if let Some(existing) = existing {
            event["metadata"] = existing["metadata"].clone();
            event["count"] = (existing["count"].as_i64().unwrap_or(0) + 1).into();
            event["firstTimestamp"] = existing["firstTimestamp"].clone();
        }
        Ok(event)
    };
    let update = Update {
        subresource: "",
        manager: Some(COMPONENT),
        size: 0,
        transform: &transform,
        admission: &NoAdmission,
        uid: None,
        create_missing: true,
        dry_run: false,
    };
    registry.update(events, &at, &update).await.map(drop)
}
