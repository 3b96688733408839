//! POST of an Eviction to a Pod.

// upstream: pkg/registry/core/pod/storage/eviction.go

use std::sync::Arc;

use atoll_admission::AdmissionOptions;
use atoll_meta::{FieldError, FieldPath, Status, object};
use atoll_registry::{Admission, Row, size_of};
use http::Response;
use serde_json::Value;

use super::admission::RequestAdmission;
use super::patch::Warnings;
use super::{check_namespace, object_ref, warn, with_body};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::{self, WriteOptions};
use crate::{decode, respond};

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let write = WriteOptions::parse("CreateOptions", &call.query, Vec::new())?;
    let kind = ("policy", "v1", "Eviction");
    let decode = || decode::other_kind(kind, &call.headers, &call.body, write.field_validation);
    let decoded = with_body(server, call, decode).await??;
    let (mut warnings, remarks) = (decoded.warnings, Warnings::default());
    let done = evict(server, row, call, decoded.object, &write, &remarks).await;
    warnings.extend(remarks.take());
    Ok(warn(done, &warnings, call))
}

async fn evict(
    server: &Arc<Server>,
    row: &Row,
    call: &Call,
    mut eviction: Value,
    write: &WriteOptions,
    warnings: &Warnings,
) -> Result<Response<Body>, Status> {
    check_namespace(row, call, &eviction)?;
    let (object_ref, manager) = (object_ref(row, call)?, write.manager(&call.headers));
    let admission = RequestAdmission::new(
        server,
        row,
        call,
        object_ref,
        AdmissionOptions::Write { manager: &manager, dry_run: write.dry_run },
        warnings,
    );
    admission.mutate(&mut eviction, None).await?;
    if object::name(&eviction) != call.info.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let own = &eviction["deleteOptions"];
    let forced = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if own[forced] == true {
        let path = FieldPath::new("deleteOptions").child(forced);
        let message = "can not be set for pod eviction, try after removing the option";
        let error = FieldError::invalid(&path, true, message);
        return Err(Status::invalid("policy", "Eviction", &call.info.name, vec![error]));
    }
    let mut options = options::delete(&call.query, Some(own))?;
    options.dry_run |= write.dry_run;
    admission.validate(Some(&eviction), None, size_of(&eviction)).await?;
    server.registry.evict(row, &object_ref, &options).await?;
    Ok(respond::status(&Status::success_with_code(201), call.output))
}
