//! Dispatch of resource requests to verbs, which have one file each.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go

mod admission;
mod binding;
mod components;
mod create;
mod delete;
mod delete_collection;
mod dialect;
mod escalation;
mod eviction;
mod get;
pub(crate) mod list;
pub(crate) mod patch;
mod placement;
mod review;
mod scale;
mod sealing;
mod special;
mod token;
mod update;
mod watch;

use std::collections::HashSet;
use std::sync::Arc;

use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, Status, names};
use atoll_registry::bootstrap::ROOT;
use atoll_registry::catalog::METRICS;
use atoll_registry::{ObjectRef, Row, Stage};
use http::{HeaderValue, Method, Response, header};
use serde_json::Value;

use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::connect::{self, ForwardedRequest};
use crate::negotiate::{Form, Include, Output};
use crate::request::RequestInfo;
use crate::{respond, usage};
pub use admission::RequestAdmission;
pub use patch::Warnings;
use special::SpecialVerb;

/// Handles a resource request, which may be forwarded.
pub async fn dispatch(
    server: &Arc<Server>,
    mut call: Call,
    forwarded: Option<ForwardedRequest>,
) -> Result<Response<Body>, Status> {
    let info = call.info.clone();
    let info = &*info;
    if call.method == Method::HEAD && info.subresource != "proxy" {
        return Err(Status::method_not_supported_generic());
    }
    if let Some(metrics_row) = server.metrics_row(info) {
        return Ok(respond::compress(usage::handle(server, &metrics_row, &call).await?, &call.headers));
    }
    let workspace = call.workspace.serving();
    let Some(row) = server.registry.find(workspace, &info.group, &info.version, &info.resource) else {
        // Within a served group, an unknown resource is reported as a Status.
        let is_measured = server.usage.is_some() && info.group == METRICS;
        return match is_measured || server.registry.catalog.rows().iter().any(|row| row.group == info.group) {
            true => Err(Status::not_found_generic()),
            false => Ok(respond::not_found_page()),
        };
    };
    match row.custom {
        Some(_) if has_wrong_scope(&row, info) => return Ok(respond::not_found_page()),
        Some(_) => {}
        None if dialect::subresource(server, &row, &call).is_some() => {}
        None => check_path(&row, info, &call.method)?,
    }
    // A Scale has a known type, whatever resource it belongs to.
    if row.type_id.is_none() && info.subresource != "scale" {
        let skew = call.output.skew;
        call.output = Output::of_untyped(&call.headers, info, &call.query)?;
        call.output.skew = skew;
    }
    let size = call.body.len().max(stored_size(server, &row, &call));
    let is_trusted = call.response_limits.is_trusted();
    let _started = server.registry.start_request(workspace.unwrap_or(ROOT), size, is_trusted).await?;
    let checked = if row.custom.is_some() { check_custom_path(&row, info) } else { Ok(()) };
    let answer = match checked {
        Ok(()) => call_verb(server, &row, &call, forwarded).await,
        Err(status) => Err(status),
    };
    let response = match row.deprecation() {
        Some(deprecation) => prepend_warning(answer, deprecation, &call),
        None => answer?,
    };
    if let Form::Table(_, Include::Unknown) = call.output.form
        && response.status().is_success()
    {
        let path = FieldPath::new("includeObject");
        let value = call.query.get("includeObject").unwrap_or_default();
        let error = FieldError::invalid(&path, value, "must be 'Metadata', 'Object', 'None', or empty");
        let message = format!("Unable to convert to Table as requested: {error}");
        return Err(Status::bad_request(message));
    }
    Ok(respond::compress(response, &call.headers))
}

/// Returns the size of the stored object that a request changes. A small patch of a large object needs as much
/// memory as the whole object.
fn stored_size(server: &Server, row: &Row, call: &Call) -> usize {
    if !matches!(call.info.verb, "patch" | "update") {
        return 0;
    }
    let object_ref = object_ref(row, call).ok();
    let stored = object_ref.and_then(|object_ref| server.registry.snapshot().get(&row.key(&object_ref)));
    stored.map_or(0, |object| object.json().len())
}

/// Calls the verb.
async fn call_verb(
    server: &Arc<Server>,
    row: &Arc<Row>,
    call: &Call,
    forwarded: Option<ForwardedRequest>,
) -> Result<Response<Body>, Status> {
    let info = &*call.info;
    if let Some(forwarded) = forwarded {
        return connect::handle(server, row, call, forwarded).await;
    }
    if let Some(subresource) = dialect::subresource(server, row, call) {
        return dialect::handle(server, row, call, subresource).await;
    }
    if let Some(special) = SpecialVerb::of(row, info) {
        return special.handle(server, row, call).await;
    }
    match (info.subresource.as_str(), info.verb) {
        (_, "create") => create::handle(server, row, call).await,
        (_, "get") => get::handle(server, row, call).await,
        (_, "list") => list::handle(server, row, call).await,
        ("", "watch") if !row.serves("watch") => {
            Err(Status::method_not_supported(&row.group, &row.resource, "watch"))
        }
        (_, "watch") => watch::handle(server, row, call).await,
        (_, "update") => update::handle(server, row, call).await,
        (_, "patch") => patch::handle(server, row, call).await,
        (_, "delete") => delete::handle(server, row, call).await,
        (_, "deletecollection") => delete_collection::handle(server, row, call).await,
        _ => Err(Status::method_not_supported_generic()),
    }
}

/// Checks that this row is served at such a path and with this verb.
pub(crate) fn check_path(row: &Row, info: &RequestInfo, method: &Method) -> Result<(), Status> {
    let misplaced = match row.namespaced {
        true => info.namespace.is_empty() && !info.name.is_empty(),
        false => info.in_namespace,
    };
    // After a proxy, the path continues.
    if misplaced || (!info.rest.is_empty() && info.subresource != "proxy") {
        return Err(Status::not_found_generic());
    }
    if let Some(is_served) = placement::serves(row, &info.subresource, info.verb) {
        return if is_served { Ok(()) } else { Err(Status::method_not_supported_generic()) };
    }
    let verbs = match info.subresource.as_str() {
        "" => &row.verbs,
        name => &row.subresource(name).ok_or_else(Status::not_found_generic)?.verbs,
    };
    let whole_collection = matches!(info.verb, "create" | "deletecollection");
    let needs_namespace = row.namespaced && info.namespace.is_empty() && whole_collection;
    let names_new_object = info.verb == "create" && !info.name.is_empty() && info.subresource.is_empty();
    let names_nothing = matches!(info.verb, "update" | "patch") && info.name.is_empty();
    // A watch of a resource that can only be listed is refused later, after its path was checked.
    let is_list = info.subresource.is_empty() && info.verb == "watch" && row.serves("list");
    // OPTIONS requests through a proxy are handled by the backend.
    let is_proxied_options = info.verb.is_empty() && info.subresource == "proxy" && method == Method::OPTIONS;
    if needs_namespace
        || names_new_object
        || names_nothing
        || !(is_proxied_options || is_list || verbs.iter().any(|verb| verb == info.verb))
    {
        return Err(Status::method_not_supported_generic());
    }
    Ok(())
}

/// Whether a custom resource is requested with the wrong scope: with a namespace, or without. Upstream does
/// not serve such a path.
fn has_wrong_scope(row: &Row, info: &RequestInfo) -> bool {
    match row.namespaced {
        true => info.namespace.is_empty() && !matches!(info.verb, "list" | "watch"),
        false => !info.namespace.is_empty(),
    }
}

/// The same for a custom resource, whose paths upstream checks less strictly.
fn check_custom_path(row: &Row, info: &RequestInfo) -> Result<(), Status> {
    let unsupported = || Err(Status::method_not_supported(&row.group, &row.resource, info.verb));
    if info.subresource.is_empty() {
        return match info.verb {
            "" => unsupported(),
            "update" | "patch" if info.name.is_empty() => Err(Status::bad_request("name must be provided")),
            _ => Ok(()),
        };
    }
    if let Some(is_served) = placement::serves(row, &info.subresource, info.verb) {
        return if is_served { Ok(()) } else { unsupported() };
    }
    let Some(subresource) = row.subresource(&info.subresource) else {
        return Err(Status::not_found(&row.group, &row.resource, &info.name));
    };
    if subresource.verbs.iter().any(|verb| verb == info.verb) { Ok(()) } else { unsupported() }
}

/// Returns the object that a request names.
pub fn object_ref<'a>(row: &Row, call: &'a Call) -> Result<ObjectRef<'a>, Status> {
    let wrong = names::name_is_path_segment(&call.info.name, false);
    if !wrong.is_empty() {
        let message = format!("Name parameter invalid: {}: {}", quote(&call.info.name), wrong.join(";"));
        return Err(Status::bad_request(message));
    }
    let namespace = if row.namespaced { call.info.namespace.as_str() } else { "" };
    Ok(ObjectRef { workspace: call.workspace.id()?, namespace, name: &call.info.name })
}

/// Checks that the object's namespace matches the URL. For cluster-scoped objects, it is ignored.
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

/// Adds warnings to a response or error.
fn warn(answer: Result<Response<Body>, Status>, warnings: &[String], call: &Call) -> Response<Body> {
    let mut response = answer.unwrap_or_else(|status| respond::status(&status, call.output.refusal()));
    for warning in limit_warnings(warnings) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// Removes duplicates. If the warnings are too long for headers in total, each is truncated and some are
/// dropped, as upstream.
fn limit_warnings(warnings: &[String]) -> Vec<&str> {
    const MAX_LENGTH: usize = 4096;
    const MAX_LENGTH_EACH: usize = 256;
    let mut seen = HashSet::new();
    let distinct = warnings.iter().filter(|warning| !warning.is_empty() && seen.insert(warning.as_str()));
    let mut each: Vec<&str> = distinct.map(String::as_str).collect();
    let length = |text: &str| text.chars().count();
    let (mut total, mut over) = (0, None);
    for (index, warning) in each.iter().enumerate() {
        total += length(warning);
        if total > MAX_LENGTH {
            over = Some(index);
            break;
        }
    }
    let Some(over) = over else { return each };
    let mut written = 0;
    for (index, warning) in each.iter_mut().enumerate() {
        if index > over && written >= MAX_LENGTH {
            *warning = "";
            continue;
        }
        let end = warning.char_indices().nth(MAX_LENGTH_EACH).map_or(warning.len(), |(end, _)| end);
        *warning = &warning[..end];
        written += length(warning);
    }
    each.retain(|warning| !warning.is_empty());
    each
}

/// Adds a warning before those that exist.
fn prepend_warning(answer: Result<Response<Body>, Status>, warning: &str, call: &Call) -> Response<Body> {
    let mut response = warn(answer, &[], call);
    let others: Vec<HeaderValue> = match response.headers_mut().entry(header::WARNING) {
        header::Entry::Occupied(entry) => entry.remove_entry_mult().1.collect(),
        header::Entry::Vacant(_) => Vec::new(),
    };
    let mut response = warn(Ok(response), &[warning.to_string()], call);
    for other in others {
        response.headers_mut().append(header::WARNING, other);
    }
    response
}

/// Runs work on the body of a request. Large bodies take turns by tenant, aside from other requests.
async fn with_body<T>(server: &Server, call: &Call, work: impl FnOnce() -> T) -> Result<T, Status> {
    let workspace = call.workspace.scope().unwrap_or(ROOT);
    server.registry.run_sized(workspace, call.body.len(), Stage::New, work).await
}

/// Removes duplicate owner references and returns a warning about them.
fn dedup_owners(object: &mut Value, patched: bool) -> Option<String> {
    let owners = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    // Most objects have one owner, and hashing it is not free.
    if owners.len() < 2 {
        return None;
    }
    let mut seen: HashSet<&Value> = HashSet::with_capacity(owners.len());
    let mut repeated = Vec::new();
    let is_first: Vec<bool> = owners.iter().map(|owner| seen.insert(owner)).collect();
    drop(seen);
    let mut is_first = is_first.into_iter();
    owners.retain(|owner| {
        let is_kept = is_first.next().unwrap_or(true);
        if !is_kept {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_string());
        }
        is_kept
    });
    // Upstream checks a patched object later, and its message says so.
    let when = if patched { " after mutating admission happens" } else { "" };
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{dedup_owners, limit_warnings};

    #[test]
    fn repeated_owners_are_removed_in_order() {
        let owner =
            |uid: &str, controller: bool| json!({ "kind": "Pod", "uid": uid, "controller": controller });
        let owners = [("a", true), ("b", true), ("a", true), ("a", false), ("b", true)];
        let owners = owners.map(|(uid, controller)| owner(uid, controller));
        let mut object = json!({ "metadata": { "ownerReferences": owners } });
        let warning = dedup_owners(&mut object, false).unwrap();
        assert!(warning.ends_with("; duplicate UID(s) observed: a, b"), "{warning}");
        let kept: Value = [owner("a", true), owner("b", true), owner("a", false)].into_iter().collect();
        assert_eq!(object["metadata"]["ownerReferences"], kept);
        assert_eq!(dedup_owners(&mut object, false), None);
    }

    #[test]
    fn warnings_fit_into_headers() {
        let texts = |lengths: &[usize]| -> Vec<String> {
            let letters = lengths.iter().zip('a'..);
            letters.map(|(length, letter)| letter.to_string().repeat(*length)).collect()
        };
        let lengths =
            |warnings: &[String]| limit_warnings(warnings).iter().map(|text| text.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&texts(&[3, 4000, 93])), [3, 4000, 93]);
        assert_eq!(lengths(&texts(&[3, 4000, 94])), [3, 256, 94]);
        assert_eq!(lengths(&texts(&[300; 20])), [256; 16]);
        let twice = [texts(&[5, 6]), texts(&[5, 6])].concat();
        assert_eq!(lengths(&twice), [5, 6]);
    }
}
