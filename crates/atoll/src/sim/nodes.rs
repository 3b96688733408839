//! `atoll sim nodes`: simulated nodes for any cluster or workspace.
//!
//! ```text
//!   API server ─┬─ watch: ConfigMap of faults (fault_store) ──► Faults ──► nodes, and their transport (faulty_transport)
//!               └─ logs, exec, port-forward ──► kubelet_listener: client certificate, SubjectAccessReview
//! ```

pub mod fault_store;
mod faulty_transport;
mod kubelet_listener;
mod kubelet_registration;

use std::path::PathBuf;
use std::sync::Arc;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_informer::{ApiScope, Clock, Informers};
use atoll_sim::Faults;

use self::faulty_transport::{FaultyClock, FaultyTransport};
use super::DataDirectory;
use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use crate::process::ShutdownSignal;

/// Options of `atoll sim nodes` except those of the nodes.
pub struct NodesOptions {
    /// Whether to run a scheduler.
    pub scheduler: bool,
    /// CA of the client certificates that API servers present to kubelets, if it is not the kubeconfig's.
    pub client_authority: Option<PathBuf>,
}

pub async fn run(
    nodes: atoll_sim::Settings,
    options: NodesOptions,
    connection: &Connection,
) -> Result<(), String> {
    let config = Kubeconfig::load(connection)?;
    let context = config.context()?;
    let endpoint = Endpoint {
        server: context.server.clone(),
        authority_pem: context.authority_pem.ok_or("this context has no certificate-authority-data")?,
        certificate_pem: context.certificate_pem,
        key_pem: context.key_pem,
        token: context.token,
    };
    let client = Client::new(Arc::new(Https::new(&endpoint)?));
    client.get("/version").await.map_err(|status| status.message().to_string())?;
    let faults = Arc::<Faults>::default();
    let data_directory = DataDirectory::new(None)?;
    let trusted = match &options.client_authority {
        Some(path) => std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?,
        None => endpoint.authority_pem.clone(),
    };
    // The server's kubelet client is authorized in root.
    let root = kubelet_registration::root_client(&endpoint)?;
    let (kubelet_listener, authority) = kubelet_listener::open(
        &data_directory.path,
        &trusted,
        root.clone().unwrap_or_else(|| client.clone()),
    )
    .await?;
    let port = kubelet_listener.listener.local_addr().map_err(|error| error.to_string())?.port();
    let registration = match root {
        Some(root) => kubelet_registration::create(root, &context.server, &nodes, port, &authority).await,
        None => None,
    };
    let stop = ShutdownSignal::listen()?;
    println!("Simulating {} nodes at {}. Try: {} get nodes", nodes.nodes, context.server, config.kubectl());
    // Faults only affect the nodes, not the watch for faults.
    let faulty_client = Client::new(Arc::new(FaultyTransport::new(Https::new(&endpoint)?, faults.clone())));
    let clock: Arc<dyn Clock> = Arc::new(FaultyClock { faults: faults.clone() });
    let scheduling = async {
        match options.scheduler {
            true => {
                let informers = Informers::new(ApiScope::single(client.clone()));
                atoll_podscheduler::run(
                    informers,
                    clock.clone(),
                    atoll_podscheduler::SchedulerOptions::default(),
                )
                .await;
            }
            false => std::future::pending().await,
        }
    };
    let simulated =
        atoll_sim::run(faulty_client, nodes, faults.clone(), clock.clone(), Some(kubelet_listener));
    let outcome = tokio::select! {
        () = simulated => Err("the connection to the server ended".into()),
        () = scheduling => Err("the connection to the server ended".into()),
        () = fault_store::follow(&client, &faults) => Err("the connection to the server ended".into()),
        () = stop.received() => Ok(()),
    };
    if let Some(registration) = registration {
        registration.delete().await;
    }
    outcome
}
