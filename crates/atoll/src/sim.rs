//! `atoll sim`: simulated clusters and nodes, and their faults.

mod fault;
pub mod kubelets;
mod meter;
mod nodes;
mod simulation;

use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use atoll_registry::Profile;
use atoll_sim::Furniture;

pub use self::meter::Meter;
pub use self::simulation::{Gated, Simulation};
use crate::command::{SimCommand, SimLine, SimOptions};
use crate::plane::{Backing, Common, Plane, Settings};
use crate::process::{self, Stop, quoted_path};
use crate::start::authenticator;

pub fn run(line: SimLine) -> Result<(), String> {
    match line.command {
        None => process::run(&line.options.log, serve(&line.options)),
        Some(SimCommand::Fault(command)) => process::ask(fault::run(command)),
        Some(SimCommand::Nodes { nodes, name, scheduler, kubelet_client_ca, log, connection }) => {
            let mut settings = nodes.settings(&name);
            // Servers connect to a node by its host name first, which must resolve.
            settings.host = Ipv4Addr::LOCALHOST.to_string();
            if !name.is_empty() {
                // Distinguishes these nodes from those of other simulators at the same server.
                settings.mark = name;
            }
            let options = nodes::Options { scheduler, client_authority: kubelet_client_ca };
            process::run(&log, nodes::run(settings, options, &connection))
        }
    }
}

async fn serve(options: &SimOptions) -> Result<(), String> {
    let place = Place::new(options.data_dir.as_deref())?;
    let backing = if options.data_dir.is_some() { Backing::Loose } else { Backing::Memory };
    let simulation = Simulation::new();
    let settings = Settings {
        backing,
        listen: options.listen,
        authenticator: authenticator(options.token_auth_file.as_deref())?,
        controllers: options.controllers.clone(),
        patience: atoll_controllers::settings::Settings {
            node_monitor_grace_period: options.node_monitor_grace_period,
            horizontal_pod_autoscaler_sync_period: options.horizontal_pod_autoscaler_sync_period,
            ..Default::default()
        },
        simulation: Some(simulation.clone()),
        measures: options.metrics_api,
        ..Settings::new(&options.name, &place.directory, Common::new(Profile::Full))?
    };
    let mut plane = Plane::start(settings).await?;
    let furniture = Furniture { storage: options.storage, metrics: options.metrics_api };
    let nodes = options.nodes.settings(&options.name);
    populate(&mut plane, &simulation, nodes, furniture, options.scheduler).await;
    let stop = Stop::listen()?;
    println!(
        "Cluster {} is ready at https://{}. Try: kubectl --kubeconfig {} get nodes",
        options.name,
        plane.advertised,
        quoted_path(&plane.kubeconfig)
    );
    stop.asked().await;
    tracing::info!("stopping: waiting for requests to finish");
    plane.stop().await
}

/// Adds nodes, built-in objects and a scheduler to a simulated cluster.
pub async fn populate(
    plane: &mut Plane,
    simulation: &Simulation,
    nodes: atoll_sim::Settings,
    furniture: Furniture,
    scheduler: bool,
) {
    let client = plane.client("system:node-simulator");
    let door = plane.door.take();
    // Before the cluster is announced as ready.
    atoll_sim::furnish(&client, furniture).await;
    if furniture.storage {
        plane.run(atoll_sim::storage::run(plane.informers.clone(), plane.clock()));
    }
    plane.run(atoll_sim::run(client, nodes, simulation.faults.clone(), plane.clock(), door));
    if scheduler {
        let options = atoll_podscheduler::Options::default();
        plane.run(atoll_podscheduler::run(plane.informers.clone(), plane.clock(), options));
    }
}

/// The data directory of a cluster: the given one, or a temporary one.
struct Place {
    directory: PathBuf,
    is_temporary: bool,
}

impl Place {
    fn new(given: Option<&Path>) -> Result<Self, String> {
        if let Some(directory) = given {
            return Ok(Place { directory: directory.into(), is_temporary: false });
        }
        let directory = std::env::temp_dir().join(format!("atoll-sim-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|error| format!("{}: {error}; name a directory with --data-dir", directory.display()))?;
        Ok(Place { directory, is_temporary: true })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_temporary {
            // A failure is harmless: the system cleans up temporary directories.
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}
