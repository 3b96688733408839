//! POST of a Binding, to a Pod or to its namespace.

// upstream: pkg/registry/core/pod/storage/storage.go

use std::sync::Arc;

use atoll_admission::AdmissionOptions;
use atoll_meta::{Status, object};
use atoll_registry::{Admission, ObjectRef, Row, reserved_metadata, size_of};
use http::Response;
use serde_json::Value;

use super::admission::RequestAdmission;
use super::patch::Warnings;
use super::{check_namespace, warn, with_body};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::WriteOptions;
use crate::{decode, respond};

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse("CreateOptions", &call.query, Vec::new())?;
    let kind = ("", "v1", "Binding");
    let decode = || decode::other_kind(kind, &call.headers, &call.body, options.field_validation);
    let decoded = with_body(server, call, decode).await??;
    let (mut warnings, remarks) = (decoded.warnings, Warnings::default());
    let done = bind(server, row, call, decoded.object, &options, &remarks).await;
    warnings.extend(remarks.take());
    Ok(warn(done, &warnings, call))
}

async fn bind(
    server: &Arc<Server>,
    row: &Row,
    call: &Call,
    mut binding: Value,
    options: &WriteOptions,
    warnings: &Warnings,
) -> Result<Response<Body>, Status> {
    check_namespace(row, call, &binding)?;
    let name = object::name(&binding).to_string();
    if !call.info.name.is_empty() && call.info.name != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let pods = server.registry.catalog.stored("", "pods").ok_or_else(Status::not_found_generic)?;
    let namespace = call.info.namespace.as_str();
    let object_ref = ObjectRef { workspace: call.workspace.id()?, namespace, name: &name };
    let manager = options.manager(&call.headers);
    let admission = RequestAdmission {
        name: &name,
        ..RequestAdmission::new(
            server,
            row,
            call,
            object_ref,
            AdmissionOptions::Write { manager: &manager, dry_run: options.dry_run },
            warnings,
        )
    };
    for (field, key) in reserved_metadata(&binding) {
        warnings.add_request_warning(format!("metadata.{field}[{key}] is ignored: a Binding cannot set it"));
    }
    admission.mutate(&mut binding, None).await?;
    admission.validate(Some(&binding), None, size_of(&binding)).await?;
    server.registry.bind(pods, &object_ref, &binding, options.dry_run).await?;
    Ok(respond::status(&Status::success_with_code(201), call.output))
}
