//! DELETE on one object.

use std::sync::Arc;

use atoll_admission::Operation;
use atoll_meta::Status;
use atoll_registry::{DeleteOptions, Deleted, Row};
use http::{Response, StatusCode};
use serde_json::Value;

use super::{admit, place};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::{decode, options, respond};

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = read_options(call)?;
    let place = place(row, call)?;
    let admit = |_: &Value| admit(server, row, call, &place, Operation::Delete, place.name, None);
    let deleted = server.registry.delete(row, &place, &options, &admit).await?;
    Ok(match deleted {
        Deleted::Gone(answer) | Deleted::Marked(answer) => {
            respond::of_row(row, StatusCode::OK, answer.json, call.output)
        }
        Deleted::Status(status) => respond::status(&status, call.output),
    })
}

/// From the body if there is one, else from the query.
pub fn read_options(call: &Call) -> Result<DeleteOptions, Status> {
    if call.body.is_empty() {
        return options::delete(&call.query, None);
    }
    let (group, version) = ("meta.k8s.io", "v1");
    let body = decode::options(group, version, "DeleteOptions", &call.headers, &call.body)?;
    options::delete(&call.query, Some(&body))
}
