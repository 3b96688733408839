//! `atoll sim nodes`: simulated nodes for any cluster or workspace.

use std::sync::Arc;

use atoll_client::Client;
use atoll_informer::SystemClock;

use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use crate::process::{quoted_path, stop_signal};
use crate::remote::Remote;

pub async fn run(nodes: atoll_sim::Settings, scheduler: bool, connection: &Connection) -> Result<(), String> {
    let config = Kubeconfig::load(connection)?;
    let context = config.context()?;
    let client = Client::new(Arc::new(Remote::new(&context, "node-simulator")?));
    client.get("/version").await.map_err(|status| status.message().to_string())?;
    println!(
        "Simulating {} nodes at {}. Try: kubectl --kubeconfig {} --context {} get nodes",
        nodes.nodes,
        context.server,
        quoted_path(config.path()),
        config.context_name()
    );
    let _ = scheduler;
    let simulated = atoll_sim::run(client, nodes, Arc::default(), Arc::new(SystemClock));
    tokio::select! {
        () = simulated => Err("the server is gone".into()),
        stopped = stop_signal() => stopped,
    }
}
