//! The objects that are placed on a cluster or still leave it: `/services/placed/CLUSTER` in the registering
//! workspace. Unlike the sync view, it includes objects that the cluster may not get.

use atoll_fleet::Placement;
use atoll_fleet::view::ObjectTarget;
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::placement::is_namespace;
use atoll_registry::{Burst, run_in_place};
use http::{Method, Response};
use serde_json::json;

use super::cluster_scope::ClusterScope;
use super::view::target;
use super::{object_facts, parse};
use crate::Server;
use crate::body::Body;
use crate::respond;
use crate::workspace::Workspace;

const PATH: &str = "/services/placed/";

/// Returns the cluster that a path names.
pub fn cluster(path: &str) -> Option<&str> {
    let name = path.strip_prefix(PATH)?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

pub async fn handle(
    server: &Server,
    workspace: &Workspace,
    cluster: &str,
    method: &Method,
) -> Result<Response<Body>, Status> {
    if *method != Method::GET {
        return Err(Status::method_not_supported_generic());
    }
    let (registry, workspace) = (&server.registry, workspace.id()?);
    let snapshot = registry.snapshot();
    let key = atoll_store::Key::object(ATOLL, "clusters", workspace, "", cluster);
    let registered = snapshot.get(&key).ok_or_else(|| Status::not_found(ATOLL, "clusters", cluster))?;
    let uid = object::uid(&parse(&registered.json())?).to_string();
    let scope = ClusterScope { workspace, cluster, uid: &uid };
    let mut found: Vec<ObjectTarget> = Vec::new();
    let mut burst = Burst::default();
    for (key, _) in registry.placements.on(cluster) {
        let Some((parts, object)) = key.parts().zip(snapshot.get(&key)) else { continue };
        // Placements of namespaces are only bookkeeping.
        if is_namespace(&parts) {
            continue;
        }
        // The placement is in the metadata. Objects need not be parsed, which takes long for all of a cluster.
        let _turn = burst.begin(registry, parts.workspace, object.size()).await;
        let of_cluster = run_in_place(object.size(), || {
            let object = object_facts::head(&object)?;
            let may_have = scope.may_have(registry, parts.workspace, &Placement::of(&object));
            may_have.then(|| target(&parts, &object))
        });
        found.extend(of_cluster);
    }
    found.sort_unstable();
    found.dedup();
    Ok(respond::json(&json!({ "items": found })))
}
