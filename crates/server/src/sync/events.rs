//! Events of member clusters, copied to the objects above.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_fleet::rate_limit::{Rate, RateLimiter};
use atoll_fleet::view::{EventReport, ObjectTarget};
use atoll_fleet::{Placement, event, marks};
use atoll_meta::{Status, object, time};
use atoll_registry::{LimitsOnly, ObjectRef, Row, Update};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster_scope::ClusterScope;
use super::report::MANAGER;
use crate::Server;

/// Limits of one cluster, and of all together. Syncers stay below them; excess events are dropped.
const PER_CLUSTER: Rate = Rate { burst: 500, every: Duration::from_millis(400) };
const TOTAL: Rate = Rate { burst: 5000, every: Duration::from_millis(20) };

/// Rate limits of events from clusters.
pub struct EventLimits {
    started: Instant,
    limiter: Mutex<RateLimiter>,
}

impl Default for EventLimits {
    fn default() -> Self {
        EventLimits { started: Instant::now(), limiter: Mutex::new(RateLimiter::new(PER_CLUSTER, TOTAL)) }
    }
}

impl EventLimits {
    fn allow(&self, workspace: &str, cluster: &str) -> bool {
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.take(&format!("{workspace}/{cluster}"), self.started.elapsed()).is_ok()
    }
}

/// Records an event, or updates its count.
pub async fn record(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    report: &EventReport,
) -> Result<(), Status> {
    let ClusterScope { cluster, uid, .. } = scope;
    let registry = &server.registry;
    let target = &report.target;
    let resource = &target.resource;
    let row = registry.find(Some(&target.workspace), &resource.group, &resource.version, &resource.resource);
    let Some(row) = row else { return Ok(()) };
    let object_ref =
        ObjectRef { workspace: &target.workspace, namespace: &target.namespace, name: &target.name };
    // A cluster may only report events of objects that are placed on it, not of objects of the same name.
    if !registry.placements.is_on(cluster, uid, &row.key(&object_ref)) {
        return Ok(());
    }
    let known = super::parse(&registry.get(&row, &object_ref)?.json())?;
    if !scope.may_have(registry, &target.workspace, &Placement::of(&known)) {
        return Ok(());
    }
    if object::uid(&known) != target.uid || is_foreign(server, report) {
        return Ok(());
    }
    write(server, scope, report, &row.kind).await
}

/// Records that an object that is no longer placed on a cluster stays there, and why. The object itself may
/// be deleted by now.
pub async fn record_retained(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    target: &ObjectTarget,
    kind: &str,
    why: &str,
) -> Result<(), Status> {
    let event = json!({ "type": "Normal", "reason": "Retained", "message": why });
    write_own(server, scope, target, kind, "retained", event).await
}

/// Records why a cluster does not delete an object that is being deleted.
pub async fn record_waiting(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    target: &ObjectTarget,
    kind: &str,
    why: &str,
) -> Result<(), Status> {
    let event = json!({ "type": "Warning", "reason": "WaitingForCluster", "message": why });
    write_own(server, scope, target, kind, "waiting", event).await
}

/// Writes an event that does not exist in the cluster, with the current time.
async fn write_own(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    target: &ObjectTarget,
    kind: &str,
    id: &str,
    mut event: Value,
) -> Result<(), Status> {
    let now = time::format(server.registry.clock.seconds());
    event["count"] = 1.into();
    event["firstTimestamp"] = now.as_str().into();
    event["lastTimestamp"] = now.into();
    event["source"] = json!({ "component": MANAGER });
    let report = EventReport { target: target.clone(), id: id.into(), about: Value::Null, event };
    write(server, scope, &report, kind).await
}

/// Writes an event, unless it is unchanged or the rate limit is exceeded. `kind` is that of the object above.
async fn write(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    report: &EventReport,
    kind: &str,
) -> Result<(), Status> {
    let ClusterScope { workspace, cluster, .. } = scope;
    let (registry, target) = (&server.registry, &report.target);
    if is_namespace_terminating(server, report)? {
        return Ok(());
    }
    let events = registry.catalog.stored("", "events").ok_or_else(Status::not_found_generic)?;
    let name = report.name(cluster);
    let at = ObjectRef { workspace: &target.workspace, namespace: report.namespace(), name: &name };
    let mut shown = report.to_event(cluster);
    // The kind above, whatever the cluster calls it.
    if report.about.is_null() {
        shown["involvedObject"]["kind"] = kind.into();
    }
    if registry.get(events, &at).is_ok_and(|found| is_unchanged(&found.json(), &shown))
        || !server.event_limits.allow(workspace, cluster)
    {
        return Ok(());
    }
    let transform = |existing: Option<&Value>| {
        let mut next = shown.clone();
        if let Some(existing) = existing {
            // The cluster chooses the name, so it must not overwrite events of others.
            if object::annotation(existing, marks::CLUSTER) != Some(cluster) {
                return Err(Status::already_exists("", "events", &name));
            }
            next["metadata"] = existing["metadata"].clone();
        }
        Ok(next)
    };
    let update = Update {
        subresource: "",
        manager: Some(MANAGER),
        size: 0,
        transform: &transform,
        admission: &LimitsOnly,
        uid: None,
        create_missing: true,
        dry_run: false,
    };
    registry.update(events, &at, &update).await.map(drop)
}

/// Whether an event of an object that a cluster has created is not to be shown: its kind is not created by
/// controllers, or the object is known above as one of its own.
fn is_foreign(server: &Server, report: &EventReport) -> bool {
    let about = &report.about;
    if about.is_null() {
        return false;
    }
    let text = |field: &str| about[field].as_str().unwrap_or_default();
    let (api_version, target) = (text("apiVersion"), &report.target);
    let Some(plural) = event::created_plural(api_version, text("kind")) else { return true };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(row) = server.registry.catalog.find(group, version, plural) else { return false };
    let object_ref =
        ObjectRef { workspace: &target.workspace, namespace: &target.namespace, name: text("name") };
    let known = server.registry.get(row, &object_ref).and_then(|found| super::parse(&found.json()));
    known.is_ok_and(|known| object::uid(&known) == text("uid"))
}

/// Whether the namespace of an event is being deleted.
fn is_namespace_terminating(server: &Server, report: &EventReport) -> Result<bool, Status> {
    let namespaces = server.registry.catalog.find("", "v1", "namespaces");
    let namespaces: &Row = namespaces.ok_or_else(Status::not_found_generic)?;
    let object_ref =
        ObjectRef { workspace: &report.target.workspace, namespace: "", name: report.namespace() };
    let namespace = super::parse(&server.registry.get(namespaces, &object_ref)?.json())?;
    Ok(object::is_being_deleted(&namespace))
}

/// Whether an existing event has the same content.
fn is_unchanged(existing: &[u8], shown: &Value) -> bool {
    let Ok(existing) = super::parse(existing) else { return false };
    let fields = shown.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata");
    fields.into_iter().all(|(field, value)| existing.get(field) == Some(value))
}
