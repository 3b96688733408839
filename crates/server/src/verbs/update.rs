//! PUT on an object or one of its subresources.

use std::sync::Arc;

use atoll_admission::Options;
use atoll_meta::{Status, object};
use atoll_registry::{Row, Update};
use http::{Response, StatusCode};
use serde_json::Value;

use super::gate::Gate;
use super::patch::Warnings;
use super::seal;
use super::{check_namespace, place, warn, without_repeated_owners};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::decode::Decoded;
use crate::options::WriteOptions;
use crate::{decode, respond};

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse("UpdateOptions", &call.query, Vec::new())?;
    let decoded = decode::object(row, &call.headers, &call.body, options.field_validation);
    let decoded = decoded.map_err(|status| seal::unquoted(row, status))?;
    let Decoded { mut object, mut warnings } = decoded;
    warnings.extend(without_repeated_owners(&mut object, false));
    let remarks = Warnings::default();
    let updated = update(server, row, call, &object, &options, &remarks).await;
    warnings.extend(remarks.take());
    Ok(warn(updated, &warnings, call))
}

async fn update(
    server: &Arc<Server>,
    row: &Row,
    call: &Call,
    wanted: &Value,
    options: &WriteOptions,
    remarks: &Warnings,
) -> Result<Response<Body>, Status> {
    check_namespace(row, call, wanted)?;
    check_name(wanted, &call.info.name)?;
    let place = place(row, call)?;
    let uid = Some(object::uid(wanted)).filter(|uid| !uid.is_empty());
    let manager = options.manager(&call.headers);
    let gate = Gate::of(
        server,
        row,
        call,
        place,
        Options::Write { manager: &manager, dry_run: options.dry_run },
        remarks,
    );
    let update = Update {
        subresource: &call.info.subresource,
        manager: Some(&manager),
        transform: &|_| Ok(wanted.clone()),
        admission: &gate,
        uid,
        create_missing: false,
        dry_run: options.dry_run,
    };
    let updated = server.registry.update(row, &place, &update).await;
    gate.unseal(&updated).await;
    let (updated, created) = updated?;
    let code = if created { StatusCode::CREATED } else { StatusCode::OK };
    respond::of_row(row, code, updated.json, call).await
}

/// Checks that the object's name matches the URL.
pub fn check_name(wanted: &Value, name: &str) -> Result<(), Status> {
    match object::name(wanted) {
        given if given == name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}
