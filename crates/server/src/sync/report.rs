//! How objects fare in a cluster, and how the cluster is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_fleet::Placement;
use atoll_fleet::heartbeat;
use atoll_fleet::order::Order;
use atoll_fleet::view::{Record, Report, State, Target};
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{Place, Row, Unasked, Update};
use serde_json::{Value, json};
use tokio::task::{JoinError, JoinSet};

use super::family::Family;
use super::happenings;
use super::heartbeat::Heard;
use crate::Server;

/// Clusters whose reports are put in order. What is forgotten is heard as if it were the first.
const MOST: usize = 10_000;

/// The order of reports, by the uid of the cluster.
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

/// Who writes what is heard of clusters.
pub(super) const MANAGER: &str = "atoll-syncer";
/// Records of a report that are written at once: each waits for the disk, and those that wait together wait once.
const AT_ONCE: usize = 32;
/// Takes in a report. What is not this cluster's business is left out: a syncer may be late.
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
        return Err(Status::conflict(ATOLL, "clusters", cluster, "a later report has been heard already"));
    }
    let heard = Heard { server, workspace, cluster, uid };
    // What cannot be written of objects does not make a cluster silent.
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
        // Who lists events does not miss one.
        if let Err(status) = happenings::note(server, family, event).await {
            tracing::debug!(%status, cluster, "an event is not shown");
        }
    }
    // What was begun is waited for even if something has failed: it may be told again at once.
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
    // Nobody has a say in what is not placed on its cluster.
    if !server.registry.placements.is_on(family.cluster, family.uid, &row.key(&place)) {
        return Ok(());
    }
    // Nor in what only has the name of what is: somebody else's record would be written.
    let Ok(found) = server.registry.get(&row, &place) else { return Ok(()) };
    let found = super::parse(&found.json())?;
    let placement = Placement::of(&found);
    if object::uid(&found) != target.uid || !family.holds(&server.registry, &target.workspace, &placement) {
        return Ok(());
    }
    // Records go by the name of the cluster: while another one of that name has the object, the record is about that.
    let is_anothers = placement.share(family.cluster).is_some()
        && family.share(&server.registry, &target.workspace, &placement).is_none();
    let outcome = match record.state {
        // Of namespaces it is only known where they are.
        _ if target.is_namespace() && record.state != State::Gone => Ok(()),
        State::Gone => {
            let outcome = let_go(server, family, record, &row, &place).await;
            if let (Ok(()), Some(why)) = (&outcome, record.retained())
                && let Err(status) = happenings::retained(server, family, &record.target, why).await
            {
                tracing::warn!(%status, cluster = family.cluster, object = record.target.name, "{why}");
            }
            outcome
        }
        _ if is_anothers => Ok(()),
        _ => keep(server, family.cluster, record).await,
    };
    match outcome {
        // It was deleted meanwhile, or made anew.
        Err(status) if matches!(status.code(), 404 | 409) => Ok(()),
        other => other,
    }
}

/// A cluster has nothing of an object any longer.
async fn let_go(
    server: &Arc<Server>,
    family: Family<'_>,
    record: &Record,
    row: &Row,
    place: &Place<'_>,
) -> Result<(), Status> {
    let key = row.key(place);
    let change = |existing: &Value, current: &Placement| {
        let since = server.registry.placements.leaving_since(family.cluster, family.uid, &key);
        if record.since != 0 && since != Some(record.since) {
            let message = "it was to be there again meanwhile: what is said is of the time before";
            return Err(Status::conflict(&row.group, &row.resource, place.name, message));
        }
        let is_deleted = object::is_being_deleted(existing);
        if record.target.is_namespace() {
            if !is_deleted && family.has_placed(&server.registry, place.workspace, place.name) {
                let message = "something in it is placed on the cluster";
                return Err(Status::conflict(&row.group, &row.resource, place.name, message));
            }
            return Ok(current.let_go(family.cluster, family.uid, true));
        }
        Ok(current.let_go(family.cluster, family.uid, is_deleted))
    };
    let placed = server.registry.place(row, place, Some(&record.target.uid), false, &change).await?;
    if Placement::of(&super::parse(&placed.json)?).share(family.cluster).is_some() {
        return Ok(());
    }
    forget(server, family.cluster, record).await
}

fn name(cluster: &str, record: &Record) -> String {
    format!("{}.{cluster}", record.target.uid)
}

/// Where records of objects without a namespace are.
fn namespace(record: &Record) -> &str {
    match record.target.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

pub(super) fn row(server: &Server, resource: &str) -> Result<Arc<Row>, Status> {
    let row = server.registry.catalog.find(ATOLL, "v1alpha1", resource);
    row.cloned().ok_or_else(Status::not_found_generic)
}

async fn forget(server: &Arc<Server>, cluster: &str, record: &Record) -> Result<(), Status> {
    let row = row(server, "objectstatuses")?;
    let name = name(cluster, record);
    let place = Place { workspace: &record.target.workspace, namespace: namespace(record), name: &name };
    let options = atoll_registry::DeleteOptions::default();
    server.registry.delete(&row, &place, &options, &Unasked).await.map(|_| ())
}

/// Notes that a cluster does not get an object as it is now, and why. What it had before goes on, and so does what is known
/// of that. It is said once more when the object changes, so nothing is lost if it cannot be noted.
pub async fn refuse(server: &Arc<Server>, cluster: &str, target: Target, message: String) {
    let mut record = Record { target, state: State::Refused, message, ..Record::default() };
    let known = row(server, "objectstatuses").and_then(|row| {
        let name = name(cluster, &record);
        let place = Place { workspace: &record.target.workspace, namespace: namespace(&record), name: &name };
        super::parse(&server.registry.get(&row, &place)?.json())
    });
    if let Ok(mut known) = known {
        record.generation = known["status"]["generation"].as_i64().unwrap_or(0);
        record.observed = known["status"]["observed"] == true;
        record.status = known["status"]["status"].take();
    }
    if let Err(status) = keep(server, cluster, &record).await {
        tracing::warn!(cluster, object = record.target.name, error = %status, "cannot note that an override does not apply");
    }
}

/// One record for each object and cluster.
async fn keep(server: &Arc<Server>, cluster: &str, record: &Record) -> Result<(), Status> {
    let row = row(server, "objectstatuses")?;
    let target = &record.target;
    let name = name(cluster, record);
    let place = Place { workspace: &target.workspace, namespace: namespace(record), name: &name };
    let resource = &target.resource;
    let wanted = json!({
        "apiVersion": row.api_version(),
        "kind": row.kind,
        "metadata": { "name": name, "namespace": place.namespace },
        "spec": {
            "cluster": cluster,
            "resource": { "group": resource.group, "version": resource.version, "resource": resource.resource },
            "namespace": target.namespace,
            "name": target.name,
            "uid": target.uid,
        },
        "status": {
            "generation": record.generation,
            "state": record.state,
            "message": record.message,
            "observed": record.observed,
            "status": record.status,
        },
    });
    let transform = |existing: &Value| {
        let mut next = existing.clone();
        next["status"] = wanted["status"].clone();
        next
    };
    let is_there = server.registry.get(&row, &place).is_ok();
    if !is_there {
        let created =
            server.registry.create(&row, &place, wanted.clone(), Some(MANAGER), false, &Unasked).await;
        match created {
            Err(status) if status.reason() == "AlreadyExists" => {}
            other => return other.map(|_| ()),
        }
    }
    write_status(server, &row, &place, &transform).await
}

/// Writes the status of something that is there.
pub(super) async fn write_status(
    server: &Arc<Server>,
    row: &Row,
    place: &Place<'_>,
    change: &(dyn Fn(&Value) -> Value + Sync),
) -> Result<(), Status> {
    let transform = |existing: Option<&Value>| match existing {
        Some(existing) => Ok(change(existing)),
        None => Err(Status::not_found(&row.group, &row.resource, place.name)),
    };
    let update = Update {
        subresource: "status",
        manager: Some(MANAGER),
        transform: &transform,
        admission: &Unasked,
        uid: None,
        create_missing: false,
        dry_run: false,
    };
    server.registry.update(row, place, &update).await.map(|_| ())
}
