//! One verb a file. Here a request finds its row and its verb.

mod create;
mod delete;
mod delete_collection;
mod get;
mod list;
mod patch;
mod scale;
mod update;
mod watch;

use std::sync::Arc;

use atoll_admission::{Operation, Request};
use atoll_meta::Status;
use atoll_registry::{Place, Row};
use http::{HeaderValue, Response, header};
use serde_json::Value;

use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::request::RequestInfo;
use crate::respond;

/// Carries out a request on a resource.
pub async fn dispatch(server: &Arc<Server>, call: Call) -> Result<Response<Body>, Status> {
    let info = &call.info;
    let Some(row) = server.registry.catalog.find(&info.group, &info.version, &info.resource) else {
        return match server.registry.catalog.has_group_version(&info.group, &info.version) {
            true => Err(Status::not_found_generic()),
            false => Ok(respond::not_found_page()),
        };
    };
    let row = row.clone();
    check_path(&row, info)?;
    if info.subresource == "scale" {
        return scale::answer(server, &row, &call).await;
    }
    match info.verb {
        "create" => create::answer(server, &row, &call).await,
        "get" => get::answer(server, &row, &call).await,
        "list" => list::answer(server, &row, &call).await,
        "watch" => watch::answer(server, &row, &call).await,
        "update" => update::answer(server, &row, &call).await,
        "patch" => patch::answer(server, &row, &call).await,
        "delete" => delete::answer(server, &row, &call).await,
        "deletecollection" => delete_collection::answer(server, &row, &call).await,
        _ => Err(Status::method_not_supported_generic()),
    }
}

/// Whether this row is served under such a path and with this verb.
fn check_path(row: &Row, info: &RequestInfo) -> Result<(), Status> {
    let is_namespaces = row.group.is_empty() && row.resource == "namespaces";
    let misplaced = match row.namespaced {
        true => info.namespace.is_empty() && !info.name.is_empty(),
        false => !info.namespace.is_empty() && !is_namespaces,
    };
    if misplaced || !info.rest.is_empty() {
        return Err(Status::not_found_generic());
    }
    let verbs = match info.subresource.as_str() {
        "" => &row.verbs,
        name => &row.subresource(name).ok_or_else(Status::not_found_generic)?.verbs,
    };
    let whole_collection = matches!(info.verb, "create" | "deletecollection");
    let needs_namespace = row.namespaced && info.namespace.is_empty() && whole_collection;
    let names_what_is_new = info.verb == "create" && !info.name.is_empty() && info.subresource.is_empty();
    if needs_namespace || names_what_is_new || !verbs.iter().any(|verb| verb == info.verb) {
        return Err(Status::method_not_supported_generic());
    }
    Ok(())
}

/// The object that a request names.
fn place<'a>(row: &Row, call: &'a Call) -> Result<Place<'a>, Status> {
    let namespace = if row.namespaced { call.info.namespace.as_str() } else { "" };
    Ok(Place { workspace: call.workspace.id()?, namespace, name: &call.info.name })
}

/// Asks admission.
fn admit(
    server: &Server,
    row: &Row,
    call: &Call,
    place: &Place<'_>,
    operation: Operation,
    name: &str,
) -> Result<(), Status> {
    server.admission.admit(&Request {
        operation,
        row,
        subresource: &call.info.subresource,
        workspace: place.workspace,
        namespace: place.namespace,
        name,
        snapshot: &server.registry.snapshot(),
    })
}

/// An object that comes with a URL must not name another namespace; one without a namespace cannot name any,
/// and what it says is dropped.
fn check_namespace(row: &Row, call: &Call, object: &Value) -> Result<(), Status> {
    let given = atoll_meta::object::namespace(object);
    let expected = if row.namespaced { call.info.namespace.as_str() } else { "" };
    if given.is_empty() || given == expected || expected.is_empty() {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Adds what a lenient reader remarked to the answer.
fn warn(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
