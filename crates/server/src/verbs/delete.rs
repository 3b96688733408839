//! DELETE on one object.

use std::sync::Arc;

use atoll_admission::Operation;
use atoll_meta::{Status, json, object};
use atoll_registry::{DeleteOptions, Deleted, Row};
use http::{Response, StatusCode};
use serde_json::Value;

use super::{admit, place};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::decode::{protobuf, yaml};
use crate::negotiate::Input;
use crate::{options, respond};

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = read_options(call)?;
    let place = place(row, call)?;
    let admit = |_: &Value| admit(server, row, call, &place, Operation::Delete, place.name);
    let deleted = server.registry.delete(row, &place, &options, &admit).await?;
    Ok(match deleted {
        Deleted::Gone(answer) | Deleted::Marked(answer) => {
            respond::object(StatusCode::OK, answer.json, call.output)
        }
        Deleted::Status(status) => respond::status(&status, call.output),
    })
}

/// From the body if there is one, else from the query.
pub fn read_options(call: &Call) -> Result<DeleteOptions, Status> {
    if call.body.is_empty() {
        return options::delete(&call.query, None);
    }
    let body = match Input::negotiate(&call.headers)? {
        Input::Json => {
            let parsed = json::parse(&call.body);
            let failed =
                |error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"));
            parsed.map_err(failed)?.value
        }
        Input::Protobuf => protobuf(&call.body).map_err(|error| Status::bad_request(error.to_string()))?,
        Input::Yaml => yaml(&call.body).map_err(|error| Status::bad_request(format!("yaml: {error}")))?,
    };
    if !matches!(object::kind(&body), "" | "DeleteOptions") {
        return Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"));
    }
    options::delete(&call.query, Some(&body))
}
