//! The scale subresource: an object's replicas as `autoscaling/v1` Scale.

// upstream: pkg/registry/apps/deployment/storage/storage.go

use std::sync::Arc;

use atoll_admission::AdmissionOptions;
use atoll_merge::apply::{Author, ResetFields};
use atoll_meta::{Status, json, object};
use atoll_registry::{Row, Update, scale};
use http::{Response, StatusCode};
use serde_json::Value;

use super::admission::RequestAdmission;
use super::patch::{Patch, PatchKind, PatchTarget, Warnings, options as patch_options};
use super::update::check_name;
use super::{check_namespace, object_ref, warn, with_body};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::WriteOptions;
use crate::{decode, respond};

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let object_ref = object_ref(row, call)?;
    // Each retry of a write replaces the warnings of the previous one.
    let warnings = Warnings::default();
    let mut applies = false;
    let (wanted, options): (ScaleChange, WriteOptions) = match call.info.verb {
        "get" => {
            let object = server.registry.get(row, &object_ref)?;
            let scale = scale::of(row, &parse(&object.json())?)?;
            return Ok(respond::scale(StatusCode::OK, &scale, call.output));
        }
        "update" => {
            let options = WriteOptions::parse("UpdateOptions", &call.query, Vec::new())?;
            let kind = ("autoscaling", "v1", "Scale");
            let decode = || decode::other_kind(kind, &call.headers, &call.body, options.field_validation);
            let decoded = with_body(server, call, decode).await??;
            let scale = decoded.object;
            warnings.set_request_warnings(decoded.warnings);
            check_namespace(row, call, &scale)?;
            check_name(&scale, &call.info.name)?;
            (ScaleChange::Scale(scale), options)
        }
        _ => {
            let kind = PatchKind::of(call, row)?;
            applies = kind == PatchKind::Apply;
            let patch = with_body(server, call, || Patch::parse(kind, &call.body)).await?;
            (ScaleChange::Patch(patch), patch_options(call, kind)?)
        }
    };
    let uid = match &wanted {
        ScaleChange::Scale(scale) => Some(object::uid(scale)).filter(|uid| !uid.is_empty()),
        ScaleChange::Patch(_) => None,
    };
    let manager = options.manager(&call.headers);
    let transform = |existing: Option<&Value>| {
        let existing =
            existing.ok_or_else(|| Status::not_found(&row.group, &row.resource, object_ref.name))?;
        let (time, resets) = (server.registry.now(), ResetFields::NONE);
        let author = Author { manager: &manager, subresource: "scale", time: &time, resets };
        let current = scale::with_managers(row, existing)?;
        let mut scaled = match &wanted {
            ScaleChange::Scale(wanted) => wanted.clone(),
            ScaleChange::Patch(patch) => {
                let patch = patch.as_ref().map_err(Status::clone)?;
                let (scaled, remarks) = patch.apply(PatchTarget::Scale, Some(&current), &author, &options)?;
                warnings.set_request_warnings(remarks);
                check_name(&scaled, &call.info.name)?;
                scaled
            }
        };
        if !applies {
            scale::MANAGED.record(&current, &mut scaled, &author);
        }
        scale::apply(row, existing, &scaled)
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
        subresource: "",
        manager: None,
        size: call.body.len(),
        transform: &transform,
        admission: &admission,
        uid,
        create_missing: false,
        dry_run: options.dry_run,
    };
    let updated = server.registry.update(row, &object_ref, &update).await;
    let answer = updated.and_then(|(updated, _)| {
        let scale = scale::after(row, &parse(&updated.json)?)?;
        Ok(respond::scale(StatusCode::OK, &scale, call.output))
    });
    Ok(warn(answer, &warnings.take(), call))
}

enum ScaleChange {
    Scale(Value),
    /// Or the error of the patch, which is reported after a missing object.
    Patch(Result<Patch, Status>),
}

fn parse(stored: &[u8]) -> Result<Value, Status> {
    json::parse(stored).map(|parsed| parsed.value).map_err(|error| Status::internal_error(error.to_string()))
}
