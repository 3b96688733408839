//! Events of member clusters, copied to the objects above.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_fleet::rate_limit::{Rate, RateLimiter};
use atoll_fleet::view::{EventReport, ObjectTarget};
use atoll_fleet::{event, marks};
use atoll_meta::{Status, object, time};
use atoll_registry::{LimitsOnly, ObjectRef, Row, Update};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster_scope::ClusterScope;
use super::object_facts::FactsReader;
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
    objects: &mut FactsReader<'_>,
    report: &EventReport,
) -> Result<(), Status> {
    let ClusterScope { workspace, cluster, uid } = scope;
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
    // Nothing is read for events beyond the limit.
    if !server.event_limits.allow(workspace, cluster) {
        return Ok(());
    }
    let Some(known) = objects.read(&row.key(&object_ref)).await else { return Ok(()) };
    if !scope.may_have(registry, &target.workspace, &known.placement) || known.uid != target.uid {
        return Ok(());
    }
    if is_foreign(server, objects, report).await {
        return Ok(());
    }
    write(server, scope, objects, report, &row.kind).await
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
    if !server.event_limits.allow(scope.workspace, scope.cluster) {
        return Ok(());
    }
    let now = time::format(server.registry.clock.seconds());
    event["count"] = 1.into();
    event["firstTimestamp"] = now.as_str().into();
    event["lastTimestamp"] = now.into();
    event["source"] = json!({ "component": MANAGER });
    let report = EventReport { target: target.clone(), id: id.into(), about: Value::Null, event };
    write(server, scope, &mut FactsReader::new(&server.registry), &report, kind).await
}

/// Writes an event, unless it is unchanged. `kind` is that of the object above.
async fn write(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    objects: &mut FactsReader<'_>,
    report: &EventReport,
    kind: &str,
) -> Result<(), Status> {
    let cluster = scope.cluster;
    let (registry, target) = (&server.registry, &report.target);
    if is_namespace_terminating(server, objects, report).await? {
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
    if objects.parse(&events.key(&at)).await.is_some_and(|found| is_unchanged(&found, &shown)) {
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
async fn is_foreign(server: &Server, objects: &mut FactsReader<'_>, report: &EventReport) -> bool {
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
    objects.read(&row.key(&object_ref)).await.is_some_and(|known| known.uid == text("uid"))
}

/// Whether the namespace of an event is being deleted.
async fn is_namespace_terminating(
    server: &Server,
    objects: &mut FactsReader<'_>,
    report: &EventReport,
) -> Result<bool, Status> {
    let namespaces = server.registry.catalog.find("", "v1", "namespaces");
    let namespaces: &Row = namespaces.ok_or_else(Status::not_found_generic)?;
    let object_ref =
        ObjectRef { workspace: &report.target.workspace, namespace: "", name: report.namespace() };
    let namespace = objects.read(&namespaces.key(&object_ref)).await;
    let namespace = namespace.ok_or_else(|| Status::not_found("", "namespaces", object_ref.name))?;
    Ok(namespace.is_being_deleted)
}

/// Whether an existing event has the same content.
fn is_unchanged(existing: &Value, shown: &Value) -> bool {
    let fields = shown.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata");
    fields.into_iter().all(|(field, value)| existing.get(field) == Some(value))
}
