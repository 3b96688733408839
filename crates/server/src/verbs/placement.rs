//! The placement subresource: the clusters of an object. The object itself is not changed.

mod closed;
mod explain;
mod numbers;
mod record;
mod shares;
mod writers;

use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::explanation::Explanation;
use atoll_fleet::placement;
use atoll_fleet::scheduled::has_intent;
use atoll_meta::{FieldError, FieldPath, Status, json, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::placement::{RegisteredCluster, SUBRESOURCE, VERBS, is_placeable, unplaceable_reason};
use atoll_registry::{LimitsOnly, Row};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::object_ref;
use super::patch::{PatchKind, options as patch_options};
use super::with_body;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::WriteOptions;
use crate::sync::pauses;
use crate::{decode, respond};

const KIND: &str = "Placement";
const VERSION: &str = "v1alpha1";
/// Fields of the metadata that a response is made of.
const SHOWN: [&str; 6] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "annotations"];

/// Whether this subresource exists for the row, and whether the verb is supported.
pub fn serves(row: &Row, subresource: &str, verb: &str) -> Option<bool> {
    (subresource == SUBRESOURCE && is_placeable(row)).then(|| VERBS.contains(&verb))
}

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let object_ref = object_ref(row, call)?;
    let (wanted, dry_run): (PlacementChange, bool) = match call.info.verb {
        "get" => {
            let object = server.registry.get(row, &object_ref)?;
            let object = parse(&object.json())?;
            let explanation = match call.query.is_true(explain::PARAMETER) {
                true => Some(explain::explain(server, row, call, &object).await?),
                false => None,
            };
            return Ok(response(server, row, &object, explanation, call));
        }
        "update" => {
            let options = WriteOptions::parse("UpdateOptions", &call.query, Vec::new())?;
            let decode = || decode::options(ATOLL, VERSION, KIND, &call.headers, &call.body);
            let body = with_body(server, call, decode).await??;
            (PlacementChange::Replace(body), options.dry_run)
        }
        _ => {
            let kind = PatchKind::of(call, row)?;
            let dry_run = patch_options(call, kind)?.dry_run;
            let patch = with_body(server, call, || json::parse(&call.body))
                .await?
                .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
            match kind {
                PatchKind::Json => (PlacementChange::JsonPatch(patch.value), dry_run),
                PatchKind::Merge => (PlacementChange::MergePatch(patch.value), dry_run),
                _ => {
                    let known = ["application/json-patch+json", "application/merge-patch+json"];
                    return Err(Status::unsupported_media_type(&known));
                }
            }
        }
    };
    let change = |existing: &Value, current: &Placement| {
        let wanted = wanted.of(existing, current)?;
        let field = |name: &str| wanted["metadata"][name].as_str().unwrap_or_default().to_string();
        let is_stale =
            |name: &str, now: &str| !matches!(field(name), given if given.is_empty() || given == now);
        if is_stale("uid", object::uid(existing))
            || is_stale("resourceVersion", object::resource_version(existing))
        {
            let message =
                "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Status::conflict(&row.group, &row.resource, object_ref.name, message));
        }
        let shares = shares::read(server, row, call, &wanted, (existing, current))
            .map_err(|errors| Status::invalid(ATOLL, KIND, object_ref.name, errors))?;
        let clusters = shares.all;
        let by = wanted["spec"]["by"].as_str().unwrap_or_default();
        let by_client = writers::WantedPlacement { by, shares: &clusters, dry_run };
        writers::check(server, row, call, (existing, current), &by_client)?;
        let closed = closed::check(row, &object_ref, &wanted, &clusters, &shares.new);
        if !closed.is_empty() {
            return Err(Status::invalid(ATOLL, KIND, object_ref.name, closed));
        }
        if let Some(reason) =
            unplaceable_reason(&row.group, &row.resource, existing).filter(|_| !clusters.is_empty())
        {
            let error = FieldError::forbidden(&FieldPath::new("spec").child("clusters"), reason);
            return Err(Status::invalid(ATOLL, KIND, object_ref.name, vec![error]));
        }
        let violation = |new: &RegisteredCluster| {
            server.registry.pod_security_violation(row, object_ref.workspace, existing, new)
        };
        if let Some(violation) = shares.new.iter().find_map(violation) {
            return Err(Status::forbidden(&row.group, &row.resource, object_ref.name, violation));
        }
        let duplicate = wanted["spec"]["duplicate"] == true;
        let named = (row.group.as_str(), row.resource.as_str(), object_ref.namespace, object_ref.name);
        if let Some(reason) = placement::duplicates(named, current, &clusters, duplicate) {
            let error = FieldError::forbidden(&FieldPath::new("spec").child("clusters"), reason);
            return Err(Status::invalid(ATOLL, KIND, object_ref.name, vec![error]));
        }
        let mut decided = current.decided(clusters, "");
        record::add(&wanted, current, &mut decided, writers::is_scheduler(server, call))
            .map_err(|errors| Status::invalid(ATOLL, KIND, object_ref.name, errors))?;
        decided.duplicate = duplicate && !decided.clusters.is_empty();
        // A cluster that is no longer registered never confirms a deletion.
        let is_there =
            |name: &str, uid: &str| server.registry.cluster(object_ref.workspace, name, uid).is_some();
        decided.leaving.retain(|one| is_there(&one.name, &one.uid));
        pauses::check(server, row, &call.workspace, existing, current, &decided)?;
        Ok(decided)
    };
    let placed = server.registry.place(row, &object_ref, None, dry_run, &LimitsOnly, &change).await?;
    // A change returns nothing else of the object.
    let written = match json::metadata_fields(&placed.json, &SHOWN) {
        Some(written) => written,
        None => parse(&placed.json)?,
    };
    Ok(response(server, row, &written, None, call))
}

enum PlacementChange {
    Replace(Value),
    JsonPatch(Value),
    MergePatch(Value),
}

impl PlacementChange {
    fn of(&self, existing: &Value, current: &Placement) -> Result<Value, Status> {
        let mut placement = shape(existing, current);
        match self {
            PlacementChange::Replace(wanted) => return Ok(wanted.clone()),
            PlacementChange::JsonPatch(patch) => {
                atoll_merge::json_patch(&mut placement, patch).map_err(|error| error.status())?;
            }
            PlacementChange::MergePatch(patch) => atoll_merge::merge_patch(&mut placement, patch),
        }
        Ok(placement)
    }
}

fn shape(object: &Value, placement: &Placement) -> Value {
    let mut metadata = json!({});
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(name) {
            metadata[name] = value.clone();
        }
    }
    let mut spec = json!({ "clusters": placement.clusters });
    if !placement.by.is_empty() {
        spec["by"] = placement.by.as_str().into();
    }
    if placement.duplicate {
        spec["duplicate"] = true.into();
    }
    if !placement.phase.is_empty() {
        spec["phase"] = placement.phase.as_str().into();
    }
    if !placement.target.is_empty() {
        spec["target"] = json!(placement.target);
    }
    if placement.missing > 0 {
        spec["missing"] = placement.missing.into();
    }
    if !placement.blocked.is_empty() {
        spec["blocked"] = placement.blocked.as_str().into();
    }
    if !placement.left_out.is_empty() {
        spec["leftOut"] = json!(placement.left_out);
    }
    if !placement.autoscaler.is_empty() {
        spec["autoscaler"] = placement.autoscaler.as_str().into();
    }
    if !placement.decisions.is_empty() {
        spec["decisions"] = json!(placement.decisions);
    }
    let mut shown = json!({ "kind": KIND, "apiVersion": format!("{ATOLL}/{VERSION}"), "metadata": metadata, "spec": spec });
    if !placement.leaving.is_empty() {
        let names: Vec<&str> = placement.leaving.iter().map(|one| one.name.as_str()).collect();
        shown["status"] = json!({ "leaving": names });
    }
    shown
}

fn response(
    server: &Server,
    row: &Row,
    object: &Value,
    explanation: Option<Explanation>,
    call: &Call,
) -> Response<Body> {
    let mut placement = shape(object, &Placement::of(object));
    // Clients then write an intent, and wait for the scheduler.
    let is_scheduled = writers::is_placed_by_default(server, row, call) || has_intent(object);
    if is_scheduled && server.has_scheduler() {
        placement["status"]["scheduled"] = true.into();
    }
    if let Some(explanation) = explanation {
        placement["status"]["explanation"] = json!(explanation);
    }
    respond::value(StatusCode::OK, &placement, call.output)
}

fn parse(stored: &[u8]) -> Result<Value, Status> {
    json::parse(stored).map(|parsed| parsed.value).map_err(|error| Status::internal_error(error.to_string()))
}
