//! DELETE on a collection: deletes all selected objects, each with a delete of its own.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use atoll_admission::AdmissionOptions;
use atoll_meta::Status;
use atoll_registry::{ObjectRef, Row};
use http::Response;
use tokio::task::JoinSet;

use super::admission::RequestAdmission;
use super::delete::read_options;
use super::list::{position, scope};
use super::patch::Warnings;
use super::warn;
use super::with_body;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::ListOptions;
use crate::paging::Token;
use crate::respond;

/// Number of concurrent deletions: enough to share commits, and few enough not to crowd out others.
const CONCURRENT_DELETIONS: usize = 64;

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let list = ListOptions::parse(row, &call.query, false)?;
    let options = Arc::new(with_body(server, call, || read_options(call)).await??);
    let scope = scope(row, call, &list);
    let (snapshot, token) = position(server, &scope, &list).await?;
    let start = token.as_ref().map(Token::start);
    let listing = server.registry.list(row, &snapshot, &scope, &list.selection, start, list.limit).await?;
    let row = Arc::new(row.clone());
    let requester = Arc::new((call.user.clone(), call.workspace.clone()));
    let warnings = Arc::new(Warnings::default());
    let mut running = JoinSet::new();
    // Inherited objects are deleted where they come from.
    for object in listing.objects.iter().filter(|object| !snapshot.is_inherited(&object.key)) {
        if running.len() == CONCURRENT_DELETIONS {
            finished(running.join_next().await)?;
        }
        let (server, row, options, key) = (server.clone(), row.clone(), options.clone(), object.key.clone());
        let (requester, warnings) = (requester.clone(), warnings.clone());
        running.spawn(async move {
            let Some(parts) = key.parts() else { return Ok(()) };
            let object_ref =
                ObjectRef { workspace: parts.workspace, namespace: parts.namespace, name: parts.name };
            let admission = RequestAdmission {
                server: &server,
                row: &row,
                subresource: "",
                workspace: &requester.1,
                object_ref,
                name: object_ref.name,
                user: &requester.0,
                options: AdmissionOptions::Delete(&options),
                warnings: &warnings,
                reservations: Mutex::default(),
                sealed: Mutex::default(),
                is_placement_ignored: AtomicBool::default(),
            };
            match server.registry.delete(&row, &object_ref, &options, &admission).await {
                // Deleted by another client in the meantime.
                Err(status) if status.reason() == "NotFound" => Ok(()),
                outcome => outcome.map(|_| ()),
            }
        });
    }
    while let Some(outcome) = running.join_next().await {
        finished(Some(outcome))?;
    }
    let answer = respond::list::render(&row, listing, None, call).await;
    Ok(warn(answer, &warnings.current(), call))
}

fn finished(outcome: Option<Result<Result<(), Status>, tokio::task::JoinError>>) -> Result<(), Status> {
    match outcome {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(Status::internal_error(error.to_string())),
        None => Ok(()),
    }
}
