//! `atoll sim nodes`: simulated nodes for any cluster or workspace.
//!
//! ```text
//!   API server ─┬─ watch: ConfigMap of faults (fault_store) ──► Faults ──► nodes, and their transport (faulty_transport)
//!               └─ logs, exec, port-forward ──► kubelet_listener: client certificate, SubjectAccessReview
//! ```

mod door;
pub mod ledger;
mod trouble;
mod vouching;

use std::path::PathBuf;
use std::sync::Arc;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_informer::{Clock, Informers, World};
use atoll_sim::Faults;

use self::trouble::{Troubled, TroubledClock};
use super::Place;
use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use crate::process::{Stop, quoted_path};

/// Options besides those of the nodes.
pub struct Options {
    /// Whether to run a scheduler.
    pub scheduler: bool,
    /// CA of the client certificates that API servers present to kubelets, if it is not the kubeconfig's.
    pub client_authority: Option<PathBuf>,
}

pub async fn run(
    nodes: atoll_sim::Settings,
    options: Options,
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
    let place = Place::new(None)?;
    let trusted = match &options.client_authority {
        Some(path) => std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?,
        None => endpoint.authority_pem.clone(),
    };
    // The server's kubelet client is authorized in root.
    let root = vouching::root(&endpoint)?;
    let (door, authority) =
        door::open(&place.directory, &trusted, root.clone().unwrap_or_else(|| client.clone())).await?;
    let port = door.listener.local_addr().map_err(|error| error.to_string())?.port();
    let vouched = match root {
        Some(root) => vouching::begin(root, &context.server, &nodes, port, &authority).await,
        None => None,
    };
    let stop = Stop::listen()?;
    println!(
        "Simulating {} nodes at {}. Try: kubectl --kubeconfig {} --context {} get nodes",
        nodes.nodes,
        context.server,
        quoted_path(config.path()),
        config.context_name()
    );
    // Faults only affect the nodes, not the watch for faults.
    let suffering = Client::new(Arc::new(Troubled::new(Https::new(&endpoint)?, faults.clone())));
    let clock: Arc<dyn Clock> = Arc::new(TroubledClock { faults: faults.clone() });
    let scheduling = async {
        match options.scheduler {
            true => {
                let informers = Informers::new(World::one(client.clone()));
                atoll_podscheduler::run(informers, clock.clone(), atoll_podscheduler::Options::default())
                    .await;
            }
            false => std::future::pending().await,
        }
    };
    let simulated = atoll_sim::run(suffering, nodes, faults.clone(), clock.clone(), Some(door));
    let outcome = tokio::select! {
        () = simulated => Err("the connection to the server ended".into()),
        () = scheduling => Err("the connection to the server ended".into()),
        () = ledger::follow(&client, &faults) => Err("the connection to the server ended".into()),
        () = stop.asked() => Ok(()),
    };
    if let Some(vouched) = vouched {
        vouched.end().await;
    }
    outcome
}
