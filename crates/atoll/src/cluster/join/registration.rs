//! The credential and the Cluster that joining writes in the control plane.

use atoll_fleet::ClusterView;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_joining::credential::{self, ServiceAccountToken};
use atoll_joining::rights::Access;
use serde_json::{Value, json};

use super::super::control_plane_connection::{self, CLUSTERS};
use super::{Join, JoinState, pull};
use crate::advice::Failure;
use crate::command::Mode;

impl Join<'_> {
    pub(super) async fn store(
        &self,
        found: &JoinState,
        kubeconfig: &str,
        token: &ServiceAccountToken,
    ) -> Result<(String, ()), Failure> {
        let name = self.options.name.as_str();
        let api = &self.fleet.api;
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        api.create_if_absent("/api/v1/namespaces", &namespace).await?;
        let (path, secret) =
            (credential::secret_path(name), credential::secret(name, kubeconfig, &token.expires));
        let message =
            format!("stored the credential in Secret {SYSTEM_NAMESPACE}/{}", credential::secret_name(name));
        match api.find(&path).await? {
            None => {
                let collection = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets");
                api.create(&collection, &secret).await?;
            }
            Some(other)
                if other["metadata"]["labels"][credential::CLUSTER] != name && found.cluster.is_none() =>
            {
                let secret = credential::secret_name(name);
                return Err(Failure::new(
                    format!("Secret {SYSTEM_NAMESPACE}/{secret} exists and is not a cluster's credential"),
                    "join under another name, or delete the Secret if it is not needed",
                ));
            }
            Some(_) => drop(api.merge(&path, &secret).await?),
        }
        Ok((message, ()))
    }

    /// Returns the mode that the cluster gets, or has; `None` for one that this program does not know.
    pub(super) fn mode(&self, found: &JoinState) -> Option<Mode> {
        match (self.options.mode, &found.cluster) {
            (Some(mode), _) => Some(mode),
            (None, None) => Some(Mode::Push),
            (None, Some(cluster)) => Mode::find(ClusterView::of(cluster).mode()),
        }
    }

    pub(super) async fn register(
        &self,
        found: &JoinState,
        version: &str,
        has_credential: bool,
    ) -> Result<(String, Value), Failure> {
        let name = self.options.name.as_str();
        let api = &self.fleet.api;
        let mut spec = json!({ "access": self.access.name() });
        if has_credential {
            let secret = json!({ "namespace": SYSTEM_NAMESPACE, "name": credential::secret_name(name) });
            spec["credentials"] = json!({ "secret": secret });
        } else if found.cluster.is_some() {
            spec["credentials"] = Value::Null;
        }
        if let Some(mode) = self.mode(found) {
            spec["mode"] = mode.name().into();
        }
        if self.options.cordoned {
            spec["unschedulable"] = true.into();
        }
        let cluster = match found.cluster {
            Some(_) => {
                let cluster = self.fleet.change(name, &json!({ "spec": spec })).await?;
                if !has_credential {
                    pull::delete_credential(name, &self.fleet).await?;
                }
                cluster
            }
            None => {
                let cluster = json!({
                    "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster",
                    "metadata": { "name": name }, "spec": spec,
                });
                api.create(CLUSTERS, &cluster).await?
            }
        };
        let status = json!({ "status": { "id": found.id, "kubernetesVersion": version } });
        api.merge(&format!("{}/status", control_plane_connection::path(name)), &status).await?;
        let how = match self.access {
            Access::Manage => "",
            Access::Observe => ", to be observed only",
        };
        Ok((format!("registered Cluster {name} in {}{how}", self.fleet.session.current), cluster))
    }
}
