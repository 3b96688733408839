//! The scale subresource: an object's replicas as `autoscaling/v1` Scale.

use std::sync::Arc;

use atoll_admission::Options;
use atoll_merge::apply::{Author, Resets};
use atoll_meta::{Status, json, object};
use atoll_registry::{Row, Update, scale};
use http::{Response, StatusCode};
use serde_json::Value;

use super::gate::Gate;
use super::patch::{Form, Patch, PatchKind, Warnings, options as patch_options};
use super::update::check_name;
use super::{check_namespace, place, warn};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::WriteOptions;
use crate::{decode, respond};

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let place = place(row, call)?;
    // Each retry of a write replaces the warnings of the previous one.
    let warnings = Warnings::default();
    let mut applies = false;
    let (wanted, options): (Wanted, WriteOptions) = match call.info.verb {
        "get" => {
            let object = server.registry.get(row, &place)?;
            let scale = scale::of(row, &parse(&object.json())?)?;
            return Ok(respond::scale(StatusCode::OK, &scale, call.output));
        }
        "update" => {
            let options = WriteOptions::parse("UpdateOptions", &call.query, Vec::new())?;
            let kind = ("autoscaling", "v1", "Scale");
            let decoded = decode::other_kind(kind, &call.headers, &call.body, options.field_validation)?;
            let scale = decoded.object;
            warnings.set(decoded.warnings);
            check_namespace(row, call, &scale)?;
            check_name(&scale, &call.info.name)?;
            (Wanted::Scale(scale), options)
        }
        _ => {
            let kind = PatchKind::of(call, row)?;
            applies = kind == PatchKind::Apply;
            (Wanted::Patched(Patch::parse(kind, &call.body)), patch_options(call, kind)?)
        }
    };
    let uid = match &wanted {
        Wanted::Scale(scale) => Some(object::uid(scale)).filter(|uid| !uid.is_empty()),
        Wanted::Patched(_) => None,
    };
    let manager = options.manager(&call.headers);
    let transform = |existing: Option<&Value>| {
        let existing = existing.ok_or_else(|| Status::not_found(&row.group, &row.resource, place.name))?;
        let (time, resets) = (server.registry.now(), Resets::NONE);
        let author = Author { manager: &manager, subresource: "scale", time: &time, resets };
        let current = scale::with_managers(row, existing)?;
        let mut scaled = match &wanted {
            Wanted::Scale(wanted) => wanted.clone(),
            Wanted::Patched(patch) => {
                let patch = patch.as_ref().map_err(Status::clone)?;
                let (scaled, remarks) = patch.apply(Form::Scale, Some(&current), &author, &options)?;
                warnings.set(remarks);
                check_name(&scaled, &call.info.name)?;
                scaled
            }
        };
        if !applies {
            scale::MANAGED.record(&current, &mut scaled, &author);
        }
        scale::apply(row, existing, &scaled)
    };
    let gate = Gate::of(
        server,
        row,
        call,
        place,
        Options::Write { manager: &manager, dry_run: options.dry_run },
        &warnings,
    );
    let update = Update {
        subresource: "",
        manager: None,
        transform: &transform,
        admission: &gate,
        uid,
        create_missing: false,
        dry_run: options.dry_run,
    };
    let updated = server.registry.update(row, &place, &update).await;
    let answer = updated.and_then(|(updated, _)| {
        let scale = scale::after(row, &parse(&updated.json)?)?;
        Ok(respond::scale(StatusCode::OK, &scale, call.output))
    });
    Ok(warn(answer, &warnings.take(), call))
}

enum Wanted {
    Scale(Value),
    /// Or the error of the patch, which is reported after a missing object.
    Patched(Result<Patch, Status>),
}

fn parse(stored: &[u8]) -> Result<Value, Status> {
    json::parse(stored).map(|parsed| parsed.value).map_err(|error| Status::internal_error(error.to_string()))
}
