//! ObjectStatus records: the status of one object in one cluster.

use std::sync::Arc;

use atoll_fleet::view::{ObjectTarget, Record, ServiceEndpoints, State};
use atoll_meta::{Status, object};
use atoll_registry::{Admission, DeleteOptions, LimitsOnly, NoAdmission, ObjectRef, Row, Update};
use serde_json::{Value, json};

use super::cluster_scope::ClusterScope;
use super::report::{MANAGER, row};
use crate::Server;

/// The message of a record whose status exceeds the limit of the workspace.
const OMITTED: &str = "the status is omitted: the workspace has reached its limit";

fn name(cluster: &str, record: &Record) -> String {
    format!("{}.{cluster}", record.target.uid)
}

/// The namespace of a record. Records of objects without a namespace are in `default`.
fn namespace(record: &Record) -> &str {
    match record.target.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

/// Whether a cluster has reported that it has an object.
pub fn is_reported(server: &Server, scope: ClusterScope<'_>, target: &ObjectTarget) -> bool {
    let record = Record { target: target.clone(), ..Record::default() };
    let name = name(scope.cluster, &record);
    let object_ref = ObjectRef { workspace: &target.workspace, namespace: namespace(&record), name: &name };
    let found = row(server, "objectstatuses").and_then(|row| server.registry.get(&row, &object_ref));
    let found = found.and_then(|found| super::parse(&found.json()));
    found.is_ok_and(|found| {
        found["spec"]["clusterUID"] == scope.uid && found["status"]["generation"].as_i64() > Some(0)
    })
}

pub async fn delete(server: &Arc<Server>, cluster: &str, record: &Record) -> Result<(), Status> {
    let row = row(server, "objectstatuses")?;
    let name = name(cluster, record);
    let object_ref =
        ObjectRef { workspace: &record.target.workspace, namespace: namespace(record), name: &name };
    server.registry.delete(&row, &object_ref, &DeleteOptions::default(), &NoAdmission).await.map(drop)
}

/// Records that a cluster does not get the current version of an object, and why. The previous version stays
/// in the cluster, and so does its status. If the write fails, the refusal is recorded again when the object
/// changes.
pub async fn record_refusal(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    target: ObjectTarget,
    message: String,
) {
    let cluster = scope.cluster;
    let mut record = Record { target, state: State::Refused, message, ..Record::default() };
    let known = row(server, "objectstatuses").and_then(|row| {
        let name = name(cluster, &record);
        let object_ref =
            ObjectRef { workspace: &record.target.workspace, namespace: namespace(&record), name: &name };
        super::parse(&server.registry.get(&row, &object_ref)?.json())
    });
    if let Ok(mut known) = known {
        record.generation = known["status"]["generation"].as_i64().unwrap_or(0);
        record.observed = known["status"]["observed"] == true;
        record.held = known["status"]["held"] == true;
        record.pods = serde_json::from_value(known["status"]["pods"].take()).ok();
        record.endpoints = serde_json::from_value(known["status"]["endpoints"].take()).ok();
        record.replicas = known["status"]["replicas"].as_i64();
        record.status = known["status"]["status"].take();
    }
    if let Err(status) = write_within_limits(server, scope, &record).await {
        tracing::warn!(cluster, object = record.target.name, error = %status, "cannot record that the object was refused");
    }
}

/// Writes the one record of an object and a cluster. It counts for the limits of the workspace: an agent must not fill the
/// memory of the control plane with statuses. Beyond the limit, the record is written without the status.
pub async fn write_within_limits(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    record: &Record,
) -> Result<(), Status> {
    match write(server, scope, record, &LimitsOnly).await {
        Err(status) if status.code() == 403 => {
            let message = match record.message.as_str() {
                "" => OMITTED.to_string(),
                message => format!("{message}; {OMITTED}"),
            };
            let endpoints = record.endpoints.clone().map(ServiceEndpoints::emptied);
            let without = Record { status: Value::Null, endpoints, message, ..record.clone() };
            write(server, scope, &without, &NoAdmission).await
        }
        outcome => outcome,
    }
}

async fn write<A: Admission>(
    server: &Arc<Server>,
    scope: ClusterScope<'_>,
    record: &Record,
    admission: &A,
) -> Result<(), Status> {
    let row = row(server, "objectstatuses")?;
    let (target, resource) = (&record.target, &record.target.resource);
    let name = name(scope.cluster, record);
    let object_ref = ObjectRef { workspace: &target.workspace, namespace: namespace(record), name: &name };
    let mut wanted = json!({
        "apiVersion": row.api_version(),
        "kind": row.kind,
        "metadata": { "name": name, "namespace": object_ref.namespace },
        "spec": {
            "cluster": scope.cluster,
            "clusterUID": scope.uid,
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
    if record.held {
        wanted["status"]["held"] = true.into();
    }
    if let Some(pods) = &record.pods {
        wanted["status"]["pods"] = json!(pods);
    }
    if let Some(endpoints) = &record.endpoints {
        wanted["status"]["endpoints"] = json!(endpoints);
    }
    if let Some(replicas) = record.replicas {
        wanted["status"]["replicas"] = replicas.into();
    }
    let change = |existing: &Value| {
        let mut next = existing.clone();
        next["status"] = wanted["status"].clone();
        // A syncer that has just started does not know the endpoints yet, which does not mean that there are none.
        if next["status"]["endpoints"].is_null() && existing["status"]["endpoints"].is_object() {
            next["status"]["endpoints"] = existing["status"]["endpoints"].clone();
        }
        next
    };
    match server.registry.get(&row, &object_ref).and_then(|found| super::parse(&found.json())) {
        // The record belongs to another cluster that had the same name before.
        Ok(found) if found["spec"]["clusterUID"] != wanted["spec"]["clusterUID"] => {
            let options =
                DeleteOptions { uid: Some(object::uid(&found).to_string()), ..DeleteOptions::default() };
            match server.registry.delete(&row, &object_ref, &options, &NoAdmission).await {
                Err(status) if !matches!(status.code(), 404 | 409) => return Err(status),
                _ => {}
            }
        }
        Ok(_) => return write_status(server, &row, &object_ref, &change, admission).await,
        Err(_) => {}
    }
    match server.registry.create(&row, &object_ref, wanted.clone(), Some(MANAGER), false, admission).await {
        Err(status) if status.reason() == "AlreadyExists" => {
            write_status(server, &row, &object_ref, &change, admission).await
        }
        outcome => outcome.map(drop),
    }
}

/// Writes the status of an existing object.
pub(super) async fn write_status<A: Admission>(
    server: &Arc<Server>,
    row: &Row,
    object_ref: &ObjectRef<'_>,
    change: &(dyn Fn(&Value) -> Value + Sync),
    admission: &A,
) -> Result<(), Status> {
    let transform = |existing: Option<&Value>| match existing {
        Some(existing) => Ok(change(existing)),
        None => Err(Status::not_found(&row.group, &row.resource, object_ref.name)),
    };
    let update = Update {
        subresource: "status",
        manager: Some(MANAGER),
        size: 0,
        transform: &transform,
        admission,
        uid: None,
        create_missing: false,
        dry_run: false,
    };
    server.registry.update(row, object_ref, &update).await.map(drop)
}
