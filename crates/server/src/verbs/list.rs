//! GET on a collection: at any revision, complete or in pages.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go
// upstream: staging/src/k8s.io/apiserver/pkg/storage/continue.go

mod empty_list;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, Status};
use atoll_registry::{ObjectRef, Row, Subtree};
use atoll_watch::{RevisionError, Scope, Snapshot};
use http::Response;

use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::{ListOptions, Match};
use crate::paging::{Remaining, Token};
use crate::respond;
use crate::sync::heartbeat_times;
use crate::workspace::Workspace;

/// Time that a read waits for a future revision, as upstream.
const REVISION_TIMEOUT: Duration = Duration::from_secs(3);

const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start \
    a new list without the continue parameter, or use the continue token in this response to retrieve the remainder \
    of the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
    modified, or deleted between the time the first chunk was returned and now may show up in the list.";

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let mut options = ListOptions::parse(row, &call.query, false)?;
    options.selection.within = subtree(server, row, call);
    empty_list::check(server, row, call, &options).await?;
    let scope = scope(row, call, &options);
    let (snapshot, token) = position(server, &scope, &options).await?;
    let registry = &server.registry;
    // Upstream serves lists at revision 0 from its watch cache, which ignores the limit.
    let limit = if options.resource_version == "0" { 0 } else { options.limit };
    let start = token.as_ref().map(Token::start);
    let mut listing = registry.list(row, &snapshot, &scope, &options.selection, start, limit).await?;
    if heartbeat_times::are_shown(row, call) {
        heartbeat_times::set_heartbeat_times(&mut listing, &snapshot);
    }
    let next = listing.next.as_deref();
    let rest = listing.remaining.map(|count| Remaining { count, of: hash(&scope) });
    let token = next.map(|next| Token::encode(Some(listing.revision), next, rest));
    respond::list::render(row, listing, token.as_deref(), call).await
}

/// Returns the workspaces of a list, if they are neither one nor all.
pub fn subtree(server: &Server, row: &Row, call: &Call) -> Option<Subtree> {
    let Workspace::Below(workspace) = &call.workspace else { return None };
    let definition = row.custom.as_ref().map(|_| format!("{}.{}", row.resource, row.group));
    Some(Subtree::new(server.registry.clone(), workspace, definition))
}

/// Returns the scope of a list; a single object if the selector names it.
pub fn scope(row: &Row, call: &Call, options: &ListOptions) -> Scope {
    let workspace = call.workspace.scope();
    let namespace = if row.namespaced { call.info.namespace.as_str() } else { "" };
    let named = Some(call.info.name.as_str()).filter(|name| !name.is_empty());
    let name = named.or_else(|| options.selection.fields.required_exact("metadata.name"));
    let one_place = !row.namespaced || !namespace.is_empty();
    match (workspace, name) {
        (Some(workspace), Some(name)) if one_place && !name.is_empty() => {
            row.object_scope(&ObjectRef { workspace, namespace, name })
        }
        _ => row.scope(workspace, namespace),
    }
}

/// Returns the snapshot to list and the position to continue from.
pub async fn position(
    server: &Arc<Server>,
    scope: &Scope,
    options: &ListOptions,
) -> Result<(Arc<Snapshot>, Option<Token>), Status> {
    let cache = &server.registry.cache;
    if !options.continue_token.is_empty() {
        let mut token = Token::decode(&options.continue_token)?;
        token.rest = token.rest.filter(|rest| rest.of == hash(scope));
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let snapshot = match token.revision {
            None => cache.snapshot(),
            Some(revision) => cache.continue_at(revision, scope).map_err(|error| match error {
                // The number of remaining objects at the current revision must be counted again.
                RevisionError::Expired { .. } => {
                    Status::expired(EXPIRED).with_continue(Token::encode(None, &token.after, None))
                }
                RevisionError::Future { requested, current } => too_large(requested, current),
            })?,
        };
        return Ok((snapshot, Some(token)));
    }
    let revision = parse_revision(&options.resource_version);
    let revision =
        revision.map_err(|error| Status::bad_request(format!("invalid resource version: {error}")))?;
    let exact = match options.resource_version_match {
        Some(Match::Exact) => true,
        Some(Match::NotOlderThan) => false,
        // By default, a limited list at a revision is exact.
        None => options.limit > 0 && revision > 0,
    };
    wait_for_revision(server, revision).await?;
    if !exact {
        return Ok((cache.snapshot(), None));
    }
    let snapshot = cache.at(revision, scope).map_err(|error| match error {
        RevisionError::Expired { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        RevisionError::Future { requested, current } => too_large(requested, current),
    })?;
    Ok((snapshot, None))
}

/// Distinguishes lists in continue tokens.
fn hash(scope: &Scope) -> u64 {
    let mut hasher = DefaultHasher::new();
    scope.hash(&mut hasher);
    hasher.finish()
}

/// Waits for a future revision, within a timeout.
pub async fn wait_for_revision(server: &Arc<Server>, revision: u64) -> Result<(), Status> {
    let cache = &server.registry.cache;
    if cache.revision() >= revision {
        return Ok(());
    }
    let waited = tokio::time::timeout(REVISION_TIMEOUT, cache.wait_for(revision)).await;
    waited.map_err(|_| too_large(revision, cache.revision()))
}

fn too_large(requested: u64, current: u64) -> Status {
    Status::resource_version_too_large(requested, current)
}

/// Returns 0 for an empty text.
pub fn parse_revision(text: &str) -> Result<u64, FieldError> {
    if text.is_empty() {
        return Ok(0);
    }
    let wrong = |problem: &str| {
        let message = format!("strconv.ParseUint: parsing {}: {problem}", quote(text));
        FieldError::invalid(&FieldPath::new("resourceVersion"), text, message)
    };
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong("invalid syntax"));
    }
    text.parse().map_err(|_| wrong("value out of range"))
}
