//! The tunnel of an agent: `/services/sync/CLUSTER/tunnel` in the registering workspace, a request that changes
//! its protocol. Access needs the right to read the sync view of the cluster.

use std::sync::Arc;
use std::time::Duration;

use atoll_authn::User;
use atoll_client::cluster_api::{set_upgrade, upgrade_protocol};
use atoll_client::connected_clusters::ConnectedCluster;
use atoll_client::memory_limits::Charge;
use atoll_fleet::ClusterView;
use atoll_meta::{Status, object};
use atoll_registry::bootstrap::ROOT;
use atoll_registry::catalog::ATOLL;
use atoll_tunnel::{KeepAlive, PROTOCOL, Tunnel};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

use super::certificate::check_agent;
use super::heartbeat::ClusterHeartbeat;
use super::lasting_access::LastingAccess;
use super::registered;
use crate::Server;
use crate::body::Body;
use crate::workspace::Workspace;

const SUFFIX: &str = "/tunnel";
/// Time for the change of the protocol.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory of the connection of a tunnel without requests.
const TUNNEL_MEMORY: usize = 64 << 10;
/// Interval of checks whether the Cluster may still have a tunnel.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Returns the path of the sync view to which the path of a tunnel belongs.
pub fn view_path(path: &str) -> Option<&str> {
    let view = path.strip_suffix(SUFFIX)?;
    (super::cluster(view).is_some() && !view.ends_with('/')).then_some(view)
}

/// Returns the cluster whose tunnel a path names.
pub fn cluster(path: &str) -> Option<&str> {
    super::cluster(view_path(path)?)
}

pub fn handle(
    server: &Arc<Server>,
    workspace: &Workspace,
    cluster: &str,
    user: &User,
    access: LastingAccess,
    mut parts: Parts,
) -> Result<Response<Body>, Status> {
    if parts.method != Method::GET {
        return Err(Status::method_not_supported_generic());
    }
    let opening = Opening::new(server, workspace.id()?, cluster)?;
    check_agent(user, cluster, &opening.uid)?;
    if upgrade_protocol(&parts.headers) != Some(PROTOCOL) {
        let message = format!("a tunnel needs the headers Connection: Upgrade and Upgrade: {PROTOCOL}");
        return Err(Status::bad_request(message));
    }
    let upgrade = parts.extensions.remove::<OnUpgrade>().ok_or_else(|| {
        Status::bad_request("the connection of this request cannot change its protocol; use HTTP/1.1")
    })?;
    tokio::spawn(async move {
        match tokio::time::timeout(UPGRADE_TIMEOUT, upgrade).await {
            Ok(Ok(upgraded)) => opening.run(upgraded, &access).await,
            Ok(Err(error)) => {
                let cluster = &opening.cluster;
                tracing::debug!(%error, cluster, "the agent's connection ended before it became a tunnel");
            }
            Err(_) => {
                let cluster = &opening.cluster;
                tracing::debug!(cluster, "the agent's connection did not become a tunnel in time");
            }
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    set_upgrade(response.headers_mut(), HeaderValue::from_static(PROTOCOL));
    Ok(response)
}

/// A tunnel that an agent opens.
struct Opening {
    server: Arc<Server>,
    workspace: String,
    cluster: String,
    uid: String,
}

impl Opening {
    fn new(server: &Arc<Server>, workspace: &str, cluster: &str) -> Result<Opening, Status> {
        let registered = registered(server, workspace, cluster)?;
        if !may_have_tunnel(ClusterView::of(&registered)) {
            let message = "the control plane connects to this cluster itself, because its mode is push";
            return Err(Status::conflict(ATOLL, "clusters", cluster, message));
        }
        Ok(Opening {
            server: server.clone(),
            workspace: workspace.to_string(),
            cluster: cluster.to_string(),
            uid: object::uid(&registered).to_string(),
        })
    }

    async fn run(self, upgraded: Upgraded, access: &LastingAccess) {
        let (server, cluster) = (&self.server, &self.cluster);
        let tenant = server.registry.tenant_of(&self.workspace);
        let top = (tenant != ROOT).then_some(tenant.as_str());
        let budget = server.metrics.clusters.open(&self.workspace, cluster, top);
        let mut memory = Charge::new(Some(budget.clone()));
        if let Err(refused) = memory.grow(TUNNEL_MEMORY) {
            return tracing::warn!(
                cluster,
                problem = refused.message(),
                "the tunnel of a cluster cannot start"
            );
        }
        let started = Tunnel::start(TokioIo::new(upgraded), cluster, KeepAlive::default()).await;
        let (tunnel, driving) = match started {
            Ok(started) => started,
            Err(error) => return tracing::debug!(%error, cluster, "the tunnel of a cluster cannot start"),
        };
        let connected = ConnectedCluster { api: Arc::new(tunnel), budget };
        let mut connection = server.connected_clusters.connect(&self.uid, connected);
        tracing::info!(cluster, "the tunnel of a cluster is open");
        self.record().await;
        let is_stopped = tokio::select! {
            ended = driving => {
                let problem = ended.err().map_or_else(|| "the agent closed it".into(), |error| error.to_string());
                tracing::info!(cluster, problem, "the tunnel of a cluster has ended");
                false
            }
            () = connection.replaced() => {
                tracing::info!(cluster, "another tunnel of the cluster replaces this one");
                false
            }
            () = self.forbidden() => {
                tracing::info!(cluster, "closing the tunnel of a cluster: its Cluster was removed or replaced, or has spec.mode push now");
                false
            }
            () = access.ended() => false,
            () = server.stopped() => true,
        };
        drop(connection);
        if !is_stopped {
            self.record().await;
        }
    }

    /// Resolves when the Cluster was removed or replaced, or has the mode `push`.
    async fn forbidden(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let registered = registered(&self.server, &self.workspace, &self.cluster);
            let is_allowed = registered.is_ok_and(|cluster| {
                object::uid(&cluster) == self.uid && may_have_tunnel(ClusterView::of(&cluster))
            });
            if !is_allowed {
                return;
            }
        }
    }

    /// Records whether the cluster has a tunnel.
    async fn record(&self) {
        let (workspace, cluster, uid) = (&self.workspace, &self.cluster, &self.uid);
        ClusterHeartbeat { server: &self.server, workspace, cluster, uid }.record_connections().await;
    }
}

/// An agent must not take over the requests to a cluster that the control plane reaches by itself.
fn may_have_tunnel(cluster: ClusterView<'_>) -> bool {
    cluster.mode() != "push"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_belong_to_sync_views() {
        for (path, expected) in [
            ("/services/sync/east/tunnel", Some("east")),
            ("/services/sync/tunnel/tunnel", Some("tunnel")),
            ("/services/sync/tunnel", None),
            ("/services/sync/east/tunnel/", None),
            ("/services/sync/east//tunnel", None),
            ("/services/sync/a/b/tunnel", None),
            ("/services/sync//tunnel", None),
            ("/services/placed/east/tunnel", None),
        ] {
            assert_eq!(cluster(path), expected, "{path}");
            assert_eq!(view_path(path).is_some(), expected.is_some(), "{path}");
        }
        assert_eq!(view_path("/services/sync/east/tunnel"), Some("/services/sync/east"));
    }
}
