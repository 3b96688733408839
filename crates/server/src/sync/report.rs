//! Reports of syncers about objects and the cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_fleet::Placement;
use atoll_fleet::heartbeat;
use atoll_fleet::order::Order;
use atoll_fleet::view::{Record, Report, State};
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{Place, Row};
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};

use super::family::Family;
use super::heartbeat::Heard;
use super::{happenings, records};
use crate::Server;

/// Maximum number of clusters whose sequence numbers are kept. The next report of a forgotten cluster is
/// accepted.
const MOST: usize = 10_000;

/// Sequence numbers of reports, by the UID of the cluster.
#[derive(Default)]
pub struct Orders(Mutex<HashMap<String, Order>>);

impl Orders {
    fn admit(&self, uid: &str, run: u64, number: u64) -> bool {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.len() >= MOST && !orders.contains_key(uid) {
            orders.clear();
        }
        orders.entry(uid.to_string()).or_default().admits(run, number)
    }
}

/// The field manager of reports.
pub(super) const MANAGER: &str = "atoll-syncer";
/// Number of records that are written concurrently: writes that wait for the disk together share one sync.
const AT_ONCE: usize = 32;
/// Processes a report. Records of objects that are not placed on the cluster are ignored, because a syncer
/// may be late.
pub async fn heed(
    server: &Arc<Server>,
    workspace: &str,
    cluster: &str,
    uid: &str,
    report: Report,
) -> Result<(), Status> {
    let Report { mut records, mut events, heartbeat, farewell, run, number } = report;
    let heartbeat = heartbeat.map(|heartbeat| heartbeat::checked(&heartbeat)).transpose();
    let heartbeat = heartbeat.map_err(|errors| Status::invalid(ATOLL, "Cluster", cluster, errors))?;
    if !server.orders.admit(uid, run, number) {
        return Err(Status::conflict(ATOLL, "clusters", cluster, "a later report has already been received"));
    }
    let heard = Heard { server, workspace, cluster, uid };
    // The heartbeat is recorded even if records cannot be written.
    let mut outcome = match &heartbeat {
        Some(heartbeat) => heard.beat(heartbeat).await,
        None => Ok(()),
    };
    if let Some(holder) = &farewell {
        outcome = outcome.and(heard.farewell(holder).await);
    }
    let family = Family { workspace, cluster, uid };
    records.retain(|record| family.has(&server.registry, &record.target.workspace));
    let mut writing = JoinSet::new();
    for record in records.into_iter().map(Record::bounded) {
        if writing.len() >= AT_ONCE
            && let Some(written) = writing.join_next().await
        {
            outcome = outcome.and(finished(written));
        }
        let (server, workspace) = (server.clone(), workspace.to_string());
        let (cluster, uid) = (cluster.to_string(), uid.to_string());
        writing.spawn(async move {
            let family = Family { workspace: &workspace, cluster: &cluster, uid: &uid };
            take(&server, family, &record).await
        });
    }
    events.retain(|event| family.has(&server.registry, &event.target.workspace));
    for event in &events {
        // A lost event is not an error.
        if let Err(status) = happenings::note(server, family, event).await {
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

async fn take(server: &Arc<Server>, family: Family<'_>, record: &Record) -> Result<(), Status> {
    let target = &record.target;
    let resource = &target.resource;
    let row =
        server.registry.find(Some(&target.workspace), &resource.group, &resource.version, &resource.resource);
    let Some(row) = row else { return Ok(()) };
    let place = Place { workspace: &target.workspace, namespace: &target.namespace, name: &target.name };
    // A cluster may only report on objects that are placed on it.
    if !server.registry.placements.is_on(family.cluster, family.uid, &row.key(&place)) {
        return Ok(());
    }
    // An object with the same name but another UID is another object.
    let Ok(found) = server.registry.get(&row, &place) else { return Ok(()) };
    let found = super::parse(&found.json())?;
    let placement = Placement::of(&found);
    if object::uid(&found) != target.uid || !family.holds(&server.registry, &target.workspace, &placement) {
        return Ok(());
    }
    // Records are named by the cluster's name: while another cluster of that name has the object, the record
    // belongs to that one.
    let is_anothers = placement.share(family.cluster).is_some()
        && family.share(&server.registry, &target.workspace, &placement).is_none();
    let outcome = match record.state {
        State::Refused if target.is_namespace() && object::is_being_deleted(&found) => {
            happenings::waiting(server, family, target, &row.kind, &record.message).await
        }
        // Namespaces have no status from clusters.
        _ if target.is_namespace() && record.state != State::Gone => Ok(()),
        State::Gone => {
            let outcome = let_go(server, family, record, &row, &place).await;
            if let (Ok(true), Some(why)) = (&outcome, record.retained())
                && let Err(status) =
                    happenings::retained(server, family, &record.target, &row.kind, why).await
            {
                tracing::warn!(%status, cluster = family.cluster, object = record.target.name, "{why}");
            }
            outcome.map(drop)
        }
        _ if is_anothers => Ok(()),
        _ => records::keep(server, family, record).await,
    };
    match outcome {
        // The object was deleted or recreated meanwhile.
        Err(status) if matches!(status.code(), 404 | 409) => Ok(()),
        other => other,
    }
}

/// Handles the confirmation that an object is gone from a cluster. Returns whether that ends a share.
async fn let_go(
    server: &Arc<Server>,
    family: Family<'_>,
    record: &Record,
    row: &Row,
    place: &Place<'_>,
) -> Result<bool, Status> {
    let key = row.key(place);
    let held = server.registry.placements.leaving_since(family.cluster, family.uid, &key).is_some();
    let change = |existing: &Value, current: &Placement| {
        let since = server.registry.placements.leaving_since(family.cluster, family.uid, &key);
        if record.since != 0 && since != Some(record.since) {
            let message =
                "the object was placed on the cluster again in the meantime: the report is outdated";
            return Err(Status::conflict(&row.group, &row.resource, place.name, message));
        }
        let is_deleted = object::is_being_deleted(existing);
        if record.target.is_namespace() {
            if !is_deleted && family.has_placed(&server.registry, place.workspace, place.name) {
                let message = "an object in the namespace is placed on the cluster";
                return Err(Status::conflict(&row.group, &row.resource, place.name, message));
            }
            return Ok(current.let_go(family.cluster, family.uid, true));
        }
        Ok(current.let_go(family.cluster, family.uid, is_deleted))
    };
    let placed = server.registry.place(row, place, Some(&record.target.uid), false, &change).await?;
    if Placement::of(&super::parse(&placed.json)?).share(family.cluster).is_some() {
        return Ok(false);
    }
    match records::forget(server, family.cluster, record).await {
        Err(status) if status.code() != 404 => Err(status),
        _ => Ok(held),
    }
}

pub(super) fn row(server: &Server, resource: &str) -> Result<Arc<Row>, Status> {
    let row = server.registry.catalog.find(ATOLL, "v1alpha1", resource);
    row.cloned().ok_or_else(Status::not_found_generic)
}
