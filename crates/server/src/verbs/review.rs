//! POST of a review: a question that is answered in its status, and kept nowhere.

mod selectors;

use std::sync::Arc;

use atoll_authn::{Unauthorized, User, bearer_token};
use atoll_authz::{Attributes, Target};
use atoll_meta::{FieldError, FieldPath, Status, object};
use atoll_registry::Row;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::check_namespace;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::decode::Decoded;
use crate::identity::Identified;
use crate::options::WriteOptions;
use crate::{decode, respond};

pub fn is_review(row: &Row) -> bool {
    row.resource.ends_with("reviews")
        && matches!(&*row.group, "authentication.k8s.io" | "authorization.k8s.io")
}

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse("CreateOptions", &call.query, Vec::new())?;
    let decoded = decode::object(row, &call.headers, &call.body, options.field_validation)?;
    let Decoded { object: mut review, warnings } = decoded;
    check_namespace(row, call, &review)?;
    if row.namespaced {
        object::set_namespace(&mut review, &call.info.namespace);
    }
    // What only a server says is not heard.
    for field in ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"] {
        object::metadata_mut(&mut review).remove(field);
    }
    let manager = options.manager(&call.headers);
    if row.resource != "selfsubjectreviews" {
        server.registry.record_new(row, &mut review, &manager);
    }
    let answered = match row.resource.as_str() {
        "selfsubjectreviews" => {
            let now = atoll_meta::time::format(server.registry.clock.now());
            object::metadata_mut(&mut review).insert("creationTimestamp".into(), now.into());
            Ok(json!({ "userInfo": user_info(&call.user) }))
        }
        "tokenreviews" => token(server, call, &review),
        "selfsubjectrulesreviews" => rules(&call.user, &review),
        _ => access(row, call, &review),
    };
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

/// Whose token it is. A wrong one is an answer, not an error.
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
    let identified = match bearer_token(&header) {
        Some(token) => server.identify_bearer(token, Some(workspace), audiences),
        // A token of spaces is none at all, and who has none is nobody.
        None => server.identify_nobody(workspace, audiences),
    };
    Ok(match identified {
        Ok(Identified { user, audiences, .. }) => {
            json!({ "authenticated": true, "user": user_info(&user), "audiences": audiences })
        }
        Err(problem @ Unauthorized::Unknown) => json!({ "user": {}, "error": problem.to_string() }),
        // As upstream lists what each of several ways to know a token has to say.
        Err(problem) => {
            json!({ "user": {}, "error": format!("[{}, {problem}]", Unauthorized::Unknown) })
        }
    })
}

/// May somebody do something?
fn access(row: &Row, call: &Call, review: &Value) -> Result<Value, Status> {
    let spec = &review["spec"];
    let errors = check(row, call, spec, review);
    if !errors.is_empty() {
        // Upstream does not say of which kind.
        return Err(Status::invalid(&row.group, "", "", errors));
    }
    let user = match row.resource.as_str() {
        "selfsubjectaccessreviews" => call.user.clone(),
        _ => User {
            name: text(spec, "user").into(),
            uid: text(spec, "uid").into(),
            groups: spec["groups"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(String::from)
                .collect(),
            extra: Default::default(),
        },
    };
    let resource = &spec["resourceAttributes"];
    let (verb, target) = match spec.get("nonResourceAttributes") {
        Some(path) => (text(path, "verb"), Target::Path(text(path, "path"))),
        None => (
            text(resource, "verb"),
            Target::Resource {
                group: text(resource, "group"),
                resource: text(resource, "resource"),
                subresource: text(resource, "subresource"),
                namespace: text(resource, "namespace"),
                name: text(resource, "name"),
            },
        ),
    };
    let allowed = atoll_authz::authorize(&Attributes { user: &user, verb, target }).is_ok();
    Ok(json!({ "allowed": allowed }))
}

fn check(row: &Row, call: &Call, spec: &Value, review: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("spec");
    let (resource, other) = (path.child("resourceAttributes"), path.child("nonResourceAttributes"));
    let has = |name: &str| spec.get(name).is_some_and(Value::is_object);
    let mut errors = Vec::new();
    match (has("resourceAttributes"), has("nonResourceAttributes")) {
        (true, true) => {
            let message = "cannot be specified in combination with resourceAttributes";
            errors.push(FieldError::invalid(&other, path_attributes(spec), message));
        }
        (false, false) => {
            let message = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid(&resource, spec["resourceAttributes"].clone(), message));
        }
        _ => {}
    }
    let nobody = text(spec, "user").is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty);
    if row.resource != "selfsubjectaccessreviews" && nobody {
        let message = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&path.child("user"), text(spec, "user"), message));
    }
    if has("resourceAttributes") {
        selectors::check(&mut errors, &spec["resourceAttributes"], &resource);
    }
    let mut metadata = review["metadata"].clone();
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "managedFields" | "namespace"));
        if !fields.is_empty() {
            let message = match row.resource.as_str() {
                "localsubjectaccessreviews" => "must be empty except for namespace",
                _ => "must be empty",
            };
            errors.push(FieldError::invalid(&FieldPath::new("metadata"), metadata, message));
        }
    }
    if row.resource == "localsubjectaccessreviews" {
        let namespace = text(&spec["resourceAttributes"], "namespace");
        if has("resourceAttributes") && namespace != call.info.namespace {
            let message = "must match metadata.namespace";
            errors.push(FieldError::invalid(&resource.child("namespace"), namespace, message));
        }
        if has("nonResourceAttributes") {
            let message = "disallowed on this kind of request";
            errors.push(FieldError::invalid(&other, path_attributes(spec), message));
        }
    }
    errors
}

/// Everything that the user may do in a namespace.
fn rules(user: &User, review: &Value) -> Result<Value, Status> {
    if text(&review["spec"], "namespace").is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let all = Attributes { user, verb: "*", target: Target::Path("*") };
    Ok(match atoll_authz::authorize(&all) {
        Ok(()) => json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "incomplete": false,
        }),
        Err(_) => json!({
            "resourceRules": [],
            "nonResourceRules": [{
                "verbs": ["get"],
                "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
            }],
            "incomplete": false,
        }),
    })
}

/// As upstream shows them in errors: in its internal form, which has capitals.
fn path_attributes(spec: &Value) -> Value {
    let attributes = &spec["nonResourceAttributes"];
    json!({ "Path": text(attributes, "path"), "Verb": text(attributes, "verb") })
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
