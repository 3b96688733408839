//! GET on one object.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go

use std::sync::Arc;

use atoll_meta::Status;
use atoll_registry::Row;
use http::{Response, StatusCode};

use super::list::{parse_revision, wait_for_revision};
use super::object_ref;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::respond;
use crate::sync::heartbeat_times;

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let revision = parse_revision(call.query.get("resourceVersion").unwrap_or_default());
    let revision = revision.map_err(|error| Status::plain_internal(error.to_string()))?;
    wait_for_revision(server, revision).await?;
    let object = server.registry.get(row, &object_ref(row, call)?)?;
    let mut json = object.json();
    if heartbeat_times::are_shown(row, call)
        && let Some(renewed) = heartbeat_times::with_heartbeat_time(
            &json,
            object.workspace(),
            object.name(),
            &server.registry.snapshot(),
        )
    {
        json = renewed;
    }
    respond::stored_object(row, StatusCode::OK, json, call).await
}
