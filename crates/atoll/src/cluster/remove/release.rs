//! Releases all objects in a cluster, so that they stay there without any mark.
//!
//! The syncer must have stopped before: it would delete objects that are no longer placed, and restore their
//! marks. It stops when it finds that its control plane no longer claims the cluster, and reports that in a
//! condition of the Cluster.

use std::collections::HashSet;
use std::time::Duration;

use atoll_client::path;
use atoll_fleet::marks::{CONTROL_PLANE, SYSTEM_NAMESPACE, UID};
use atoll_fleet::{ClusterView, api_access};
use atoll_meta::object;
use atoll_meta::views::conditions;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::control_plane_connection::ControlPlaneConnection;
use super::super::copied_marks;
use super::super::object_release;
use crate::advice::Failure;
use crate::output::errln;
use crate::place::discover;
use crate::place::resources::ApiResource;
use atoll_joining::api::Api;
use atoll_joining::claim::{self, Claim, RELEASED};

/// Reason of the condition by which a syncer reports that it has stopped.
const STOPPED_REASON: &str = "ClaimedByAnother";
/// Timeout for the syncer to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(180);
/// A syncer without heartbeats for this long is not running. When it starts, it reads the claim first.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Objects per page.
pub const PAGE: usize = 500;

/// Releases the claim and waits until the syncer has stopped. Returns the id of the control plane in the
/// marks.
pub async fn stop_syncer(fleet: &ControlPlaneConnection, name: &str, below: &Api) -> Result<String, Failure> {
    let found = below.get(&claim::path()).await?;
    let claim = Claim::of(&found);
    let control_plane = match claim.control_plane.as_str() {
        // An earlier attempt has released the claim.
        RELEASED => found["metadata"]["labels"][CONTROL_PLANE].as_str().unwrap_or_default().to_string(),
        id => id.to_string(),
    };
    if control_plane.is_empty() {
        return Err(Failure::new(
            format!("{name} has no claim of a control plane"),
            "join it again first: the claim identifies Atoll's objects",
        ));
    }
    // The label keeps the id of the control plane for the next attempt, if this one is interrupted.
    let given_up = json!({
        "metadata": { "labels": { CONTROL_PLANE: control_plane } }, "data": { "controlPlane": RELEASED },
    });
    below.merge(&claim::path(), &given_up).await?;
    errln!("waiting until the syncer of {name} has stopped");
    let (start, mut since, mut heartbeat) = (Instant::now(), Instant::now(), None);
    loop {
        let cluster = fleet.get(name).await?;
        let syncer = &cluster["status"]["syncer"];
        // The user may not be allowed to read the Lease.
        let latest = fleet.heartbeat(name).await;
        let latest = latest.or_else(|| syncer["lastHeartbeatTime"].as_str().map(str::to_string));
        if has_stopped(&cluster) || syncer.is_null() || since.elapsed() > HEARTBEAT_TIMEOUT {
            return Ok(control_plane);
        }
        if latest != heartbeat {
            (heartbeat, since) = (latest, Instant::now());
        }
        if start.elapsed() > STOP_TIMEOUT {
            // Restore the claim.
            below.merge(&claim::path(), &json!({ "data": { "controlPlane": control_plane } })).await?;
            return Err(Failure::new(
                format!("the syncer of {name} has not stopped; nothing was changed"),
                "stop the syncer if you run it by hand, then try again",
            ));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The syncer writes the reason to a field of its own, from which the condition is derived.
fn has_stopped(cluster: &Value) -> bool {
    ClusterView::of(cluster).problem().is_some_and(|problem| problem.reason == STOPPED_REASON)
        || conditions(cluster).any(|condition| condition.reason() == STOPPED_REASON)
}

/// The objects that have lost their marks.
#[derive(Default)]
struct MarkRemoval {
    count: usize,
    /// Uids of the objects above.
    uids: HashSet<String>,
    /// Paths of the Deployments.
    deployments: Vec<String>,
}

/// Removes the marks from all objects that have them. Returns the number of objects.
pub async fn remove_marks(below: &Api, control_plane: &str) -> Result<usize, Failure> {
    let mut removal = MarkRemoval::default();
    let resources = discover(below).await?;
    for resource in preferred(&resources) {
        remove_marks_of(below, resource, control_plane, &mut removal).await?;
    }
    object_release::remove_locators(below, control_plane).await?;
    copied_marks::remove(below, "", &removal.uids, &removal.deployments).await?;
    Ok(removal.count)
}

/// One version of each resource that can be listed and patched.
pub fn preferred(resources: &[ApiResource]) -> impl Iterator<Item = &ApiResource> {
    let is_first = |position: usize, resource: &ApiResource| {
        !resources[..position].iter().any(|it| (&it.group, &it.name) == (&resource.group, &resource.name))
    };
    resources.iter().enumerate().filter_map(move |(position, resource)| {
        let has = |verb: &str| resource.verbs.iter().any(|it| it == verb);
        (has("list") && has("patch") && is_first(position, resource)).then_some(resource)
    })
}

async fn remove_marks_of(
    below: &Api,
    resource: &ApiResource,
    control_plane: &str,
    removal: &mut MarkRemoval,
) -> Result<(), Failure> {
    let selector = format!("labelSelector={CONTROL_PLANE}%3D{control_plane}&limit={PAGE}");
    let mut next = String::new();
    loop {
        let path = format!("{}?{selector}{next}", resource.collection(""));
        let list = match below.call_as(Method::GET, &path, METADATA, None).await {
            Ok(list) => list,
            // A syncer cannot have created objects of a resource that it may not list.
            Err(problem) if problem.is("Forbidden") || problem.is("NotFound") => return Ok(()),
            Err(problem) => return Err(problem.into()),
        };
        for item in list["items"].as_array().into_iter().flatten() {
            let (namespace, name) = (object::namespace(item), object::name(item));
            // Atoll's own namespace is deleted as a whole.
            if namespace == SYSTEM_NAMESPACE || (resource.name == "namespaces" && name == SYSTEM_NAMESPACE) {
                continue;
            }
            match object::annotation(item, UID) {
                Some(uid) => drop(removal.uids.insert(uid.to_string())),
                None if resource.name == "namespaces" => {}
                // A copy by a controller of an object with the label, such as the endpoints of a Service.
                None => continue,
            }
            let path = path::object(&resource.collection(namespace), name);
            if copied_marks::is_deployments(resource) {
                removal.deployments.push(path.clone());
            }
            if resource.name == "secrets" && api_access::is_access_secret(item) {
                // A token of the control plane must not stay in a cluster that leaves. Pods start without it.
                below.delete_this(&path, json!({ "uid": object::uid(item) })).await?;
                continue;
            }
            match below.merge(&path, &atoll_fleet::release(item)).await {
                Ok(_) => removal.count += 1,
                Err(problem) if problem.is("NotFound") => {}
                Err(problem) => return Err(problem.into()),
            }
        }
        match object::continuation(&list) {
            Some(token) => next = format!("&continue={}", crate::workspace::session::encoded(token)),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_syncers_are_recognized() {
        let cluster =
            |reason: &str| json!({ "status": { "conditions": [{ "type": "Ready", "reason": reason }] } });
        assert!(has_stopped(&cluster("ClaimedByAnother")));
        assert!(has_stopped(&json!({ "status": { "problem": { "reason": "ClaimedByAnother" } } })));
        assert!(!has_stopped(&cluster("Synced")));
    }
}
