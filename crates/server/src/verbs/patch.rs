//! PATCH: a JSON patch or a merge patch, applied to whatever is there when it is written.

use std::sync::Arc;

use atoll_admission::Operation;
use atoll_merge::{check_merge_patch, json_patch, merge_patch, unknown_fields};
use atoll_meta::{FieldError, FieldPath, Status, json};
use atoll_registry::{Row, Update};
use http::{Response, StatusCode};
use serde_json::Value;

use super::update::check_name;
use super::{admit, check_namespace, place, warn, without_repeated_owners};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::negotiate::media_type;
use crate::options::WriteOptions;
use crate::{decode, respond};

/// A patch that has been read.
pub struct Patch {
    kind: PatchKind,
    value: Value,
    /// What strict reading of the patch itself objects to.
    pub remarks: Vec<String>,
}

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let kind = PatchKind::of(call)?;
    let options = options(call)?;
    let patch = Patch::parse(kind, &call.body)?;
    let place = place(row, call)?;
    // What the last try remarked on is what the client is told.
    let warnings = std::sync::Mutex::new(Vec::new());
    let transform = |existing: Option<&Value>| {
        // Only PUT and apply create what is missing.
        let existing = existing.ok_or_else(|| Status::not_found(&row.group, &row.resource, place.name))?;
        let mut object = existing.clone();
        patch.apply(&mut object)?;
        let shown = |object: &Value| json::to_string(object);
        let read =
            decode::patched(row, object.clone()).map_err(|error| unreadable(&shown(&object), &error))?;
        let (mut patched, unknown) = read;
        let remarks = patch.remarks.iter().cloned().chain(unknown).collect();
        let heeded = decode::heed(remarks, options.field_validation);
        let mut heeded = heeded.map_err(|error| unreadable(&shown(&object), &error))?;
        heeded.extend(without_repeated_owners(&mut patched, true));
        *warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = heeded;
        check_namespace(row, call, &patched)?;
        check_name(&patched, &call.info.name)?;
        Ok(patched)
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
    let updated = server.registry.update(row, &place, &update).await;
    let warnings = warnings.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let answer = updated.map(|(patched, _)| respond::object(StatusCode::OK, patched.json, call.output));
    Ok(warn(answer, &warnings, call))
}

/// A patch that makes something of which no object can be read.
pub fn unreadable(patched: &str, error: &str) -> Status {
    let error = FieldError::invalid(&FieldPath::new("patch"), patched, error);
    Status::invalid("", "", "", vec![error])
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
        let parsed = parsed.map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        let duplicates = parsed.duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        let remarks = match kind {
            PatchKind::Json => {
                let duplicates = duplicates.map(|remark| format!("json patch {remark}"));
                duplicates.chain(unknown_fields(&parsed.value)).collect()
            }
            PatchKind::Merge => {
                check_merge_patch(&parsed.value).map_err(|error| error.status())?;
                duplicates.collect()
            }
        };
        Ok(Patch { kind, value: parsed.value, remarks })
    }

    pub fn apply(&self, target: &mut Value) -> Result<(), Status> {
        match self.kind {
            PatchKind::Json => json_patch(target, &self.value).map_err(|error| error.status()),
            PatchKind::Merge => {
                merge_patch(target, &self.value);
                Ok(())
            }
        }
    }
}
