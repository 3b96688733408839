//! POST of a review, whose result is in its status and not stored.

// upstream: pkg/registry/authentication/tokenreview/storage.go
// upstream: pkg/registry/authentication/selfsubjectreview/rest.go

mod access;
mod selectors;

use std::sync::Arc;

use atoll_authn::{Unauthorized, User, bearer_token};
use atoll_meta::{Status, object};
use atoll_registry::Row;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::check_namespace;
use super::with_body;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::decode::Decoded;
use crate::identity::AuthenticatedUser;
use crate::options::WriteOptions;
use crate::{decode, respond};

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse("CreateOptions", &call.query, Vec::new())?;
    let decode = || decode::object(row, &call.headers, &call.body, options.field_validation);
    let decoded = with_body(server, call, decode).await??;
    let Decoded { object: mut review, warnings } = decoded;
    check_namespace(row, call, &review)?;
    if row.namespaced {
        object::set_namespace(&mut review, &call.info.namespace);
    }
    // Fields that only a server sets are removed.
    for field in ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"] {
        object::metadata_mut(&mut review).remove(field);
    }
    let manager = options.manager(&call.headers);
    if row.resource != "selfsubjectreviews" {
        server.registry.record_new(row, &mut review, &manager);
    }
    let answered = match row.resource.as_str() {
        "selfsubjectreviews" => {
            let now = atoll_meta::time::format(server.registry.clock.seconds());
            object::metadata_mut(&mut review).insert("creationTimestamp".into(), now.into());
            Ok(json!({ "userInfo": user_info(&call.user) }))
        }
        "tokenreviews" => token(server, call, &review),
        "selfsubjectrulesreviews" => access::rules(server, call, &review).await,
        _ => access::handle(server, row, call, &review).await,
    };
    if row.resource == "selfsubjectrulesreviews" {
        // Upstream returns the status without the spec.
        (review["metadata"], review["spec"]) = (json!({}), json!({}));
    }
    let answer = answered.map(|status| {
        review["status"] = status;
        respond::value(StatusCode::CREATED, &review, call.output)
    });
    Ok(super::warn(answer, &warnings, call))
}

fn user_info(user: &User) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// Authenticates a token. An invalid token is reported in the status, not as an error.
fn token(server: &Server, call: &Call, review: &Value) -> Result<Value, Status> {
    let token = text(&review["spec"], "token");
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let workspace = call.workspace.id()?;
    let audiences = review["spec"]["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut audiences: Vec<String> = audiences.map(String::from).collect();
    if audiences.is_empty() {
        audiences.push(server.issuer(workspace));
    }
    let audiences = Some(audiences.as_slice());
    let header = format!("Bearer {token}");
    let authenticated = match bearer_token(&header) {
        Some(token) => server.authenticate_token(token, Some(workspace), audiences),
        // A token of spaces is no token, so the user is anonymous.
        None => server.authenticate_anonymous(workspace, audiences),
    };
    Ok(match authenticated {
        Ok(AuthenticatedUser { user, audiences }) => {
            json!({ "authenticated": true, "user": user_info(&user), "audiences": audiences })
        }
        Err(problem @ Unauthorized::Unknown) => json!({ "user": {}, "error": problem.to_string() }),
        // Upstream lists the errors of all authenticators.
        Err(problem) => {
            json!({ "user": {}, "error": format!("[{}, {problem}]", Unauthorized::Unknown) })
        }
    })
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
