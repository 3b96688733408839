//! `atoll sim`: simulated clusters and nodes, and their faults.

mod fault;
pub mod kubelets;
mod meter;
mod network;
mod nodes;
mod simulation;

use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use atoll_registry::Profile;
use atoll_sim::BuiltInObjects;

pub use self::meter::Meter;
pub use self::simulation::{GatedTransport, Simulation};
use crate::command::{SimArgs, SimCommand, SimOptions};
use crate::plane::{ControlPlane, PlaneSettings, SharedCatalog, StorageMode};
use crate::process::{self, ShutdownSignal, quoted_path};
use crate::start::authenticator;

pub fn run(line: SimArgs) -> Result<(), String> {
    match line.command {
        None => process::run(&line.options.log, serve(&line.options)),
        Some(SimCommand::Fault(command)) => process::run_command(fault::run(command)),
        Some(SimCommand::Nodes { nodes, name, scheduler, kubelet_client_ca, log, connection }) => {
            let mut settings = nodes.settings(&name);
            // Servers connect to a node by its host name first, which must resolve.
            settings.host = Ipv4Addr::LOCALHOST.to_string();
            if !name.is_empty() {
                // Distinguishes these nodes from those of other simulators at the same server.
                settings.mark = name;
            }
            let options = nodes::NodesOptions { scheduler, client_authority: kubelet_client_ca };
            process::run(&log, nodes::run(settings, options, &connection))
        }
    }
}

async fn serve(options: &SimOptions) -> Result<(), String> {
    let data_directory = DataDirectory::new(options.data_dir.as_deref())?;
    let storage = if options.data_dir.is_some() { StorageMode::Relaxed } else { StorageMode::Memory };
    let simulation = Simulation::new();
    let settings = PlaneSettings {
        storage,
        listen: options.listen,
        authenticator: authenticator(options.token_auth_file.as_deref())?,
        controllers: options.controllers.clone(),
        controller_settings: atoll_controllers::settings::Settings {
            node_monitor_grace_period: options.node_monitor_grace_period,
            horizontal_pod_autoscaler_sync_period: options.horizontal_pod_autoscaler_sync_period,
            ..Default::default()
        },
        simulation: Some(simulation.clone()),
        metrics_api: options.metrics_api,
        ..PlaneSettings::new(&options.name, &data_directory.path, SharedCatalog::new(Profile::Full))?
    };
    let mut plane = ControlPlane::start(settings).await?;
    let built_in_objects = BuiltInObjects { storage: options.storage, metrics: options.metrics_api };
    let nodes = options.nodes.settings(&options.name);
    populate(&mut plane, &simulation, nodes, built_in_objects, options.scheduler).await;
    let stop = ShutdownSignal::listen()?;
    println!(
        "Cluster {} is ready at https://{}. Try: kubectl --kubeconfig {} get nodes",
        options.name,
        plane.advertised,
        quoted_path(&plane.kubeconfig)
    );
    stop.received().await;
    tracing::info!("stopping: waiting for requests to finish");
    plane.stop().await
}

/// Adds nodes, built-in objects and a scheduler to a simulated cluster.
pub async fn populate(
    plane: &mut ControlPlane,
    simulation: &Simulation,
    nodes: atoll_sim::Settings,
    built_in_objects: BuiltInObjects,
    scheduler: bool,
) {
    let client = plane.client("system:node-simulator");
    let kubelet_listener = plane.kubelet_listener.take();
    // Before the cluster is announced as ready.
    atoll_sim::create_built_in_objects(&client, built_in_objects).await;
    if built_in_objects.storage {
        plane.run(atoll_sim::storage::run(plane.informers.clone(), plane.clock()));
    }
    plane.run(atoll_sim::run(client, nodes, simulation.faults.clone(), plane.clock(), kubelet_listener));
    if scheduler {
        let options = atoll_podscheduler::SchedulerOptions::default();
        plane.run(atoll_podscheduler::run(plane.informers.clone(), plane.clock(), options));
    }
}

/// The data directory of a cluster: the given one, or a temporary one.
struct DataDirectory {
    path: PathBuf,
    is_temporary: bool,
}

impl DataDirectory {
    fn new(given: Option<&Path>) -> Result<Self, String> {
        if let Some(directory) = given {
            return Ok(DataDirectory { path: directory.into(), is_temporary: false });
        }
        let directory = std::env::temp_dir().join(format!("atoll-sim-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|error| format!("{}: {error}; name a directory with --data-dir", directory.display()))?;
        Ok(DataDirectory { path: directory, is_temporary: true })
    }
}

impl Drop for DataDirectory {
    fn drop(&mut self) {
        if self.is_temporary {
            // A failure is harmless: the system cleans up temporary directories.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
