//! Registers the kubelets of simulated nodes in root. Otherwise the server refuses connections to kubelets on
//! its own machine for nodes of other workspaces.

use std::sync::Arc;

use atoll_client::https::{Endpoint, Https};
use atoll_client::{Client, PatchType};
use atoll_fleet::marks::{KUBELETS, SYSTEM_NAMESPACE};
use atoll_meta::Status;
use serde_json::json;

use crate::workspace::session::{WORKSPACES, encoded};

const CLUSTERS: &str = "/clusters/";
const MANAGER: &str = "atoll-sim";

/// The registration, which is deleted when the simulation ends.
pub struct Registration {
    client: Client,
    path: String,
}

/// A client for root, if the endpoint is another workspace of the server.
pub fn root_client(endpoint: &Endpoint) -> Result<Option<Client>, String> {
    let Some((origin, _)) = endpoint.server.split_once(CLUSTERS) else { return Ok(None) };
    let endpoint = Endpoint { server: origin.to_string(), ..endpoint.clone() };
    Ok(Some(Client::new(Arc::new(Https::new(&endpoint)?))))
}

/// Registers the kubelets at this port. If the user may not, prints what will not work.
pub async fn create(
    client: Client,
    server: &str,
    nodes: &atoll_sim::Settings,
    port: u16,
    authority: &str,
) -> Option<Registration> {
    let workspace = server.split_once(CLUSTERS)?.1.trim_end_matches('/');
    match write(&client, workspace, nodes, port, authority).await {
        Ok(path) => Some(Registration { client, path }),
        Err(status) => {
            eprintln!(
                "kubectl logs, exec and port-forward will not work on these nodes: their kubelets cannot be registered in root ({}); \
                 run this as a user who may write ConfigMaps in namespace {SYSTEM_NAMESPACE} of root",
                status.message()
            );
            None
        }
    }
}

async fn write(
    client: &Client,
    workspace: &str,
    nodes: &atoll_sim::Settings,
    port: u16,
    authority: &str,
) -> Result<String, Status> {
    let (parent, name) = workspace.rsplit_once(':').ok_or_else(Status::not_found_generic)?;
    let found = client.get(&format!("{CLUSTERS}{parent}{WORKSPACES}/{}", encoded(name))).await?;
    let id = found["status"]["id"].as_str().ok_or_else(Status::not_found_generic)?;
    let namespaces = "/api/v1/namespaces";
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
    match client.create(namespaces, &namespace).await {
        Err(status) if !matches!(status.reason(), "AlreadyExists" | "Forbidden") => return Err(status),
        _ => {}
    }
    // One ConfigMap per group of nodes, replaced at every start.
    let name = match nodes.name.as_str() {
        "" => format!("kubelets-{id}"),
        group => format!("kubelets-{id}-{group}"),
    };
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { KUBELETS: id } },
        "data": { "host": nodes.host, "port": port.to_string(), "certificateAuthority": authority },
    });
    let path = format!("{namespaces}/{SYSTEM_NAMESPACE}/configmaps/{name}");
    let applied = format!("{path}?fieldManager={MANAGER}&force=true");
    client.patch(&applied, PatchType::Apply, &config_map).await?;
    Ok(path)
}

impl Registration {
    pub async fn delete(self) {
        if let Err(status) = self.client.delete(&self.path).await {
            tracing::debug!(%status, "cannot delete the registration of the simulated kubelets");
        }
    }
}
