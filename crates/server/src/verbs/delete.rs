//! DELETE on one object.

use std::sync::Arc;

use atoll_admission::Options;
use atoll_meta::Status;
use atoll_registry::{DeleteOptions, Deleted, Row};
use http::{Response, StatusCode};

use super::gate::Gate;
use super::patch::Warnings;
use super::{place, warn};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::{decode, options, respond};

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = read_options(call)?;
    let place = place(row, call)?;
    let warnings = Warnings::default();
    let gate = Gate::of(server, row, call, place, Options::Delete(&options), &warnings);
    let deleted = server.registry.delete(row, &place, &options, &gate).await;
    let answer = match deleted {
        Ok(Deleted::Gone(answer) | Deleted::Marked(answer)) => {
            respond::of_row(row, StatusCode::OK, answer.json, call).await
        }
        Ok(Deleted::Status(status)) => Ok(respond::status(&status, call.output)),
        Err(status) => Err(status),
    };
    Ok(warn(answer, &warnings.take(), call))
}

/// Reads the options from the body if there is one, else from the query.
pub fn read_options(call: &Call) -> Result<DeleteOptions, Status> {
    if call.body.is_empty() {
        return options::delete(&call.query, None);
    }
    let (group, version) = ("meta.k8s.io", "v1");
    let body = decode::options(group, version, "DeleteOptions", &call.headers, &call.body)?;
    options::delete(&call.query, Some(&body))
}
