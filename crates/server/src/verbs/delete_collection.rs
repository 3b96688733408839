//! DELETE on a collection: deletes all selected objects, each with a delete of its own.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use atoll_admission::Options;
use atoll_meta::Status;
use atoll_registry::{Place, Row};
use http::Response;
use tokio::task::JoinSet;

use super::delete::read_options;
use super::gate::Gate;
use super::list::{position, scope};
use super::patch::Warnings;
use super::warn;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::ListOptions;
use crate::paging::Token;
use crate::respond;

/// Number of concurrent deletions: enough to share commits, and few enough not to crowd out others.
const AT_ONCE: usize = 64;

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let list = ListOptions::parse(row, &call.query, false)?;
    let options = Arc::new(read_options(call)?);
    let scope = scope(row, call, &list);
    let (snapshot, token) = position(server, &scope, &list).await?;
    let start = token.as_ref().map(Token::start);
    let listing = server.registry.list(row, &snapshot, &scope, &list.selection, start, list.limit);
    let row = Arc::new(row.clone());
    let asking = Arc::new((call.user.clone(), call.workspace.clone()));
    let warnings = Arc::new(Warnings::default());
    let mut running = JoinSet::new();
    for object in listing.objects.iter() {
        if running.len() == AT_ONCE {
            finished(running.join_next().await)?;
        }
        let (server, row, options, key) = (server.clone(), row.clone(), options.clone(), object.key.clone());
        let (asking, warnings) = (asking.clone(), warnings.clone());
        running.spawn(async move {
            let Some(parts) = key.parts() else { return Ok(()) };
            let place = Place { workspace: parts.workspace, namespace: parts.namespace, name: parts.name };
            let gate = Gate {
                server: &server,
                row: &row,
                subresource: "",
                workspace: &asking.1,
                place,
                name: place.name,
                user: &asking.0,
                options: Options::Delete(&options),
                warnings: &warnings,
                held: Mutex::default(),
                sealed: Mutex::default(),
                is_ignored: AtomicBool::default(),
            };
            match server.registry.delete(&row, &place, &options, &gate).await {
                // Deleted by another client in the meantime.
                Err(status) if status.reason() == "NotFound" => Ok(()),
                outcome => outcome.map(|_| ()),
            }
        });
    }
    while let Some(outcome) = running.join_next().await {
        finished(Some(outcome))?;
    }
    let answer = respond::list::answer(&row, listing, None, call).await;
    Ok(warn(answer, &warnings.told(), call))
}

fn finished(outcome: Option<Result<Result<(), Status>, tokio::task::JoinError>>) -> Result<(), Status> {
    match outcome {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(Status::internal_error(error.to_string())),
        None => Ok(()),
    }
}
