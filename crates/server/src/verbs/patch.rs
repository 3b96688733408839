//! PATCH: a JSON patch, merge patch, strategic merge patch or apply configuration, applied to the latest
//! version of the object.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go

mod apply;
mod strategic;

use std::sync::{Arc, Mutex, PoisonError};

use atoll_admission::AdmissionOptions;
use atoll_merge::apply::Author;
use atoll_merge::{check_merge_patch, json_patch, merge_patch, unknown_fields};
use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, Status, json};
use atoll_registry::{Row, Update, reset_fields};
use http::{Response, StatusCode};
use serde_json::Value;

use super::admission::RequestAdmission;
use super::sealing::{quotable_error, quotable_json};
use super::update::check_name;
use super::{check_namespace, dedup_owners, object_ref, warn, with_body};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::negotiate::media_type;
use crate::options::WriteOptions;
use crate::{decode, respond};

/// A parsed patch.
pub struct Patch {
    kind: PatchKind,
    pub value: Value,
    /// Findings of strict decoding of the patch itself.
    pub remarks: Vec<String>,
}

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let kind = PatchKind::of(call, row)?;
    let options = options(call, kind)?;
    // A missing object is reported before an invalid patch.
    let parse = || Patch::parse(kind, &call.body).map_err(|status| quotable_error(row, status));
    let patch = with_body(server, call, parse).await?;
    let object_ref = object_ref(row, call)?;
    let warnings = Warnings::default();
    let manager = options.manager(&call.headers);
    let applies = kind == PatchKind::Apply;
    let transform = |existing: Option<&Value>| {
        // Only PUT and apply create missing objects.
        if existing.is_none() && !applies {
            return Err(Status::not_found(&row.group, &row.resource, object_ref.name));
        }
        let patch = patch.as_ref().map_err(Status::clone)?;
        let author = Author {
            manager: &manager,
            subresource: &call.info.subresource,
            time: &server.registry.now(),
            resets: reset_fields::of(row, &call.info.subresource),
        };
        let (mut patched, mut remarks) =
            patch.apply(PatchTarget::Object(row), existing, &author, &options)?;
        remarks.extend(dedup_owners(&mut patched, true));
        warnings.set_request_warnings(remarks);
        check_namespace(row, call, &patched)?;
        check_name(&patched, &call.info.name)?;
        Ok(patched)
    };
    let admission = RequestAdmission::new(
        server,
        row,
        call,
        object_ref,
        AdmissionOptions::Write { manager: &manager, dry_run: options.dry_run },
        &warnings,
    );
    let update = Update {
        subresource: &call.info.subresource,
        // Apply records managed fields itself.
        manager: (!applies).then_some(&*manager),
        size: call.body.len(),
        transform: &transform,
        admission: &admission,
        uid: None,
        create_missing: applies && call.info.subresource.is_empty(),
        dry_run: options.dry_run,
    };
    let updated = server.registry.update(row, &object_ref, &update).await;
    admission.delete_unused(&updated).await;
    let answer = match updated {
        Ok((patched, created)) => {
            let code = if created { StatusCode::CREATED } else { StatusCode::OK };
            respond::stored_object(row, code, patched.json, call).await
        }
        Err(status) => Err(status),
    };
    Ok(warn(answer, &warnings.take(), call))
}

/// Warnings of a request. Each retry of a write replaces those of the previous one.
#[derive(Default)]
pub struct Warnings {
    request: Mutex<Vec<String>>,
    object: Mutex<Vec<String>>,
}

impl Warnings {
    /// Sets the warnings about the body of the request.
    pub fn set_request_warnings(&self, remarks: Vec<String>) {
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = remarks;
    }

    /// Adds a warning about the body of the request, once for all attempts.
    pub fn add_request_warning(&self, remark: String) {
        let mut request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        if !request.contains(&remark) {
            request.push(remark);
        }
    }

    /// Sets the warnings about the object.
    pub fn set_object_warnings(&self, remarks: Vec<String>) {
        *self.object.lock().unwrap_or_else(PoisonError::into_inner) = remarks;
    }

    /// Adds a warning about the object, once for many objects.
    pub fn add(&self, remark: String) {
        let mut object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        if !object.contains(&remark) {
            object.push(remark);
        }
    }

    /// Returns the warnings so far.
    pub fn current(&self) -> Vec<String> {
        let read = self.request.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        read.into_iter().chain(object.iter().cloned()).collect()
    }

    pub fn take(self) -> Vec<String> {
        let mut all = self.request.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.extend(self.object.into_inner().unwrap_or_else(PoisonError::into_inner));
        all
    }
}

/// The error for a patch whose result cannot be decoded.
fn undecodable(patched: &str, error: &str) -> Status {
    let error = FieldError::invalid(&FieldPath::new("patch"), patched, error);
    Status::invalid("", "", "", vec![error])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Supported patch types of kinds without known types, such as custom resources.
const UNTYPED: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

impl PatchKind {
    pub fn of(call: &Call, row: &Row) -> Result<Self, Status> {
        match media_type(&call.headers).as_deref() {
            Some("application/json-patch+json") => Ok(PatchKind::Json),
            Some("application/merge-patch+json") => Ok(PatchKind::Merge),
            Some("application/apply-patch+yaml") => Ok(PatchKind::Apply),
            _ if row.type_id.is_none() => Err(Status::unsupported_media_type(&UNTYPED)),
            Some("application/strategic-merge-patch+json") => Ok(PatchKind::Strategic),
            _ => Err(Status::unsupported_media_type_generic()),
        }
    }
}

/// The target type of a patch.
#[derive(Clone, Copy)]
pub enum PatchTarget<'a> {
    /// An object of a row.
    Object(&'a Row),
    Scale,
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
            return apply::parse(body);
        }
        let parsed = json::parse(body).map_err(|error| match kind {
            PatchKind::Strategic => Status::bad_request(error.to_string()),
            _ => Status::bad_request(format!("error decoding patch: {error}")),
        })?;
        let duplicates = parsed.duplicates.iter().map(|path| format!("duplicate field {}", quote(path)));
        let remarks = match kind {
            PatchKind::Json => {
                let duplicates = duplicates.map(|remark| format!("json patch {remark}"));
                duplicates.chain(unknown_fields(&parsed.value)).collect()
            }
            PatchKind::Merge => {
                check_merge_patch(&parsed.value).map_err(|error| error.status())?;
                duplicates.collect()
            }
            PatchKind::Strategic => {
                if !parsed.value.is_null() {
                    let fits = check_merge_patch(&parsed.value);
                    fits.map_err(|error| Status::bad_request(error.to_string()))?;
                }
                duplicates.collect()
            }
            PatchKind::Apply => Vec::new(),
        };
        Ok(Patch { kind, value: parsed.value, remarks })
    }

    /// Returns the patched object and warnings. Only apply creates an object.
    pub fn apply(
        &self,
        target: PatchTarget<'_>,
        existing: Option<&Value>,
        author: &Author<'_>,
        options: &WriteOptions,
    ) -> Result<(Value, Vec<String>), Status> {
        if self.kind == PatchKind::Apply {
            let applied = apply::apply(self, target, existing, author, options);
            return applied.map_err(|status| match target {
                PatchTarget::Object(row) => quotable_error(row, status),
                PatchTarget::Scale => status,
            });
        }
        if self.kind == PatchKind::Strategic {
            let missing = Value::Null;
            return strategic::apply(self, target, existing.unwrap_or(&missing), options.field_validation);
        }
        let object = self.change(existing)?;
        // The object may be large, so it is computed again for an error instead of being kept.
        let refuse = |error: String| {
            let object = self.change(existing).unwrap_or_default();
            let object = match target {
                PatchTarget::Object(row) => quotable_json(row, &object),
                PatchTarget::Scale => json::to_string(&object),
            };
            undecodable(&object, &error)
        };
        let read = match target {
            PatchTarget::Object(row) => decode::patched(row, object),
            PatchTarget::Scale => decode::patched_scale(object),
        };
        let (patched, unknown) = read.map_err(refuse)?;
        let remarks = self.remarks.iter().cloned().chain(unknown).collect();
        let warnings = decode::apply_field_validation(remarks, options.field_validation).map_err(refuse)?;
        Ok((patched, warnings))
    }

    /// Returns the existing object with the changes of a JSON patch or merge patch.
    fn change(&self, existing: Option<&Value>) -> Result<Value, Status> {
        let mut object = existing.cloned().unwrap_or_default();
        match self.kind {
            PatchKind::Json => json_patch(&mut object, &self.value).map_err(|error| error.status())?,
            PatchKind::Merge => merge_patch(&mut object, &self.value),
            PatchKind::Strategic | PatchKind::Apply => {}
        }
        Ok(object)
    }
}
