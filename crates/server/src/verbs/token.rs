//! POST of a TokenRequest to a ServiceAccount.

// upstream: pkg/registry/core/serviceaccount/storage/token.go
// upstream: pkg/apis/authentication/validation/validation.go

use std::sync::{Arc, LazyLock};

use atoll_admission::AdmissionOptions;
use atoll_authn::service_account::{Lifetime, Subject};
use atoll_merge::apply::{Author, Kind, ResetFields};
use atoll_meta::{FieldError, FieldPath, Status, id, json, object};
use atoll_registry::{Admission, ObjectRef, Row, size_of};
use atoll_schema::Types;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::admission::RequestAdmission;
use super::patch::Warnings;
use super::{check_namespace, object_ref, warn, with_body};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::decode::Decoded;
use crate::options::WriteOptions;
use crate::{decode, respond};

const GROUP: &str = "authentication.k8s.io";
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The default that kubelets request. Such tokens are valid for much longer, and their use is recorded.
const WARNED_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse("CreateOptions", &call.query, Vec::new())?;
    let kind = (GROUP, "v1", "TokenRequest");
    let decode = || decode::other_kind(kind, &call.headers, &call.body, options.field_validation);
    let decoded = with_body(server, call, decode).await??;
    let Decoded { object: request, mut warnings } = decoded;
    check_namespace(row, call, &request)?;
    let remarks = Warnings::default();
    let issued = issue(server, row, call, request, &options, &remarks).await;
    warnings.extend(remarks.take());
    Ok(warn(issued, &warnings, call))
}

async fn issue(
    server: &Server,
    row: &Row,
    call: &Call,
    mut request: Value,
    options: &WriteOptions,
    warnings: &Warnings,
) -> Result<Response<Body>, Status> {
    let (object_ref, manager) = (object_ref(row, call)?, options.manager(&call.headers));
    let now = server.registry.clock.seconds();
    let admission = RequestAdmission::new(
        server,
        row,
        call,
        object_ref,
        AdmissionOptions::Write { manager: &manager, dry_run: options.dry_run },
        warnings,
    );
    record(&mut request, &manager, now);
    admission.mutate(&mut request, None).await?;
    check_names(&request, &object_ref)?;
    let account = parse(&server.registry.get(row, &object_ref)?.json())?;
    let uid = object::uid(&account);
    if !matches!(object::uid(&request), "" | "0") && object::uid(&request) != uid {
        let message = format!(
            "the UID in the token request ({}) does not match the UID of the service account ({uid})",
            object::uid(&request)
        );
        return Err(Status::conflict(GROUP, "TokenRequest", object_ref.name, message));
    }
    let api = server.issuer(object_ref.workspace);
    complete(&mut request, &object_ref, uid, &api, now);
    let errors = check(&request);
    if !errors.is_empty() {
        return Err(Status::invalid(GROUP, "TokenRequest", "", errors));
    }
    admission.validate(Some(&request), None, size_of(&request)).await?;
    let bound = bound(server, &request, &object_ref)?;
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let audiences: Vec<String> = texts(&request["spec"]["audiences"]).map(String::from).collect();
    let mut random = [0; 16];
    let failed = |cause: String| Status::internal_error(format!("failed to generate token: {cause}"));
    getrandom::fill(&mut random).map_err(|error| failed(error.to_string()))?;
    let tokens = server.tokens.as_ref().ok_or_else(|| failed("there is no signing key".into()))?;
    let is_for_pod = bound.iter().any(|(kind, _)| *kind == "pod");
    let extended = is_for_pod && seconds == WARNED_SECONDS && audiences.iter().all(|own| *own == api);
    let lifetime = match extended {
        true => Lifetime { from: now, until: now + EXTENDED_SECONDS, warn_after: Some(now + seconds) },
        false => Lifetime { from: now, until: now + seconds, warn_after: None },
    };
    let subject = Subject {
        workspace: object_ref.workspace,
        namespace: object_ref.namespace,
        name: object_ref.name,
        uid,
        bound,
    };
    let dialects = server.registry.enabled_dialects(object_ref.workspace);
    let claims = dialects.iter().flat_map(|dialect| dialect.token_claims(&object_ref, &account));
    let (id, claims) = (id::uuid_v4(random), claims.collect());
    let issued = tokens.issue_with_claims(&subject, &audiences, &id, lifetime, claims);
    let token = issued.map_err(|_| failed("it cannot be signed".into()))?;
    request["status"] =
        json!({ "token": token, "expirationTimestamp": atoll_meta::time::format(now + seconds) });
    Ok(respond::value(StatusCode::CREATED, &request, call.output))
}

fn parse(stored: &[u8]) -> Result<Value, Status> {
    json::parse(stored).map(|parsed| parsed.value).map_err(|error| Status::internal_error(error.to_string()))
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Checks that the names in the request match the URL.
fn check_names(request: &Value, object_ref: &ObjectRef<'_>) -> Result<(), Status> {
    let pairs = [
        ("name", object::name(request), object_ref.name),
        ("namespace", object::namespace(request), object_ref.namespace),
    ];
    for (field, given, own) in pairs {
        if !given.is_empty() && given != own {
            let path = FieldPath::new("metadata").child(field);
            let message = format!("must match the service account {field} if specified");
            let error = FieldError::invalid(&path, given, message);
            return Err(Status::invalid(GROUP, "TokenRequest", object_ref.name, vec![error]));
        }
    }
    Ok(())
}

/// Fills in defaults.
fn complete(request: &mut Value, object_ref: &ObjectRef<'_>, uid: &str, api: &str, now: i64) {
    let fields = object::metadata_mut(request);
    fields.insert("name".into(), object_ref.name.into());
    fields.insert("namespace".into(), object_ref.namespace.into());
    fields.insert("uid".into(), uid.into());
    fields.insert("creationTimestamp".into(), atoll_meta::time::format(now).into());
    if texts(&request["spec"]["audiences"]).next().is_none() {
        request["spec"]["audiences"] = json!([api]);
    }
}

/// Records managed fields, as upstream does for every object.
fn record(request: &mut Value, manager: &str, now: i64) {
    static KIND: LazyLock<Kind> = LazyLock::new(|| {
        let id = Types::get().by_kind(GROUP, "v1", "TokenRequest");
        Kind::new(format!("{GROUP}/v1"), "TokenRequest", id)
    });
    // Defaults are recorded as well.
    if request["spec"]["expirationSeconds"].as_i64().is_none() {
        request["spec"]["expirationSeconds"] = DEFAULT_SECONDS.into();
    }
    let time = atoll_meta::time::format(now);
    let author = Author { manager, subresource: "token", time: &time, resets: ResetFields::Paths(&[]) };
    KIND.record(KIND.empty(), request, &author);
}

fn check(request: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("spec").child("expirationSeconds");
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(0);
    let mut errors = Vec::new();
    if seconds < MIN_SECONDS {
        errors.push(FieldError::invalid(&path, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > MAX_SECONDS {
        errors.push(FieldError::invalid(
            &path,
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    errors
}

/// Returns the claims about the object that the token is bound to.
fn bound(
    server: &Server,
    request: &Value,
    object_ref: &ObjectRef<'_>,
) -> Result<Vec<(&'static str, Value)>, Status> {
    let Some(wanted) = request["spec"].get("boundObjectRef").filter(|wanted| wanted.is_object()) else {
        return Ok(Vec::new());
    };
    let text = |field: &str| wanted[field].as_str().unwrap_or_default();
    let (group, version) = match text("apiVersion").matches('/').count() {
        0 => ("", text("apiVersion")),
        1 => text("apiVersion").split_once('/').unwrap_or_default(),
        // An invalid apiVersion counts as empty.
        _ => ("", ""),
    };
    let (claim, resource, namespace) = match (group, text("kind")) {
        ("", "Pod") => ("pod", "pods", object_ref.namespace),
        ("", "Secret") => ("secret", "secrets", object_ref.namespace),
        ("", "Node") => ("node", "nodes", ""),
        (group, kind) => {
            let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(message));
        }
    };
    let find = |resource: &str, namespace: &str, name: &str| {
        let row = server.registry.catalog.stored("", resource).ok_or_else(Status::not_found_generic)?;
        let found =
            server.registry.get(row, &ObjectRef { workspace: object_ref.workspace, namespace, name })?;
        parse(&found.json())
    };
    let object = find(resource, namespace, text("name"))?;
    if claim == "pod" && object["spec"]["serviceAccountName"] != object_ref.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            object_ref.name
        )));
    }
    if !text("uid").is_empty() && text("uid") != object::uid(&object) {
        let message = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            text("uid")
        );
        return Err(Status::conflict("", text("kind"), text("name"), message));
    }
    let mut claims = vec![(claim, json!({ "name": text("name"), "uid": object::uid(&object) }))];
    if let Some(node) = object["spec"]["nodeName"].as_str().filter(|_| claim == "pod") {
        let mut about = json!({ "name": node });
        if let Ok(node) = find("nodes", "", node) {
            about["uid"] = object::uid(&node).into();
        }
        claims.push(("node", about));
    }
    Ok(claims)
}
