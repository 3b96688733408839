//! Events about refused placements: one for each object, with the latest refusal.

use atoll_informer::{ApiScope, Clock, Key, Resource, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

const COMPONENT: &str = "atoll-labels";
const REASON: &str = "PlacementRefused";
/// Namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Writes the event. The same refusal is reported once, however often the object changes.
pub async fn write_refusal(
    api: &ApiScope,
    clock: &dyn Clock,
    resource: &Resource,
    about: (&Key, &Value),
    message: &str,
) -> Result<(), Status> {
    let (at, object) = about;
    let uid = object::uid(object);
    let namespace = if at.namespace.is_empty() { DEFAULT_NAMESPACE } else { &at.namespace };
    let name = format!("{uid}.placement-refused");
    let key = Key::new(&at.workspace, namespace, &name);
    let known = match api.get(&resources::EVENTS, &key).await {
        Ok(known) if known["message"] == message => return Ok(()),
        Ok(known) => Some(known),
        Err(status) if status.reason() == "NotFound" => None,
        Err(status) => return Err(status),
    };
    let now = clock.now().to_time();
    let mut involved = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind, "name": &*at.name, "uid": uid,
    });
    if !at.namespace.is_empty() {
        involved["namespace"] = (*at.namespace).into();
    }
    let mut event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": namespace },
        "involvedObject": involved, "type": "Warning", "reason": REASON, "message": message,
        "source": { "component": COMPONENT }, "reportingComponent": COMPONENT,
        "count": 1, "firstTimestamp": now, "lastTimestamp": now,
    });
    match known {
        Some(known) => {
            event["metadata"] = known["metadata"].clone();
            event["count"] = (known["count"].as_i64().unwrap_or(0) + 1).into();
            event["firstTimestamp"] = known["firstTimestamp"].clone();
            api.update(&resources::EVENTS, &event).await.map(drop)
        }
        None => api.create(&resources::EVENTS, &at.workspace, namespace, &event).await.map(drop),
    }
}
