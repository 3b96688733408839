//! The control plane's API for the cluster commands.

use atoll_fleet::marks;
use atoll_meta::object;
use http::Method;
use serde_json::Value;

use crate::advice::{Failure, closest_match, invocation, join_names};
use crate::command::Connection;
use crate::workspace::session::{ROOT, Session, WORKSPACES, encoded};
use atoll_joining::api::Api;
use atoll_joining::client::Problem;

pub const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
/// Lists the clusters that serve a workspace, including those registered in workspaces above.
pub const SERVING_CLUSTERS: &str = "/services/clusters";
/// The kind as kubectl prints it in names.
pub const KIND: &str = "cluster.atoll.dev";

pub struct ControlPlaneConnection {
    pub session: Session,
    /// The API of the current workspace.
    pub api: Api,
}

/// The path of a Cluster.
pub fn path(name: &str) -> String {
    format!("{CLUSTERS}/{}", encoded(name))
}

/// The path of the Lease that is renewed with each heartbeat.
pub fn heartbeat_path(name: &str) -> String {
    let lease = marks::heartbeat(name);
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}", marks::SYSTEM_NAMESPACE, encoded(&lease))
}

impl ControlPlaneConnection {
    pub fn open(connection: &Connection) -> Result<ControlPlaneConnection, Failure> {
        let session = Session::open(connection)?;
        let context = session.config.context()?;
        let api = Api::above(&context, &super::in_workspace(&session.current, ""))?;
        Ok(ControlPlaneConnection { session, api })
    }

    /// Lists the clusters that are registered in the workspace.
    pub async fn list(&self) -> Result<Value, Failure> {
        match self.api.get(CLUSTERS).await {
            Ok(list) => Ok(list),
            Err(problem) => Err(self.explain_not_found(problem).await),
        }
    }

    /// Lists the clusters that serve the workspace, including those of workspaces above, in the requested
    /// media type.
    pub async fn list_serving(&self, accept: &str) -> Result<Value, Failure> {
        match self.api.call_as(Method::GET, SERVING_CLUSTERS, accept, None).await {
            Ok(list) => Ok(list),
            Err(problem) => Err(self.explain_not_found(problem).await),
        }
    }

    /// Gets a cluster. If it does not exist, the hint suggests another name.
    pub async fn get(&self, name: &str) -> Result<Value, Failure> {
        match self.api.get(&path(name)).await {
            Ok(cluster) => Ok(cluster),
            Err(problem) if problem.is("NotFound") => Err(self.not_found(name, problem).await),
            Err(problem) => Err(problem.into()),
        }
    }

    /// The time of the last heartbeat, if there was one and the user may read it.
    pub async fn heartbeat(&self, name: &str) -> Option<String> {
        let lease = self.api.find(&heartbeat_path(name)).await.ok().flatten()?;
        lease["spec"]["renewTime"].as_str().map(str::to_string)
    }

    /// Gets a cluster, or `None` if it does not exist.
    pub async fn find(&self, name: &str) -> Result<Option<Value>, Failure> {
        match self.api.find(&path(name)).await {
            Ok(found) => Ok(found),
            Err(problem) => Err(self.explain_not_found(problem).await),
        }
    }

    /// Changes a cluster with a merge patch.
    pub async fn change(&self, name: &str, patch: &Value) -> Result<Value, Failure> {
        Ok(self.api.merge(&path(name), patch).await?)
    }

    /// Names of the clusters that serve the workspace; `None` if the user may not know.
    async fn serving_names(&self) -> Option<Vec<String>> {
        let list = self.list_serving("application/json").await.ok()?;
        let items = list["items"].as_array().into_iter().flatten();
        Some(items.map(|item| object::name(item).to_string()).collect())
    }

    /// Explains why a cluster of this name, which is not registered here, cannot be used: it serves this workspace and
    /// belongs to another one, in which the user has no rights, or it does not exist. `None` if the user may not know.
    pub async fn why_not_here(&self, name: &str) -> Option<Failure> {
        let (names, current) = (self.serving_names().await?, &self.session.current);
        Some(match names.iter().any(|known| known == name) {
            true => self.of_another_workspace(name),
            false => Failure::new(
                format!("there is no cluster {name} for {current}"),
                suggestion(name, &names, current),
            ),
        })
    }

    fn of_another_workspace(&self, name: &str) -> Failure {
        Failure::new(
            format!("cluster {name} serves {}, but belongs to another workspace", self.session.current),
            "only users with rights in that workspace can do this; ask one of them",
        )
    }

    async fn not_found(&self, name: &str, problem: Problem) -> Failure {
        let Ok(names) = cluster_names(&self.session, &self.session.current).await else {
            return self.explain_not_found(problem).await;
        };
        if self.serving_names().await.is_some_and(|serving| serving.iter().any(|known| known == name)) {
            return self.of_another_workspace(name);
        }
        Failure::new(
            format!("there is no cluster {name} in {}", self.session.current),
            suggestion(name, &names, &self.session.current),
        )
    }

    /// Explains a NotFound: the workspace of the context may not exist.
    async fn explain_not_found(&self, problem: Problem) -> Failure {
        match &problem {
            Problem::Refused(status) if status.reason() == "NotFound" => {
                let asked_for = status.details().map(|details| details.kind.as_str());
                if asked_for == Some("workspaces") {
                    return self.session.not_found(&self.session.current, problem).await;
                }
                Failure::new(
                    format!("{} does not serve clusters", self.session.client.origin),
                    "it may be an older Atoll, or not Atoll: choose another context",
                )
            }
            _ => problem.into(),
        }
    }

    /// The id of the control plane: the uid of namespace kube-system in root. `None` if the user may not read
    /// it.
    pub async fn control_plane(&self) -> Result<Option<String>, Failure> {
        match self.session.call(Method::GET, ROOT, "/api/v1/namespaces/kube-system", None).await {
            Ok(namespace) => Ok(Some(uid(&namespace).to_string()).filter(|uid| !uid.is_empty())),
            Err(problem) if problem.is("Forbidden") => Ok(None),
            Err(problem) => Err(problem.into()),
        }
    }

    /// The id of the current workspace. `None` if the user may not read its parent.
    pub async fn workspace_id(&self) -> Result<Option<String>, Failure> {
        let Some((parent, name)) = self.session.current.rsplit_once(':') else {
            return Ok(Some(ROOT.to_string()));
        };
        let path = format!("{WORKSPACES}/{}", encoded(name));
        match self.session.call(Method::GET, parent, &path, None).await {
            Ok(workspace) => Ok(workspace["status"]["id"].as_str().map(str::to_string)),
            Err(problem) if problem.is("Forbidden") => Ok(None),
            Err(problem) => Err(problem.into()),
        }
    }
}

/// Lists the names of the clusters that are registered in a workspace.
pub async fn cluster_names(session: &Session, workspace: &str) -> Result<Vec<String>, Problem> {
    let list = session.call(Method::GET, workspace, CLUSTERS, None).await?;
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items.map(|item| object::name(item).to_string()).collect())
}

pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// The hint for a cluster name that does not exist.
pub fn suggestion(name: &str, names: &[String], workspace: &str) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match closest_match(name, names.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None if names.is_empty() => {
            format!("join one with: {} cluster join {name} --kubeconfig FILE", invocation())
        }
        None => format!("{workspace} has {}", join_names(&names)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_suggest_existing_clusters() {
        let cases: [(&[&str], &str); 3] = [
            (&["east", "west"], "did you mean east?"),
            (&["north"], "root has north"),
            (&[], "join one with: atoll cluster join eest --kubeconfig FILE"),
        ];
        for (names, expected) in cases {
            let names: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
            assert_eq!(suggestion("eest", &names, "root"), expected);
        }
    }
}
