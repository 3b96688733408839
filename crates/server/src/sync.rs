//! The syncer's API: `/services/sync/CLUSTER` in the registering workspace.
//!
//! ```text
//!   GET ─► view:   everything that is placed on the cluster, shaped for it, then every change; the latest state of each object
//!   GET …/tunnel ─► tunnel: requests of the control plane to the cluster, over the agent's connection
//!   POST …/certificate ─► certificate: the credential of an agent
//!   POST ─► report: status of objects (records), confirmed deletions, the state of the cluster (heartbeat),
//!                   which updates its status and a Lease; its definitions (imports)
//! ```
//!
//! `/services/placed/CLUSTER` lists the same objects, for controllers. `/services/clusters/CLUSTER/proxy` leads to
//! the API of the cluster, for administrators.
//!
//! A user with the right to such a path in the workspace sees what is placed on that cluster, in that
//! workspace and its descendants, and nothing else.

pub mod certificate;
pub mod cluster_requests;
mod cluster_scope;
pub mod clusters;
mod dialects;
mod events;
mod exclusions;
mod heartbeat;
pub mod heartbeat_times;
mod imports;
mod lasting_access;
mod namespaces;
mod object_facts;
mod open_requests;
mod open_views;
pub mod pauses;
pub mod placed;
mod pod_api;
mod records;
mod report;
pub mod tunnel;
mod view;
pub mod warnings;

use std::sync::Arc;

use atoll_authn::User;
use atoll_meta::{Status, json, object};
use atoll_registry::Stage;
use atoll_registry::bootstrap::ROOT;
use atoll_registry::catalog::ATOLL;
use bytes::Bytes;
use http::{Method, Response};
use serde_json::Value;

use crate::Server;
use crate::body::Body;
use crate::respond;
use crate::workspace::Workspace;

pub use self::events::EventLimits;
pub use self::imports::OpenDefinitionReports;
pub use self::lasting_access::LastingAccess;
pub use self::open_requests::{OpenRequest, OpenRequests};
pub use self::open_views::OpenViews;
pub use self::pod_api::{AccessRemovals, PodApi};
pub use self::report::ReportSequences;

const PATH: &str = "/services/sync/";

/// Returns the cluster that a path names.
pub fn cluster(path: &str) -> Option<&str> {
    let name = path.strip_prefix(PATH)?.trim_end_matches('/');
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

pub async fn handle(
    server: &Arc<Server>,
    workspace: &Workspace,
    cluster: &str,
    user: &User,
    access: LastingAccess,
    method: &Method,
    body: Bytes,
) -> Result<Response<Body>, Status> {
    let workspace = workspace.id()?;
    let uid = object::uid(&registered(server, workspace, cluster)?).to_string();
    certificate::check_agent(user, cluster, &uid)?;
    certificate::retire_join_token(server, workspace, cluster, user).await;
    match *method {
        Method::GET => view::handle(server, workspace, cluster, control_plane(server)?, uid, access),
        Method::POST => {
            let read = || report::read(&body);
            let mut report = server.registry.run_sized(workspace, body.len(), Stage::New, read).await??;
            let definitions = report.definitions.take();
            let _open = match definitions {
                Some(_) => Some(server.definition_reports.open(cluster, &uid)?),
                None => None,
            };
            report::apply(server, workspace, cluster, &uid, report).await?;
            let mut answer = heartbeat::response(server);
            if let Some(definitions) = definitions {
                let cluster = imports::ImportingCluster { server, workspace, cluster, uid: &uid };
                answer.wanted_definitions = cluster.apply(definitions).await?;
            }
            let answer = serde_json::to_value(answer);
            Ok(respond::json(&answer.map_err(|error| Status::internal_error(error.to_string()))?))
        }
        _ => Err(Status::method_not_supported_generic()),
    }
}

/// Returns a Cluster that is registered in a workspace.
fn registered(server: &Server, workspace: &str, cluster: &str) -> Result<Value, Status> {
    let key = atoll_store::Key::object(ATOLL, "clusters", workspace, "", cluster);
    let found = server.registry.snapshot().get(&key);
    parse(&found.ok_or_else(|| Status::not_found(ATOLL, "clusters", cluster))?.json())
}

/// Returns the ID of this control plane: the UID of root's namespace kube-system.
fn control_plane(server: &Server) -> Result<String, Status> {
    let key = atoll_store::Key::object("", "namespaces", ROOT, "", "kube-system");
    let namespace = server.registry.snapshot().get(&key);
    let namespace = namespace.ok_or_else(|| {
        Status::internal_error("root has no namespace kube-system, which identifies the control plane")
    })?;
    Ok(object::uid(&parse(&namespace.json())?).to_string())
}

fn parse(stored: &[u8]) -> Result<Value, Status> {
    json::parse(stored).map(|parsed| parsed.value).map_err(|error| Status::internal_error(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::cluster;

    #[test]
    fn paths_name_clusters() {
        for (path, expected) in [
            ("/services/sync/east", Some("east")),
            ("/services/sync/east/", Some("east")),
            ("/services/sync/", None),
            ("/services/sync", None),
            ("/services/sync/east/more", None),
            ("/services/other/east", None),
        ] {
            assert_eq!(cluster(path), expected, "{path}");
        }
    }
}
