//! The hooks of dialects in requests: admission, protected metadata, and subresources.

use std::sync::Arc;

use atoll_admission::AdmissionOptions;
use atoll_meta::{Status, json};
use atoll_registry::dialect::{DialectSubresource, DialectWrite, SubresourceRequest};
use atoll_registry::{Row, Update};
use http::{Response, StatusCode};
use serde_json::Value;

use super::admission::RequestAdmission;
use super::object_ref;
use super::patch::Warnings;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::WriteOptions;
use crate::{local, respond};

impl RequestAdmission<'_> {
    /// Calls the dialects of the workspace for an object that is about to be written.
    pub(super) async fn mutate_by_dialects(
        &self,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        self.move_sealed_fields(new, old).await?;
        let is_controller = local::is_controller(self.user);
        for dialect in self.server.registry.enabled_dialects(self.object_ref.workspace) {
            if !is_controller {
                dialect.keep_protected(self.row, new, old);
            }
            dialect.mutate(&self.dialect_write(old), new)?;
        }
        Ok(())
    }

    /// Lets the dialects of the workspace check an object.
    pub(super) fn validate_by_dialects(&self, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        let dialects = self.server.registry.enabled_dialects(self.object_ref.workspace);
        dialects.iter().try_for_each(|dialect| dialect.validate(&self.dialect_write(old), new))
    }

    fn dialect_write<'w>(&'w self, old: Option<&'w Value>) -> DialectWrite<'w> {
        DialectWrite {
            row: self.row,
            subresource: self.subresource,
            object_ref: self.object_ref,
            user: &self.user.name,
            old,
        }
    }
}

/// The subresource of a dialect that a request is about.
pub fn subresource(server: &Server, row: &Row, call: &Call) -> Option<DialectSubresource> {
    let info = &call.info;
    if info.subresource.is_empty() || info.name.is_empty() || !info.rest.is_empty() {
        return None;
    }
    server.registry.dialect_subresource(call.workspace.id().ok()?, row, &info.subresource)
}

/// Handles a request for a subresource of a dialect.
pub async fn handle(
    server: &Arc<Server>,
    row: &Row,
    call: &Call,
    subresource: DialectSubresource,
) -> Result<Response<Body>, Status> {
    let verb = call.info.verb;
    if !subresource.verbs.contains(&verb) {
        return Err(Status::method_not_supported(&row.group, &row.resource, verb));
    }
    let object_ref = object_ref(row, call)?;
    let run = |object: &Value, body: &Value| (subresource.handle)(&SubresourceRequest { verb, object, body });
    if verb == "get" {
        let found = server.registry.get(row, &object_ref)?;
        let object = parse(&row.to_served(found).json())?;
        return Ok(respond::value(StatusCode::OK, &run(&object, &Value::Null)?, call.output));
    }
    let options = WriteOptions::parse("UpdateOptions", &call.query, Vec::new())?;
    let body = json::parse(&call.body).map_err(|error| {
        Status::bad_request(format!("the body of {} is not JSON: {error}", subresource.name))
    })?;
    let (warnings, manager) = (Warnings::default(), options.manager(&call.headers));
    let admission = RequestAdmission::new(
        server,
        row,
        call,
        object_ref,
        AdmissionOptions::Write { manager: &manager, dry_run: options.dry_run },
        &warnings,
    );
    let transform = |existing: Option<&Value>| {
        let missing = || Status::not_found(&row.group, &row.resource, object_ref.name);
        run(existing.ok_or_else(missing)?, &body.value)
    };
    let update = Update {
        subresource: "",
        manager: Some(&manager),
        size: call.body.len(),
        transform: &transform,
        admission: &admission,
        uid: None,
        create_missing: false,
        dry_run: options.dry_run,
    };
    let updated = server.registry.update(row, &object_ref, &update).await;
    admission.delete_unused(&updated).await;
    let code = if verb == "create" { StatusCode::CREATED } else { StatusCode::OK };
    let answer = respond::stored_object(row, code, updated?.0.json, call).await;
    Ok(super::warn(answer, &warnings.take(), call))
}

fn parse(stored: &[u8]) -> Result<Value, Status> {
    json::parse(stored).map(|parsed| parsed.value).map_err(|error| Status::internal_error(error.to_string()))
}
