//! POST on a collection.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go

use std::sync::Arc;

use atoll_admission::AdmissionOptions;
use atoll_authn::User;
use atoll_meta::{Status, object};
use atoll_registry::Row;
use atoll_registry::strategy::Requester;
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
    let options = WriteOptions::parse("CreateOptions", &call.query, Vec::new())?;
    let decode = || {
        let decoded = decode::object(row, &call.headers, &call.body, options.field_validation);
        let Decoded { mut object, mut warnings } = decoded.map_err(|status| quotable_error(row, status))?;
        warnings.extend(dedup_owners(&mut object, false));
        warnings.extend(row.request_warnings(&object));
        Ok((object, warnings))
    };
    let (object, mut warnings) = with_body(server, call, decode).await??;
    let remarks = Warnings::default();
    let created = create(server, row, call, object, &options, &remarks).await;
    warnings.extend(remarks.take());
    Ok(warn(created, &warnings, call))
}

async fn create(
    server: &Arc<Server>,
    row: &Row,
    call: &Call,
    mut object: Value,
    options: &WriteOptions,
    remarks: &Warnings,
) -> Result<Response<Body>, Status> {
    check_namespace(row, call, &object)?;
    let object_ref = object_ref(row, call)?;
    let User { name, uid, groups, extra, .. } = &call.user;
    (row.strategy.set_requester)(&mut object, &Requester { name, uid, groups, extra });
    let manager = options.manager(&call.headers);
    let name = object::name(&object).to_string();
    let admission = RequestAdmission {
        name: &name,
        ..RequestAdmission::new(
            server,
            row,
            call,
            object_ref,
            AdmissionOptions::Write { manager: &manager, dry_run: options.dry_run },
            remarks,
        )
    };
    let created =
        server.registry.create(row, &object_ref, object, Some(&manager), options.dry_run, &admission).await;
    admission.delete_unused(&created).await;
    respond::stored_object(row, StatusCode::CREATED, created?.json, call).await
}
