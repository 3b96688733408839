//! `atoll sim nodes`: simulated nodes for any cluster or workspace.

use std::sync::Arc;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_informer::{Clock, Informers, SystemClock, World};

use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use crate::process::{quoted_path, stop_signal};

pub async fn run(nodes: atoll_sim::Settings, scheduler: bool, connection: &Connection) -> Result<(), String> {
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
    println!(
        "Simulating {} nodes at {}. Try: kubectl --kubeconfig {} --context {} get nodes",
        nodes.nodes,
        context.server,
        quoted_path(config.path()),
        config.context_name()
    );
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let scheduling = async {
        match scheduler {
            true => {
                let informers = Informers::new(World::one(client.clone()));
                atoll_podscheduler::run(informers, clock.clone(), atoll_podscheduler::Options::default())
                    .await;
            }
            false => std::future::pending().await,
        }
    };
    // Nobody there could reach kubelets here, so they do not listen.
    let simulated = atoll_sim::run(client.clone(), nodes, Arc::default(), clock.clone(), None);
    tokio::select! {
        () = simulated => Err("the server is gone".into()),
        () = scheduling => Err("the server is gone".into()),
        stopped = stop_signal() => stopped,
    }
}
