//! PATCH: a JSON patch or a merge patch, applied to whatever is there when it is written.

use std::sync::Arc;

use atoll_admission::Operation;
use atoll_merge::{check_merge_patch, json_patch, merge_patch};
use atoll_meta::{FieldError, FieldPath, Status, json};
use atoll_registry::{Row, Update};
use http::{Response, StatusCode};
use serde_json::Value;

use super::{admit, check_namespace, place, warn};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::negotiate::media_type;
use crate::options::WriteOptions;
use crate::{decode, respond};

/// A patch that has been read.
pub enum Patch {
    Json(Value),
    Merge(Value),
}

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let kind = PatchKind::of(call)?;
    let options = options(call)?;
    let patch = Patch::parse(kind, &call.body)?;
    let place = place(row, call)?;
    // What the last try remarked on is what the client is told.
    let warnings = std::sync::Mutex::new(Vec::new());
    let transform = |existing: Option<&Value>| {
        let mut patched = existing.cloned().unwrap_or_default();
        patch.apply(&mut patched)?;
        let decoded = decode::settle(row, patched, options.field_validation)?;
        check_namespace(row, call, &decoded.object)?;
        *warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = decoded.warnings;
        Ok(decoded.object)
    };
    let update = Update {
        subresource: &call.info.subresource,
        transform: &transform,
        admit: &|_: &Value, _: Option<&Value>| {
            admit(server, row, call, &place, Operation::Update, place.name)
        },
        uid: None,
        create_missing: false,
        dry_run: options.dry_run,
    };
    let (patched, _) = server.registry.update(row, &place, &update).await?;
    let warnings = warnings.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(warn(respond::object(StatusCode::OK, patched.json, call.output), &warnings))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
}

impl PatchKind {
    pub fn of(call: &Call) -> Result<Self, Status> {
        match media_type(&call.headers).as_deref() {
            Some("application/json-patch+json") => Ok(PatchKind::Json),
            Some("application/merge-patch+json") => Ok(PatchKind::Merge),
            _ => Err(Status::unsupported_media_type_generic()),
        }
    }
}

pub fn options(call: &Call) -> Result<WriteOptions, Status> {
    let mut errors = Vec::new();
    if call.query.get("force").is_some() {
        let message = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden(&FieldPath::new("force"), message));
    }
    WriteOptions::parse("PatchOptions", &call.query, errors)
}

impl Patch {
    pub fn parse(kind: PatchKind, body: &[u8]) -> Result<Self, Status> {
        let parsed = json::parse(body);
        let value =
            parsed.map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?.value;
        match kind {
            PatchKind::Json => Ok(Patch::Json(value)),
            PatchKind::Merge => {
                check_merge_patch(&value).map_err(|error| error.status())?;
                Ok(Patch::Merge(value))
            }
        }
    }

    pub fn apply(&self, target: &mut Value) -> Result<(), Status> {
        match self {
            Patch::Json(patch) => json_patch(target, patch).map_err(|error| error.status()),
            Patch::Merge(patch) => {
                merge_patch(target, patch);
                Ok(())
            }
        }
    }
}
