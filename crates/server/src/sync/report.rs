//! Reports of syncers about objects and the cluster.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use atoll_fleet::Placement;
use atoll_fleet::heartbeat;
use atoll_fleet::report_order::ReportOrder;
use atoll_fleet::view::{Record, Report, State};
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{NoAdmission, ObjectRef, Row};
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};

use super::cluster_scope::ClusterScope;
use super::heartbeat::ClusterHeartbeat;
use super::object_facts::FactsReader;
use super::{events, records};
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
    let mut seen = HashSet::with_capacity(records);
    let is_last: Vec<bool> =
        report.records.iter().rev().map(|record| seen.insert(record.target.clone())).collect();
    let mut is_last = is_last.into_iter().rev();
    report.records.retain(|_| is_last.next().unwrap_or(true));
    report.records = report.records.into_iter().map(Record::bounded).collect();
    Ok(report)
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
    records.retain(|record| scope.contains(&server.registry, &record.target.workspace));
    let mut writing = JoinSet::new();
    for record in records {
        if writing.len() >= CONCURRENT_WRITES
            && let Some(written) = writing.join_next().await
        {
            outcome = outcome.and(finished(written));
        }
        let (server, workspace) = (server.clone(), workspace.to_string());
        let (cluster, uid) = (cluster.to_string(), uid.to_string());
        writing.spawn(async move {
            let scope = ClusterScope { workspace: &workspace, cluster: &cluster, uid: &uid };
            apply_record(&server, scope, &record).await
        });
    }
    let mut objects = FactsReader::new(&server.registry);
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

async fn apply_record(server: &Arc<Server>, scope: ClusterScope<'_>, record: &Record) -> Result<(), Status> {
    let target = &record.target;
    let resource = &target.resource;
    let row =
        server.registry.find(Some(&target.workspace), &resource.group, &resource.version, &resource.resource);
    let Some(row) = row else { return Ok(()) };
    let object_ref =
        ObjectRef { workspace: &target.workspace, namespace: &target.namespace, name: &target.name };
    // A cluster may only report on objects that are placed on it.
    if !server.registry.placements.is_on(scope.cluster, scope.uid, &row.key(&object_ref)) {
        return Ok(());
    }
    // An object with the same name but another UID is another object.
    let Ok(found) = server.registry.get(&row, &object_ref) else { return Ok(()) };
    let found = super::parse(&found.json())?;
    let placement = Placement::of(&found);
    if object::uid(&found) != target.uid || !scope.may_have(&server.registry, &target.workspace, &placement) {
        return Ok(());
    }
    // Records are named by the cluster's name: while another cluster of that name has the object, the record
    // belongs to that one.
    let belongs_to_other_cluster = placement.share(scope.cluster).is_some()
        && scope.share(&server.registry, &target.workspace, &placement).is_none();
    let outcome = match record.state {
        State::Refused if target.is_namespace() && object::is_being_deleted(&found) => {
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
    if Placement::of(&super::parse(&placed.json)?).share(scope.cluster).is_some() {
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
    fn reports_are_limited() {
        let records: Vec<Value> = (0..=MAX_RECORDS).map(|number| record(&number.to_string(), "")).collect();
        let error = read(json!({ "records": records }).to_string().as_bytes()).unwrap_err();
        assert_eq!((error.code(), error.reason()), (413, "RequestEntityTooLarge"));
        assert!(read(json!({ "records": records[1..] }).to_string().as_bytes()).is_ok());
        assert_eq!(read(b"{").unwrap_err().code(), 400);
    }
}
