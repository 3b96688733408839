//! GET on one object.

use std::sync::Arc;

use atoll_meta::Status;
use atoll_registry::Row;
use http::{Response, StatusCode};

use super::list::{fresh_enough, parse_revision};
use super::place;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::respond;
use crate::sync::renewals;

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let revision = parse_revision(call.query.get("resourceVersion").unwrap_or_default());
    let revision = revision.map_err(|error| Status::plain_internal(error.to_string()))?;
    fresh_enough(server, revision).await?;
    let object = server.registry.get(row, &place(row, call)?)?;
    let mut json = object.json();
    if renewals::concerns(row, call)
        && let Some(renewed) =
            renewals::of(&json, object.workspace(), object.name(), &server.registry.snapshot())
    {
        json = renewed;
    }
    respond::of_row(row, StatusCode::OK, json, call).await
}
