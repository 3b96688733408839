//! PUT on an object or one of its subresources.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go

use std::sync::Arc;

use atoll_admission::AdmissionOptions;
use atoll_fleet::scheduled;
use atoll_meta::{Status, object};
use atoll_registry::{Row, Update};
use http::{Response, StatusCode};
use serde_json::Value;

use super::admission::RequestAdmission;
use super::patch::Warnings;
use super::sealing::quotable_error;
use super::{check_namespace, dedup_owners, object_ref, warn, with_body};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::decode::Decoded;
use crate::options::WriteOptions;
use crate::{decode, respond};

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse("UpdateOptions", &call.query, Vec::new())?;
    let decode = || {
        let decoded = decode::object(row, &call.headers, &call.body, options.field_validation);
        let Decoded { mut object, mut warnings } = decoded.map_err(|status| quotable_error(row, status))?;
        warnings.extend(dedup_owners(&mut object, false));
        Ok((object, warnings))
    };
    let (object, mut warnings) = with_body(server, call, decode).await??;
    let remarks = Warnings::default();
    let updated = update(server, row, call, &object, &options, &remarks).await;
    warnings.extend(remarks.take());
    Ok(warn(updated, &warnings, call))
}

async fn update(
    server: &Arc<Server>,
    row: &Row,
    call: &Call,
    wanted: &Value,
    options: &WriteOptions,
    remarks: &Warnings,
) -> Result<Response<Body>, Status> {
    check_namespace(row, call, wanted)?;
    check_name(wanted, &call.info.name)?;
    let object_ref = object_ref(row, call)?;
    let uid = Some(object::uid(wanted)).filter(|uid| !uid.is_empty());
    let manager = options.manager(&call.headers);
    let admission = RequestAdmission::new(
        server,
        row,
        call,
        object_ref,
        AdmissionOptions::Write { manager: &manager, dry_run: options.dry_run },
        remarks,
    );
    let update = Update {
        subresource: &call.info.subresource,
        manager: Some(&manager),
        size: call.body.len(),
        transform: &|existing| {
            Ok(replacement(row, existing, wanted, (&call.info.subresource, &manager), remarks))
        },
        admission: &admission,
        uid,
        create_missing: false,
        dry_run: options.dry_run,
    };
    let updated = server.registry.update(row, &object_ref, &update).await;
    admission.delete_unused(&updated).await;
    let (updated, created) = updated?;
    let code = if created { StatusCode::CREATED } else { StatusCode::OK };
    respond::stored_object(row, code, updated.json, call).await
}

/// Returns the object that replaces the existing one. Manifests that are replaced again and again do not know where
/// another client, such as `atoll move`, has asked meanwhile for the object to run.
fn replacement(
    row: &Row,
    existing: Option<&Value>,
    wanted: &Value,
    (subresource, manager): (&str, &str),
    remarks: &Warnings,
) -> Value {
    let mut new = wanted.clone();
    if let Some(existing) = existing.filter(|_| subresource.is_empty()) {
        for (key, owner) in scheduled::keep_annotations_of_others(&mut new, existing, manager) {
            let (resource, name) = (&row.resource, object::name(&new));
            let flag = match object::namespace(existing) {
                "" => String::new(),
                namespace => format!(" --namespace {namespace}"),
            };
            remarks.add_request_warning(format!(
                "metadata.annotations[{key}] stays, because another field manager ({owner}) has set it; remove it with: \
                 kubectl annotate {resource} {name}{flag} {key}-"
            ));
        }
    }
    new
}

/// Checks that the object's name matches the URL.
pub fn check_name(wanted: &Value, name: &str) -> Result<(), Status> {
    match object::name(wanted) {
        given if given == name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}
