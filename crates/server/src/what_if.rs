//! `/services/what-if`: the effect of a change on placements, without making it. The user needs the rights that the
//! change itself would need.

use std::sync::Arc;

use atoll_authn::User;
use atoll_authz::{Attributes, Target, refusal};
use atoll_fleet::what_if::{ScaleChange, WhatIf};
use atoll_meta::{Status, object};
use atoll_placement::policy::Policy;
use atoll_registry::catalog::ATOLL;
use http::{Method, Response};
use serde_json::Value;

use crate::Server;
use crate::advisor_queue::WHAT_IF;
use crate::body::Body;
use crate::respond;
use crate::sync::pauses;
use crate::workspace::Workspace;

pub const PATH: &str = "/services/what-if";
const CLUSTERS: &str = "clusters";
const NO_SCHEDULER: &str =
    "no scheduler runs in this control plane, so nothing is known about what it would do";
const STARTING: &str = "the scheduler starts when the first cluster has joined; try again in a few seconds";

pub async fn handle(
    server: &Arc<Server>,
    workspace: &Workspace,
    user: &User,
    method: &Method,
    body: &[u8],
) -> Result<Response<Body>, Status> {
    if *method != Method::POST {
        return Err(Status::method_not_supported_generic());
    }
    let change: WhatIf = serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("the body is not a valid question: {error}")))?;
    let given =
        [change.drain.is_some(), change.lose.is_some(), change.scale.is_some(), !change.policy.is_null()];
    if given.iter().filter(|is_given| **is_given).count() != 1 {
        return Err(Status::bad_request("set exactly one of drain, lose, scale and policy".to_string()));
    }
    authorize(server, workspace, user, &change)?;
    let advisor =
        server.advisor.clone().ok_or_else(|| Status::service_unavailable(NO_SCHEDULER.to_string()))?;
    let id = workspace.id()?.to_string();
    // Everything that is affected is decided about again, which takes a while in a large fleet.
    let tenant = server.registry.tenant_of(&id);
    let answer = WHAT_IF.answered(&tenant, move |is_over| advisor.what_if(&id, &change, is_over)).await?;
    let unknown = if server.runs_scheduler { STARTING } else { NO_SCHEDULER };
    let mut answer = answer.ok_or_else(|| Status::service_unavailable(unknown.to_string()))??;
    answer.paused = pauses::workspace_pause_reason(server, workspace).unwrap_or_default();
    let answer = serde_json::to_value(answer).map_err(|error| Status::internal_error(error.to_string()))?;
    Ok(respond::json(&answer))
}

/// Checks the right to make the change.
fn authorize(server: &Server, workspace: &Workspace, user: &User, change: &WhatIf) -> Result<(), Status> {
    let check = |levels: usize, verb: &str, target: Target<'_>| {
        let attributes = Attributes { user, verb, target };
        match server.is_allowed_above(workspace, levels, &attributes) {
            true => Ok(()),
            false => Err(refusal(&attributes, "the change itself would need this right")),
        }
    };
    if let Some(name) = change.drain.as_deref().or(change.lose.as_deref()) {
        let id = workspace.id()?;
        // A cluster that does not serve the workspace is like one that does not exist, so that guesses tell nothing.
        let registered = server.registry.cluster(id, name, "");
        let registered = registered.filter(|found| server.registry.cluster_serves(id, found));
        let ancestry = server.registry.ancestry(id);
        let is_home = |above: &String| registered.as_ref().is_some_and(|found| found.workspace == *above);
        let levels = ancestry.iter().position(is_home).unwrap_or(0);
        let target =
            Target::Resource { group: ATOLL, resource: CLUSTERS, subresource: "", namespace: "", name };
        return check(levels, "patch", target);
    }
    if let Some(ScaleChange { group, resource, namespace, name, replicas }) = &change.scale {
        if *replicas < 0 {
            return Err(Status::bad_request("replicas must not be negative".to_string()));
        }
        return check(
            0,
            "patch",
            Target::Resource { group, resource, subresource: "scale", namespace, name },
        );
    }
    let resource = policy_resource(&change.policy)?;
    let (namespace, name) = (object::namespace(&change.policy), object::name(&change.policy));
    let target = |name| Target::Resource { group: ATOLL, resource, subresource: "", namespace, name };
    // As for an apply, which creates what does not exist.
    check(0, "patch", target(name)).and_then(|()| check(0, "create", target("")))
}

/// Returns the resource of a valid policy.
fn policy_resource(policy: &Value) -> Result<&'static str, Status> {
    let resource = match object::kind(policy) {
        "PlacementPolicy" => "placementpolicies",
        "ClusterPlacementPolicy" => "clusterplacementpolicies",
        _ => {
            let message = "the policy must be a PlacementPolicy or a ClusterPlacementPolicy";
            return Err(Status::bad_request(message.to_string()));
        }
    };
    if object::name(policy).is_empty() {
        return Err(Status::bad_request("the policy must have a name".to_string()));
    }
    match Policy::parse(policy) {
        Ok(_) => Ok(resource),
        Err(errors) => Err(Status::invalid(ATOLL, object::kind(policy), object::name(policy), errors)),
    }
}
