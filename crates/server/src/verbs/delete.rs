//! DELETE on one object.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go

use std::sync::Arc;

use atoll_admission::AdmissionOptions;
use atoll_meta::Status;
use atoll_registry::{DeleteOptions, DeleteResult, Row};
use http::{Response, StatusCode};

use super::admission::RequestAdmission;
use super::patch::Warnings;
use super::{object_ref, warn, with_body};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::{decode, options, respond};

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = with_body(server, call, || read_options(call)).await??;
    let object_ref = object_ref(row, call)?;
    let warnings = Warnings::default();
    let admission =
        RequestAdmission::new(server, row, call, object_ref, AdmissionOptions::Delete(&options), &warnings);
    let deleted = server.registry.delete(row, &object_ref, &options, &admission).await;
    let answer = match deleted {
        Ok(DeleteResult::Removed(answer) | DeleteResult::Terminating(answer)) => {
            respond::stored_object(row, StatusCode::OK, answer.json, call).await
        }
        Ok(DeleteResult::Status(status)) => Ok(respond::status(&status, call.output)),
        Err(status) => Err(status),
    };
    Ok(warn(answer, &warnings.take(), call))
}

/// Reads the options from the body if there is one, else from the query.
pub fn read_options(call: &Call) -> Result<DeleteOptions, Status> {
    if call.body.is_empty() {
        return options::delete(&call.query, None);
    }
    let (group, version) = ("meta.k8s.io", "v1");
    let body = decode::options(group, version, "DeleteOptions", &call.headers, &call.body)?;
    options::delete(&call.query, Some(&body))
}
