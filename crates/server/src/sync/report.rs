//! Reports of syncers about objects and the cluster.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use atoll_fleet::Placement;
use atoll_fleet::heartbeat;
use atoll_fleet::report_order::ReportOrder;
use atoll_fleet::view::{ObjectTarget, Record, Report, State};
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{NoAdmission, ObjectRef, Row};
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};

use super::cluster_scope::ClusterScope;
use super::heartbeat::ClusterHeartbeat;
use super::object_facts::FactsReader;
use super::{events, object_facts, records};
use crate::Server;

/// Maximum number of clusters whose sequence numbers are kept. The next report of a forgotten cluster is
/// accepted.
const MAX_CLUSTERS: usize = 10_000;

/// Sequence numbers of reports, by the UID of the cluster.
#[derive(Default)]
pub struct ReportSequences(Mutex<HashMap<String, ReportOrder>>);

impl ReportSequences {
    fn accept(&self, uid: &str, run: u64, number: u64) -> bool {
        let mut sequences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sequences.len() >= MAX_CLUSTERS && !sequences.contains_key(uid) {
            sequences.clear();
        }
        sequences.entry(uid.to_string()).or_default().accepts(run, number)
    }
}

/// The field manager of reports.
pub(super) const MANAGER: &str = "atoll-syncer";
/// Number of records that are written concurrently: writes that wait for the disk together share one sync.
const CONCURRENT_WRITES: usize = 32;
/// Most records and events of a report. Syncers send fewer.
const MAX_RECORDS: usize = 2000;
const MAX_EVENTS: usize = 500;

/// Reads a report. Of several records about an object, the last one counts.
pub fn read(body: &[u8]) -> Result<Report, Status> {
    let mut report: Report = serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("the body is not a valid report: {error}")))?;
    let (records, events) = (report.records.len(), report.events.len());
    if records > MAX_RECORDS || events > MAX_EVENTS {
        return Err(Status::request_entity_too_large(format!(
            "the report has {records} records and {events} events: limits are {MAX_RECORDS} and {MAX_EVENTS}"
        )));
    }
    if let Some(definitions) = &report.definitions {
        super::imports::check(definitions)?;
    }
    retain_last(&mut report.records);
    report.records = report.records.into_iter().map(Record::bounded).collect();
    Ok(report)
}

/// Keeps the last of several records about an object. The version and kind that the agent names make no difference.
fn retain_last(records: &mut Vec<Record>) {
    let mut seen = HashSet::with_capacity(records.len());
    let is_last = |record: &Record| {
        let (target, resource) = (&record.target, &record.target.resource);
        let object =
            [&resource.group, &resource.resource, &target.workspace, &target.namespace, &target.name];
        seen.insert((object.map(String::clone), target.uid.clone()))
    };
    let is_last: Vec<bool> = records.iter().rev().map(is_last).collect();
    let mut is_last = is_last.into_iter().rev();
    records.retain(|_| is_last.next().unwrap_or(true));
}

/// Processes a report. Records of objects that are not placed on the cluster are ignored, because a syncer
/// may be late.
pub async fn apply(
    server: &Arc<Server>,
    workspace: &str,
    cluster: &str,
    uid: &str,
    report: Report,
) -> Result<(), Status> {
    let Report { mut records, mut events, heartbeat, farewell, run, number, .. } = report;
    let heartbeat = heartbeat.map(|heartbeat| heartbeat::validate(&heartbeat)).transpose();
    let heartbeat = heartbeat.map_err(|errors| Status::invalid(ATOLL, "Cluster", cluster, errors))?;
    if !server.report_sequences.accept(uid, run, number) {
        return Err(Status::conflict(ATOLL, "clusters", cluster, "a later report has already been received"));
    }
    let heartbeats = ClusterHeartbeat { server, workspace, cluster, uid };
    // The heartbeat is recorded even if records cannot be written.
    let mut outcome = match &heartbeat {
        Some(heartbeat) => heartbeats.record(heartbeat).await,
        None => Ok(()),
    };
    if let Some(holder) = &farewell {
        outcome = outcome.and(heartbeats.release_lease(holder).await);
    }
    let scope = ClusterScope { workspace, cluster, uid };
    records.retain(|record| {
        scope.contains(&server.registry, &record.target.workspace)
            && !server.access_removals.record(uid, record)
    });
    let mut objects = FactsReader::new(&server.registry);
    let mut writing = JoinSet::new();
    for record in records {
        let Some(reported) = ReportedObject::of(server, scope, &mut objects, &record).await else { continue };
        if writing.len() >= CONCURRENT_WRITES
            && let Some(written) = writing.join_next().await
        {
            outcome = outcome.and(finished(written));
        }
        let (server, workspace) = (server.clone(), workspace.to_string());
        let (cluster, uid) = (cluster.to_string(), uid.to_string());
        writing.spawn(async move {
            let scope = ClusterScope { workspace: &workspace, cluster: &cluster, uid: &uid };
            apply_record(&server, scope, &record, reported).await
        });
    }
    events.retain(|event| scope.contains(&server.registry, &event.target.workspace));
    for event in &events {
        // A lost event is not an error.
        if let Err(status) = events::record(server, scope, &mut objects, event).await {
            tracing::debug!(%status, cluster, "cannot record an event of the cluster");
        }
    }
    // Wait for all writes even after an error, because the syncer may repeat the report at once.
    while let Some(written) = writing.join_next().await {
        outcome = outcome.and(finished(written));
    }
    outcome
}

fn finished(written: Result<Result<(), Status>, JoinError>) -> Result<(), Status> {
    written.unwrap_or_else(|error| Err(Status::internal_error(error.to_string())))
}

/// The object of a record.
struct ReportedObject {
    row: Arc<Row>,
    is_being_deleted: bool,
    /// Records are named by the cluster's name: while another cluster of that name has the object, the record
    /// belongs to that one.
    belongs_to_other_cluster: bool,
}

impl ReportedObject {
    /// Returns the object of a record, if the cluster may report on it: it is placed there.
    async fn of(
        server: &Server,
        scope: ClusterScope<'_>,
        objects: &mut FactsReader<'_>,
        record: &Record,
    ) -> Option<ReportedObject> {
        let (registry, target, resource) = (&server.registry, &record.target, &record.target.resource);
        let (group, version) = (resource.group.as_str(), resource.version.as_str());
        let row = registry.find(Some(&target.workspace), group, version, &resource.resource)?;
        if !resource.kind.is_empty() && resource.kind != row.kind {
            return None;
        }
        let key = row.key(&object_ref(target));
        if !registry.placements.is_on(scope.cluster, scope.uid, &key) {
            return None;
        }
        let found = objects.read(&key).await?;
        // An object with the same name but another UID is another object.
        if found.uid != target.uid || !scope.may_have(registry, &target.workspace, &found.placement) {
            return None;
        }
        let belongs_to_other_cluster = found.placement.share(scope.cluster).is_some()
            && scope.share(registry, &target.workspace, &found.placement).is_none();
        Some(ReportedObject { row, is_being_deleted: found.is_being_deleted, belongs_to_other_cluster })
    }
}

fn object_ref(target: &ObjectTarget) -> ObjectRef<'_> {
    ObjectRef { workspace: &target.workspace, namespace: &target.namespace, name: &target.name }
}

async fn apply_record(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    record: &Record,
    reported: ReportedObject,
) -> Result<(), Status> {
    let target = &record.target;
    let ReportedObject { row, is_being_deleted, belongs_to_other_cluster } = reported;
    let object_ref = object_ref(target);
    let outcome = match record.state {
        State::Refused if target.is_namespace() && is_being_deleted => {
            events::record_waiting(server, scope, target, &row.kind, &record.message).await
        }
        // Namespaces have no status from clusters.
        _ if target.is_namespace() && record.state != State::Gone => Ok(()),
        State::Gone => {
            let outcome = confirm_deleted(server, scope, record, &row, &object_ref).await;
            if let (Ok(true), Some(why)) = (&outcome, record.retained())
                && let Err(status) =
                    events::record_retained(server, scope, &record.target, &row.kind, why).await
            {
                tracing::warn!(%status, cluster = scope.cluster, object = record.target.name, "{why}");
            }
            outcome.map(drop)
        }
        _ if belongs_to_other_cluster => Ok(()),
        _ => records::write_within_limits(server, scope, record).await,
    };
    match outcome {
        // The object was deleted or recreated meanwhile.
        Err(status) if matches!(status.code(), 404 | 409) => Ok(()),
        other => other,
    }
}

/// Handles the confirmation that an object is gone from a cluster. Returns whether that ends a share.
async fn confirm_deleted(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    record: &Record,
    row: &Row,
    object_ref: &ObjectRef<'_>,
) -> Result<bool, Status> {
    let key = row.key(object_ref);
    let held = server.registry.placements.leaving_since(scope.cluster, scope.uid, &key).is_some();
    let change = |existing: &Value, current: &Placement| {
        let since = server.registry.placements.leaving_since(scope.cluster, scope.uid, &key);
        if record.since != 0 && since != Some(record.since) {
            let message =
                "the object was placed on the cluster again in the meantime: the report is outdated";
            return Err(Status::conflict(&row.group, &row.resource, object_ref.name, message));
        }
        let is_deleted = object::is_being_deleted(existing);
        if record.target.is_namespace() {
            if !is_deleted && scope.has_objects_in(&server.registry, object_ref.workspace, object_ref.name) {
                let message = "an object in the namespace is placed on the cluster";
                return Err(Status::conflict(&row.group, &row.resource, object_ref.name, message));
            }
            return Ok(current.confirm_removed(scope.cluster, scope.uid, true));
        }
        Ok(current.confirm_removed(scope.cluster, scope.uid, is_deleted))
    };
    let placed = server
        .registry
        .place(row, object_ref, Some(&record.target.uid), false, &NoAdmission, &change)
        .await?;
    let left = object_facts::placement(&placed.json);
    if left.is_some_and(|placement| placement.share(scope.cluster).is_some()) {
        return Ok(false);
    }
    match records::delete(server, scope.cluster, record).await {
        Err(status) if status.code() != 404 => Err(status),
        _ => Ok(held),
    }
}

pub(super) fn row(server: &Server, resource: &str) -> Result<Arc<Row>, Status> {
    let row = server.registry.catalog.find(ATOLL, "v1alpha1", resource);
    row.cloned().ok_or_else(Status::not_found_generic)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(name: &str, message: &str) -> Value {
        json!({
            "resource": { "group": "", "version": "v1", "resource": "configmaps", "kind": "ConfigMap", "namespaced": true },
            "workspace": "w", "namespace": "n", "name": name, "uid": name,
            "generation": 1, "state": "Applied", "message": message,
        })
    }

    #[test]
    fn last_record_about_an_object_counts() {
        let records = [record("a", "1"), record("b", "2"), record("a", "3")];
        let report = read(json!({ "records": records }).to_string().as_bytes()).unwrap();
        let found: Vec<(&str, &str)> =
            report.records.iter().map(|one| (one.target.name.as_str(), one.message.as_str())).collect();
        assert_eq!(found, [("b", "2"), ("a", "3")]);
    }

    #[test]
    fn version_and_kind_do_not_make_another_object() {
        let changed = |number: usize, field: &str, value: Value| {
            let mut record = record("a", &number.to_string());
            record["resource"][field] = value;
            record
        };
        let mut records: Vec<Value> =
            (0..1000).map(|number| changed(number, "kind", format!("Kind{number}").into())).collect();
        records.push(changed(1000, "version", "v2".into()));
        records.push(changed(1001, "namespaced", false.into()));
        records.push(record("b", ""));
        let report = read(json!({ "records": records }).to_string().as_bytes()).unwrap();
        let messages: Vec<&str> = report.records.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages, ["1001", ""]);
    }

    #[test]
    fn reports_are_limited() {
        let records: Vec<Value> = (0..=MAX_RECORDS).map(|number| record(&number.to_string(), "")).collect();
        let error = read(json!({ "records": records }).to_string().as_bytes()).unwrap_err();
        assert_eq!((error.code(), error.reason()), (413, "RequestEntityTooLarge"));
        assert!(read(json!({ "records": records[1..] }).to_string().as_bytes()).is_ok());
        assert_eq!(read(b"{").unwrap_err().code(), 400);
    }
}
