//! A connection to a cluster that serves the current workspace, with the credential from its join.

use atoll_client::kubeconfig::Kubeconfig;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_fleet::{ClusterView, Pause, pause};
use serde_json::Value;

use super::control_plane_connection::{ControlPlaneConnection, uid};
use super::{cluster_names, in_workspace, suggestion};
use crate::advice::{Failure, invocation};
use crate::command::Connection;
use crate::workspace::session::encoded;
use atoll_joining::api::Api;
use atoll_joining::claim::{self, Claim};
use atoll_joining::credential;

pub struct ClusterConnection {
    /// The API of the current workspace.
    pub fleet: ControlPlaneConnection,
    /// The API of the workspace in which the cluster is registered.
    pub registering_workspace: ControlPlaneConnection,
    pub name: String,
    pub cluster: Value,
    pub below: Api,
    /// Id of the control plane.
    pub control_plane: String,
    /// Id of the current workspace.
    pub workspace: String,
}

impl ClusterConnection {
    pub async fn open(connection: &Connection, name: &str) -> Result<ClusterConnection, Failure> {
        let fleet = ControlPlaneConnection::open(connection)?;
        let (registering_workspace, cluster) = find(&fleet, connection, name).await?;
        let secret = registering_workspace.api.find(&credential::secret_path(name)).await?;
        let below = open(name, &cluster, secret.as_ref(), &registering_workspace).await?;
        let claim = below.find(&claim::path()).await?.map(|found| Claim::of(&found)).unwrap_or_default();
        if claim.cluster != uid(&cluster) {
            return Err(Failure::new(
                format!("{name} is not claimed by this control plane"),
                format!("see its state with: {} cluster describe {name}", invocation()),
            ));
        }
        let is_home = registering_workspace.session.current == fleet.session.current;
        let workspace = match fleet.workspace_id().await? {
            Some(id) => id,
            None if is_home => claim.workspace,
            None => {
                return Err(Failure::new(
                    format!("you may not read the id of {}", fleet.session.current),
                    "ask a user who may read its parent workspace",
                ));
            }
        };
        let control_plane = claim.control_plane;
        Ok(ClusterConnection {
            fleet,
            registering_workspace,
            name: name.to_string(),
            cluster,
            below,
            control_plane,
            workspace,
        })
    }

    /// Fails if the cluster, the workspace or one of its ancestors is paused.
    pub async fn check_not_paused(&self) -> Result<(), Failure> {
        let name = &self.name;
        let resume = |what: &str| format!("{} resume {what}", invocation());
        if let Some(pause) = Pause::of_cluster(&self.cluster) {
            let how = resume(&format!("--cluster {name}"));
            return Err(paused(&pause.why(&format!("cluster {name}"), &how)));
        }
        let mut may_look = true;
        let mut workspace = Some(self.fleet.session.current.as_str());
        while let Some(path) = workspace {
            let at = in_workspace(
                path,
                &format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{}", pause::NAME),
            );
            match self.fleet.api.find_anywhere(&at).await {
                Ok(Some(found)) => {
                    let pause = Pause::of_config_map(&found);
                    let what = format!("workspace {path}");
                    return Err(paused(&pause.why(&what, &resume(&format!("--workspace {path}")))));
                }
                Ok(None) => {}
                Err(_) => may_look = false,
            }
            workspace = path.rsplit_once(':').map(|(parent, _)| parent);
        }
        // The syncer's last report may be outdated; use it only if a pause above cannot be read.
        let reported = ClusterView::of(&self.cluster).reported_pause();
        if let Some(why) = reported.filter(|why| !may_look && !why.starts_with("cluster ")) {
            return Err(paused(why));
        }
        Ok(())
    }
}

fn paused(why: &str) -> Failure {
    let (what, how) = why.split_once("; ").unwrap_or((why, "resume first"));
    Failure::new(format!("nothing was changed: {what}"), how)
}

/// Finds the cluster in the current workspace, or else in its nearest ancestor.
async fn find(
    fleet: &ControlPlaneConnection,
    connection: &Connection,
    name: &str,
) -> Result<(ControlPlaneConnection, Value), Failure> {
    let mut names = Vec::new();
    let mut workspace = Some(fleet.session.current.as_str());
    while let Some(path) = workspace {
        let mut registering_workspace = ControlPlaneConnection::open(connection)?;
        registering_workspace.session.current = path.to_string();
        registering_workspace.api =
            Api::above(&registering_workspace.session.config.context()?, &in_workspace(path, ""))?;
        match registering_workspace.find(name).await {
            Ok(Some(cluster)) => return Ok((registering_workspace, cluster)),
            Ok(None) => names.extend(cluster_names(&registering_workspace.session, path).await?),
            // The user has no rights above.
            Err(failure) if path != fleet.session.current => {
                return Err(fleet.why_not_here(name).await.unwrap_or(failure));
            }
            Err(failure) => return Err(failure),
        }
        workspace = path.rsplit_once(':').map(|(parent, _)| parent);
    }
    Err(Failure::new(
        format!("there is no cluster {name} for {}", fleet.session.current),
        suggestion(name, &names, &fleet.session.current),
    ))
}

/// Connects to the cluster, and checks that its identity has not changed since it joined.
async fn open(
    name: &str,
    cluster: &Value,
    secret: Option<&Value>,
    registering_workspace: &ControlPlaneConnection,
) -> Result<Api, Failure> {
    let api = match ClusterView::of(cluster).mode() {
        "pull" => through_agent(name, registering_workspace)?,
        _ => with_credential(name, secret)?,
    };
    let id = uid(&api.get("/api/v1/namespaces/kube-system").await?).to_string();
    match ClusterView::of(cluster).id() {
        Some(pinned) if pinned != id => Err(Failure::new(
            format!("the address of {name} now leads to another cluster: {id}, not {pinned}"),
            "correct the credential, or remove the cluster and join it again; nothing was changed",
        )),
        _ if ClusterView::of(cluster).is_observed() => Err(Failure::new(
            format!("{name} has joined to be observed only"),
            format!(
                "to manage objects there, join it again without --observe: {} cluster join {name} --kubeconfig FILE",
                invocation()
            ),
        )),
        _ => Ok(api),
    }
}

/// Connects to a cluster through the control plane and the tunnel of its agent. `registering_workspace` is the workspace in which
/// it is registered.
pub fn through_agent(name: &str, registering_workspace: &ControlPlaneConnection) -> Result<Api, Failure> {
    let path = in_workspace(
        &registering_workspace.session.current,
        &format!("/services/clusters/{}/proxy", encoded(name)),
    );
    let check = format!("{} cluster describe {name}", invocation());
    Api::through(&registering_workspace.session.config.context()?, &path, check)
}

/// Connects to a cluster with the credential that joining stored.
fn with_credential(name: &str, secret: Option<&Value>) -> Result<Api, Failure> {
    let again = format!("join it again: {} cluster join {name} --kubeconfig FILE", invocation());
    let kubeconfig = secret.and_then(credential::kubeconfig_from_secret);
    let kubeconfig =
        kubeconfig.ok_or_else(|| Failure::new(format!("there is no credential for {name}"), &again))?;
    let unreadable =
        |problem: String| Failure::new(format!("the credential of {name} cannot be read: {problem}"), &again);
    let config = Kubeconfig::parse(&kubeconfig).map_err(|problem| unreadable(problem.to_string()))?;
    let context =
        config.context(config.current(), None).map_err(|problem| unreadable(problem.to_string()))?;
    Api::below(&context, format!("{} cluster describe {name}", invocation()))
}
