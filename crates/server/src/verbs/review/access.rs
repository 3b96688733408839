//! Access reviews and rules reviews.

// upstream: pkg/registry/authorization/subjectaccessreview/rest.go
// upstream: pkg/registry/authorization/localsubjectaccessreview/rest.go
// upstream: pkg/registry/authorization/selfsubjectrulesreview/rest.go
// upstream: pkg/apis/authorization/validation/validation.go

use std::collections::BTreeMap;

use atoll_authn::{HOME, User};
use atoll_authz::{Attributes, Authorizer, Decision, MissingRole, Rule, Target, reason};
use atoll_meta::{FieldError, FieldPath, Status};
use atoll_registry::Row;
use serde_json::{Value, json};

use super::{selectors, text};
use crate::Server;
use crate::chain::Call;
use crate::impersonation::account;

/// Maximum number of bytes of rules in a rules review. Several bindings may name the same large role.
const MAX_REVIEWED_RULES: usize = 1 << 20;

/// Handles an access review.
pub async fn handle(server: &Server, row: &Row, call: &Call, review: &Value) -> Result<Value, Status> {
    let spec = &review["spec"];
    let errors = check(row, call, spec, review);
    if !errors.is_empty() {
        // Upstream omits the kind.
        return Err(Status::invalid(&row.group, "", "", errors));
    }
    let reviewed;
    let user = match row.resource.as_str() {
        "selfsubjectaccessreviews" => &call.user,
        _ => {
            reviewed = subject(spec, call.workspace.id()?);
            &reviewed
        }
    };
    let resource = &spec["resourceAttributes"];
    let (verb, target) = match spec.get("nonResourceAttributes").filter(|path| path.is_object()) {
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
    let decide = |authorizer: &Authorizer<'_>| match authorizer.decide(&Attributes { user, verb, target }) {
        Decision::Allowed(grant) => (true, grant.reason(user)),
        // Access to a workspace can also be granted by its ancestors.
        Decision::Refused(_)
            if verb == "access"
                && matches!(target, Target::Path("/"))
                && authorizer.is_granted_access(user) =>
        {
            (true, "RBAC: allowed by the workspace above".into())
        }
        Decision::Refused(missing) => (false, reason(&missing)),
    };
    let (allowed, why) = server.with_authorizer(&call.workspace, call.body.len(), decide).await?;
    let mut status = json!({ "allowed": allowed });
    if !why.is_empty() {
        status["reason"] = why.into();
    }
    if let Some(error) = selectors::evaluation_error(resource) {
        status["evaluationError"] = error.into();
    }
    Ok(status)
}

/// Returns the user of a review. ServiceAccounts belong to the workspace of the review; other users of a
/// single workspace name it in their `extra`.
fn subject(spec: &Value, workspace: &str) -> User {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(String::from).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    let extra: BTreeMap<_, _> = extra.map(|(key, values)| (key.clone(), texts(values))).collect();
    let (name, uid) = (text(spec, "user").into(), text(spec, "uid").into());
    let home = texts(&spec["extra"][HOME]).pop();
    let user: User = User { name, uid, groups: texts(&spec["groups"]), extra, home };
    match account(&user.name) {
        Some(_) => user.of_workspace(workspace),
        None => user,
    }
}

/// Returns all rules of the user in a namespace.
pub async fn rules(server: &Server, call: &Call, review: &Value) -> Result<Value, Status> {
    let namespace = text(&review["spec"], "namespace");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let review = |authorizer: &Authorizer<'_>| {
        let (roles, missing) = authorizer.roles_of(&call.user, namespace);
        rules_status(roles.into_iter().flatten(), MissingRole::joined(&missing))
    };
    server.with_authorizer(&call.workspace, call.body.len(), review).await
}

/// Returns the status of a review of rules, which is incomplete if the rules are too large.
fn rules_status<'a>(rules: impl Iterator<Item = &'a Rule>, error: Option<String>) -> Value {
    let (mut resource_rules, mut path_rules) = (Vec::new(), Vec::new());
    let mut errors: Vec<String> = error.into_iter().collect();
    let mut size = 0;
    for rule in rules {
        size += size_of::<Rule>() + rule.size();
        if size > MAX_REVIEWED_RULES {
            errors.push(format!("the rules have more than {} MiB", MAX_REVIEWED_RULES >> 20));
            break;
        }
        resource_rules.extend(rule.resource_rule());
        path_rules.extend(rule.path_rule());
    }
    let mut status = json!({
        "resourceRules": resource_rules,
        "nonResourceRules": path_rules,
        "incomplete": size > MAX_REVIEWED_RULES,
    });
    if !errors.is_empty() {
        status["evaluationError"] = errors.join(", ").into();
    }
    status
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
    let has_no_subject = text(spec, "user").is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty);
    if row.resource != "selfsubjectaccessreviews" && has_no_subject {
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

/// Returns the attributes as upstream formats them in errors: in its internal form, with capitals.
fn path_attributes(spec: &Value) -> Value {
    let attributes = &spec["nonResourceAttributes"];
    json!({ "Path": text(attributes, "path"), "Verb": text(attributes, "verb") })
}
