//! PATCH: a JSON patch, a merge patch or a configuration, applied to whatever is there when it is written.

use std::sync::Arc;

use atoll_admission::Operation;
use atoll_merge::apply::Author;
use atoll_merge::{check_merge_patch, json_patch, merge_patch, unknown_fields};
use atoll_meta::{FieldError, FieldPath, Status, json};
use atoll_registry::{Managed, Row, Update, resets};
use http::{Response, StatusCode};
use serde_json::Value;

use super::apply::{self, Config};
use super::update::check_name;
use super::{admit, check_namespace, place, warn, without_repeated_owners};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::negotiate::media_type;
use crate::options::WriteOptions;
use crate::{decode, respond};

/// A patch that has been read.
pub enum Patch {
    Json { operations: Value, remarks: Vec<String> },
    Merge { patch: Value, remarks: Vec<String> },
    Apply(Config),
}

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let kind = PatchKind::of(call)?;
    let options = options(call, kind)?;
    let patch = Patch::parse(kind, &call.body)?;
    let place = place(row, call)?;
    let manager = options.manager(&call.headers);
    let applies = kind == PatchKind::Apply;
    // What the last try remarked on is what the client is told.
    let warnings = std::sync::Mutex::new(Vec::new());
    let transform = |existing: Option<&Value>| {
        // Only PUT and apply create what is missing.
        if existing.is_none() && !applies {
            return Err(Status::not_found(&row.group, &row.resource, place.name));
        }
        let author = Author {
            manager: &manager,
            subresource: &call.info.subresource,
            time: &server.registry.now(),
            resets: resets::of(row, &call.info.subresource),
        };
        let object = patch.made_of(existing, &row.managed, &author, &options)?;
        let (mut patched, mut heeded) = match &patch {
            Patch::Apply(config) => {
                let read = apply::read(row, object, existing.is_none())?;
                (read, config.heed(options.field_validation)?.into_iter().collect::<Vec<_>>())
            }
            Patch::Json { remarks, .. } | Patch::Merge { remarks, .. } => {
                let unreadable = |error: String| unreadable(&json::to_string(&object), &error);
                let (patched, unknown) = decode::patched(row, object.clone()).map_err(unreadable)?;
                let remarks = remarks.iter().cloned().chain(unknown).collect();
                (patched, decode::heed(remarks, options.field_validation).map_err(unreadable)?)
            }
        };
        heeded.extend(without_repeated_owners(&mut patched, true));
        *warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = heeded;
        check_namespace(row, call, &patched)?;
        check_name(&patched, &call.info.name)?;
        Ok(patched)
    };
    let update = Update {
        subresource: &call.info.subresource,
        // Applying says itself who manages what then.
        manager: (!applies).then_some(&*manager),
        transform: &transform,
        admit: &|new: &Value, old: Option<&Value>| {
            let operation = if old.is_some() { Operation::Update } else { Operation::Create };
            if old.is_none() {
                call.workspace.check_create(&row.group, &row.resource, new)?;
            }
            admit(server, row, call, &place, operation, place.name)
        },
        uid: None,
        create_missing: applies && call.info.subresource.is_empty(),
        dry_run: options.dry_run,
    };
    let updated = server.registry.update(row, &place, &update).await;
    let warnings = warnings.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let answer = updated.map(|(patched, created)| {
        let code = if created { StatusCode::CREATED } else { StatusCode::OK };
        respond::object(code, patched.json, call.output)
    });
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
    Apply,
}

impl PatchKind {
    pub fn of(call: &Call) -> Result<Self, Status> {
        match media_type(&call.headers).as_deref() {
            Some("application/json-patch+json") => Ok(PatchKind::Json),
            Some("application/merge-patch+json") => Ok(PatchKind::Merge),
            Some("application/apply-patch+yaml") => Ok(PatchKind::Apply),
            _ => Err(Status::unsupported_media_type_generic()),
        }
    }
}

pub fn options(call: &Call, kind: PatchKind) -> Result<WriteOptions, Status> {
    let mut errors = Vec::new();
    if kind == PatchKind::Apply {
        if call.query.get("fieldManager").unwrap_or_default().is_empty() {
            errors.push(FieldError::required(&FieldPath::new("fieldManager"), "is required for apply patch"));
        }
    } else if call.query.get("force").is_some() {
        let message = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden(&FieldPath::new("force"), message));
    }
    WriteOptions::parse("PatchOptions", &call.query, errors)
}

impl Patch {
    pub fn parse(kind: PatchKind, body: &[u8]) -> Result<Self, Status> {
        if kind == PatchKind::Apply {
            return Config::parse(body).map(Patch::Apply);
        }
        let parsed = json::parse(body);
        let parsed = parsed.map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        let duplicates = parsed.duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        if kind == PatchKind::Json {
            let duplicates = duplicates.map(|remark| format!("json patch {remark}"));
            let remarks = duplicates.chain(unknown_fields(&parsed.value)).collect();
            return Ok(Patch::Json { operations: parsed.value, remarks });
        }
        check_merge_patch(&parsed.value).map_err(|error| error.status())?;
        Ok(Patch::Merge { remarks: duplicates.collect(), patch: parsed.value })
    }

    /// What the patch makes of an object, `None` being none.
    pub fn made_of(
        &self,
        existing: Option<&Value>,
        managed: &Managed,
        author: &Author<'_>,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let existing_or_none = || existing.cloned().unwrap_or_default();
        match self {
            Patch::Apply(config) => config.apply(managed, existing, author, options),
            Patch::Json { operations, .. } => {
                let mut object = existing_or_none();
                json_patch(&mut object, operations).map_err(|error| error.status())?;
                Ok(object)
            }
            Patch::Merge { patch, .. } => {
                let mut object = existing_or_none();
                merge_patch(&mut object, patch);
                Ok(object)
            }
        }
    }
}
