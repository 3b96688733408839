//! Heartbeats of syncers.
//!
//! Each heartbeat renews a Lease, which is small. The status of the Cluster is written only when something
//! has changed.

use std::sync::Arc;

use atoll_fleet::ClusterView;
use atoll_fleet::marks::{self, SYSTEM_NAMESPACE};
use atoll_fleet::view::ReportResponse;
use atoll_meta::{Status, names, object, time};
use atoll_registry::{LimitsOnly, NoAdmission, ObjectRef, Row, Update};
use serde_json::{Value, json};

use super::records::write_status;
use super::report::{MANAGER, row};
use crate::Server;

/// Fields of a Cluster's status that a syncer reports.
const REPORTED_FIELDS: [&str; 11] = [
    "kubernetesVersion",
    "nodes",
    "capacity",
    "allocatable",
    "requested",
    "free",
    "region",
    "zones",
    "latency",
    "classes",
    "apis",
];
/// Fields that a syncer reports together with the free capacity, or not at all.
const WITH_FREE: [&str; 4] = ["bound", "cut", "missingRights", QUOTAS];
/// Amounts that ResourceQuotas of the cluster leave in namespaces.
const QUOTAS: &str = "quotas";
/// Namespaces of the cluster that other workspaces use without a label that allows it.
const UNMAPPED: &str = "unmappedNamespaces";
/// The fields of a heartbeat whose size the cluster determines.
const LARGE_FIELDS: [&str; 7] = ["capacity", "allocatable", "requested", "free", "zones", UNMAPPED, QUOTAS];
/// Seconds after which the time of the last heartbeat is updated even if nothing else changes.
const MAX_HEARTBEAT_AGE: i64 = 60;
/// Default duration of a lease in seconds.
const DEFAULT_LEASE_SECONDS: i64 = 30;
/// Difference of latencies, in nanoseconds, that is not worth a write.
const SIMILAR_LATENCY: i64 = 20_000_000;

/// Action if the lease does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfMissing {
    Create,
    Skip,
}

/// A Cluster that receives heartbeats.
pub struct ClusterHeartbeat<'a> {
    pub server: &'a Arc<Server>,
    pub workspace: &'a str,
    pub cluster: &'a str,
    /// The Cluster's UID.
    pub uid: &'a str,
}

impl ClusterHeartbeat<'_> {
    /// Records a heartbeat.
    pub async fn record(&self, heartbeat: &Value) -> Result<(), Status> {
        let heartbeat = &self.with_paths(heartbeat);
        let holder = heartbeat["syncer"]["instance"].as_str().unwrap_or_default();
        let seconds = heartbeat["leaseDurationSeconds"].as_i64().filter(|it| (1..=86_400).contains(it));
        let now = self.server.registry.clock.seconds();
        self.renew(IfMissing::Create, &|lease| {
            renew_lease(lease, holder, seconds.unwrap_or(DEFAULT_LEASE_SECONDS), now)
        })
        .await?;
        let row = row(self.server, "clusters")?;
        let object_ref = ObjectRef { workspace: self.workspace, namespace: "", name: self.cluster };
        let known = super::parse(&self.server.registry.get(&row, &object_ref)?.json())?;
        if with_heartbeat(&known, heartbeat, now) == known {
            return Ok(());
        }
        let change = |existing: &Value| with_heartbeat(existing, heartbeat, now);
        match write_status(self.server, &row, &object_ref, &change, &LimitsOnly).await {
            // In a full workspace the cluster stays alive, but reports nothing else that takes memory.
            Err(status) if status.code() == 403 => {
                let mut rest = heartbeat.clone();
                if let Some(fields) = rest.as_object_mut() {
                    fields.retain(|field, _| !LARGE_FIELDS.contains(&field.as_str()));
                }
                let change = |existing: &Value| with_heartbeat(existing, &rest, now);
                write_status(self.server, &row, &object_ref, &change, &NoAdmission).await
            }
            written => written,
        }
    }

    /// Adds paths to the workspaces of a heartbeat, because syncers only know IDs. Workspaces that the
    /// cluster does not serve are removed.
    fn with_paths(&self, heartbeat: &Value) -> Value {
        let mut heartbeat = heartbeat.clone();
        let Some(namespaces) = heartbeat.get_mut(UNMAPPED).and_then(Value::as_array_mut) else {
            return heartbeat;
        };
        let lineage = &self.server.registry.placements.workspaces;
        let known = namespaces.iter().filter_map(|namespace| {
            let name = namespace["name"].as_str().filter(|name| names::dns1123_label(name).is_empty())?;
            let workspace = namespace["workspace"].as_str()?;
            lineage.path(self.workspace, workspace)?;
            let path = self.server.registry.workspace_path(workspace);
            Some(json!({ "name": name, "workspace": workspace, "path": path }))
        });
        *namespaces = known.collect();
        heartbeat
    }

    /// Releases the lease of a syncer that stops.
    pub async fn release_lease(&self, holder: &str) -> Result<(), Status> {
        let release = |lease: &mut Value| {
            if lease["spec"]["holderIdentity"] == holder {
                lease["spec"]["holderIdentity"] = "".into();
            }
        };
        match self.renew(IfMissing::Skip, &release).await {
            Err(status) if status.reason() == "NotFound" => Ok(()),
            noted => noted,
        }
    }

    /// Records whether the sync view and the tunnel are open. This is informational only.
    pub async fn record_connections(&self) {
        if let Err(status) = self.renew(IfMissing::Skip, &|_| {}).await
            && status.reason() != "NotFound"
        {
            tracing::debug!(%status, cluster = self.cluster, "cannot record the connections of the syncer");
        }
    }

    /// Changes the lease.
    async fn renew(&self, missing: IfMissing, change: &(dyn Fn(&mut Value) + Sync)) -> Result<(), Status> {
        let registry = &self.server.registry;
        let leases = registry.catalog.find("coordination.k8s.io", "v1", "leases");
        let leases: &Row = leases.ok_or_else(Status::not_found_generic)?;
        let name = marks::heartbeat(self.cluster);
        let object_ref = ObjectRef { workspace: self.workspace, namespace: SYSTEM_NAMESPACE, name: &name };
        if missing == IfMissing::Create && registry.get(leases, &object_ref).is_err() {
            self.ensure_namespace().await?;
        }
        let state = |is_open: bool| if is_open { "open" } else { "closed" };
        let view = state(self.server.open_views.has(self.workspace, self.cluster));
        let tunnel = state(self.has_tunnel());
        let transform = |existing: Option<&Value>| {
            let is_known = existing.is_some_and(|lease| is_owned_by(lease, self.uid));
            if missing == IfMissing::Skip && !is_known {
                return Err(Status::not_found(&leases.group, &leases.resource, &name));
            }
            let mut lease = existing.cloned().unwrap_or_else(|| {
                json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": { "name": name, "namespace": SYSTEM_NAMESPACE }, "spec": {},
                })
            });
            object::set_label(&mut lease, marks::CLUSTER, self.cluster);
            // The Lease is garbage collected with the Cluster.
            lease["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "name": self.cluster, "uid": self.uid,
            }]);
            object::set_annotation(&mut lease, marks::VIEW, view);
            object::set_annotation(&mut lease, marks::TUNNEL, tunnel);
            change(&mut lease);
            Ok(lease)
        };
        let update = Update {
            subresource: "",
            // Written often, and by the server only: field managers would double its size.
            manager: None,
            size: 0,
            transform: &transform,
            admission: &NoAdmission,
            uid: None,
            create_missing: missing == IfMissing::Create,
            dry_run: false,
        };
        registry.update(leases, &object_ref, &update).await.map(drop)
    }

    /// Whether the agent of the cluster has a tunnel. Clusters that this control plane syncs have none.
    fn has_tunnel(&self) -> bool {
        let registered = super::registered(self.server, self.workspace, self.cluster);
        let is_push = registered.map_or(true, |cluster| ClusterView::of(&cluster).mode() == "push");
        !is_push && self.server.connected_clusters.has(self.uid)
    }

    async fn ensure_namespace(&self) -> Result<(), Status> {
        let registry = &self.server.registry;
        let namespaces = registry.catalog.find("", "v1", "namespaces");
        let namespaces: &Row = namespaces.ok_or_else(Status::not_found_generic)?;
        let object_ref = ObjectRef { workspace: self.workspace, namespace: "", name: SYSTEM_NAMESPACE };
        if registry.get(namespaces, &object_ref).is_ok() {
            return Ok(());
        }
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        match registry.create(namespaces, &object_ref, namespace, Some(MANAGER), false, &NoAdmission).await {
            Err(status) if status.reason() == "AlreadyExists" => Ok(()),
            made => made.map(drop),
        }
    }
}

/// Whether a lease belongs to the Cluster with this UID.
fn is_owned_by(lease: &Value, uid: &str) -> bool {
    object::owner_references(lease).any(|owner| owner.uid == uid)
}

/// Returns the response to a heartbeat.
pub fn response(server: &Server) -> ReportResponse {
    let asked = server.heartbeat.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
    ReportResponse { heartbeat_milliseconds: asked, ..ReportResponse::default() }
}

fn renew_lease(lease: &mut Value, holder: &str, seconds: i64, now: i64) {
    let now = time::format_micro(now, 0);
    let spec = &mut lease["spec"];
    if spec["holderIdentity"] != holder {
        let before = spec["leaseTransitions"].as_i64();
        spec["leaseTransitions"] = before.map_or(0, |before| before.saturating_add(1)).into();
        spec["acquireTime"] = now.as_str().into();
        spec["holderIdentity"] = holder.into();
    }
    spec["leaseDurationSeconds"] = seconds.into();
    spec["renewTime"] = now.into();
}

/// Returns the Cluster with the status of a heartbeat.
fn with_heartbeat(existing: &Value, heartbeat: &Value, now: i64) -> Value {
    let mut next = existing.clone();
    for field in REPORTED_FIELDS {
        if let Some(value) = heartbeat.get(field)
            && !(field == "latency" && is_similar(&existing["status"]["latency"], value))
        {
            next["status"][field] = value.clone();
        }
    }
    if heartbeat.get("free").is_some() {
        for field in WITH_FREE {
            match heartbeat.get(field) {
                Some(value) => next["status"][field] = value.clone(),
                // Values of an earlier heartbeat do not fit this capacity.
                None => drop(next["status"].as_object_mut().and_then(|status| status.remove(field))),
            }
        }
    }
    // The ID of the cluster is set by the first heartbeat.
    if let Some(id) = heartbeat.get("id").filter(|_| next["status"]["id"].as_str().is_none_or(str::is_empty))
    {
        next["status"]["id"] = id.clone();
    }
    match heartbeat.get(UNMAPPED) {
        Some(Value::Array(namespaces)) if !namespaces.is_empty() => {
            next["status"][UNMAPPED] = Value::Array(namespaces.clone());
        }
        Some(_) => drop(next["status"].as_object_mut().and_then(|status| status.remove(UNMAPPED))),
        None => {}
    }
    // The syncer reports that it is paused, and why.
    match &heartbeat["paused"] {
        Value::Null if heartbeat.get("syncer").is_some() => {
            drop(next["status"].as_object_mut().and_then(|status| status.remove("paused")));
        }
        Value::Null => {}
        why => next["status"]["paused"] = why.clone(),
    }
    match heartbeat["reason"].as_str() {
        Some(reason) => {
            next["status"]["problem"] = json!({ "reason": reason, "message": heartbeat["message"] });
        }
        None => drop(next["status"].as_object_mut().and_then(|status| status.remove("problem"))),
    }
    let syncer = &existing["status"]["syncer"];
    let last = syncer["lastHeartbeatTime"].as_str().and_then(|text| time::parse(text).ok());
    // The clock may have been set back.
    let is_fresh = last.is_some_and(|last| now.abs_diff(last.seconds) < MAX_HEARTBEAT_AGE.unsigned_abs());
    let same = |field: &str| syncer[field] == heartbeat["syncer"][field];
    if !(is_fresh && same("version") && same("instance") && next == *existing) {
        next["status"]["syncer"] = json!({
            "version": heartbeat["syncer"]["version"], "instance": heartbeat["syncer"]["instance"],
            "lastHeartbeatTime": time::format(now),
        });
    }
    next
}

/// Whether two latencies are similar: measurements always differ a little.
fn is_similar(one: &Value, other: &Value) -> bool {
    let nanos = |value: &Value| value.as_str().and_then(time::parse_duration);
    match (nanos(one), nanos(other)) {
        (Some(one), Some(other)) => {
            let (low, high) = (one.min(other), one.max(other));
            high.saturating_sub(low) <= SIMILAR_LATENCY.max(low)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    #[test]
    fn status_is_written_only_on_changes() {
        let beat = json!({
            "id": "a", "nodes": { "total": 3 }, "latency": "12ms", "syncer": { "version": "1", "instance": "one" },
        });
        let known = with_heartbeat(&json!({ "status": {} }), &beat, NOW);
        assert_eq!(known["status"]["syncer"]["lastHeartbeatTime"], time::format(NOW));
        let with = |field: &str, value: Value| {
            let mut beat = beat.clone();
            beat[field] = value;
            beat
        };
        for (beat, later, is_written) in [
            (beat.clone(), 10, false),
            (beat.clone(), -10, false),
            (with("latency", "30ms".into()), 10, false),
            (with("latency", "1ms".into()), 10, false),
            (with("latency", "200ms".into()), 10, true),
            (with("nodes", json!({ "total": 4 })), 10, true),
            (with("reason", "Unreachable".into()), 10, true),
            (with("paused", "storm".into()), 10, true),
            (with("syncer", json!({ "version": "1", "instance": "two" })), 10, true),
            // Periodically, so that users see that the cluster is alive, and when the clock has jumped.
            (beat.clone(), 60, true),
            (beat.clone(), 86_400 * 3, true),
            (beat.clone(), -86_400 * 3, true),
        ] {
            let next = with_heartbeat(&known, &beat, NOW + later);
            assert_eq!(next != known, is_written, "{later}: {beat}");
            if is_written {
                assert_eq!(next["status"]["syncer"]["lastHeartbeatTime"], time::format(NOW + later));
            }
        }
        assert_eq!(
            with_heartbeat(&known, &with("id", "b".into()), NOW)["status"]["id"],
            "a",
            "the ID does not change"
        );
    }

    #[test]
    fn bound_pods_are_of_the_same_heartbeat_as_the_capacity() {
        let beat = |fields: Value| with_heartbeat(&json!({ "status": {} }), &fields, NOW);
        let known =
            beat(json!({ "free": [], "bound": { "u": 2 }, "cut": { "nodes": 1 }, "missingRights": ["a"] }));
        assert_eq!(known["status"]["bound"], json!({ "u": 2 }));
        // Without an inventory, the last one stays.
        let next = with_heartbeat(&known, &json!({ "reason": "Unreachable" }), NOW);
        assert_eq!(next["status"]["bound"], json!({ "u": 2 }));
        let next = with_heartbeat(&known, &json!({ "free": [] }), NOW);
        for field in WITH_FREE {
            assert_eq!(next["status"].get(field), None, "{field}");
        }
    }

    #[test]
    fn a_lease_records_its_holder_and_times() {
        let mut lease = json!({ "spec": {} });
        renew_lease(&mut lease, "one", 30, NOW);
        renew_lease(&mut lease, "one", 30, NOW + 10);
        assert_eq!(
            lease["spec"],
            json!({
                "holderIdentity": "one", "leaseDurationSeconds": 30, "leaseTransitions": 0,
                "acquireTime": time::format_micro(NOW, 0), "renewTime": time::format_micro(NOW + 10, 0),
            })
        );
        renew_lease(&mut lease, "two", 30, NOW + 20);
        assert_eq!(lease["spec"]["leaseTransitions"], 1);
        assert_eq!(lease["spec"]["acquireTime"], time::format_micro(NOW + 20, 0));
    }
}
