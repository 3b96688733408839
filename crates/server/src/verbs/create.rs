//! POST on a collection.

use std::sync::Arc;

use atoll_admission::Operation;
use atoll_meta::{Status, object};
use atoll_registry::Row;
use http::{Response, StatusCode};

use super::{admit, check_namespace, place, warn};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::WriteOptions;
use crate::{decode, respond};

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse("CreateOptions", &call.query, Vec::new())?;
    let decoded = decode::object(row, &call.headers, &call.body, options.field_validation)?;
    check_namespace(row, call, &decoded.object)?;
    call.workspace.check_create(&row.group, &row.resource, &decoded.object)?;
    let place = place(row, call)?;
    admit(server, row, call, &place, Operation::Create, object::name(&decoded.object))?;
    let created = server.registry.create(row, &place, decoded.object, options.dry_run, &|_| Ok(())).await?;
    Ok(warn(respond::object(StatusCode::CREATED, created.json, call.output), &decoded.warnings))
}
