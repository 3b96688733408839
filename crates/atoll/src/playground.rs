//! `atoll playground`: a control plane and a few simulated clusters in one process, for trying Atoll.
//!
//! ```text
//!   DIR/playground.json   number of clusters and nodes, and the ports
//!   DIR/kubeconfig        a context for each of them
//!   DIR/control-plane/    as with `atoll start`
//!   DIR/clusters/NAME/    as with `atoll sim`
//! ```

mod directory;
mod instructions;
mod layout;
mod progress;
mod sample;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use atoll_authn::authority::write_private;
use atoll_registry::Profile;
use atoll_sim::BuiltInObjects;
use tokio::task::JoinSet;

use self::directory::{PlaygroundDirectory, PlaygroundRecord};
use self::layout::ClusterShape;
use self::progress::Progress;
use crate::certificates;
use crate::cluster;
use crate::command::{JoinOptions, PlaygroundOptions};
use crate::kubeconfig::{self, Entry};
use crate::plane::{ControlPlane, PlaneSettings, SharedCatalog, StorageMode};
use crate::process::{self, ShutdownSignal};
use crate::sim::{Simulation, populate};

/// The context of the control plane.
const CONTROL_PLANE: &str = "atoll";

pub fn run(options: PlaygroundOptions) -> Result<(), String> {
    process::run(&options.log, serve(&options))
}

async fn serve(options: &PlaygroundOptions) -> Result<(), String> {
    let start_time = Instant::now();
    let directory = PlaygroundDirectory::open(&options.data_dir, options.reset)?;
    let mut record = directory.record()?;
    let is_new = record.is_new();
    record.clusters = options.clusters.map_or(record.clusters, usize::from);
    record.nodes = options.nodes.unwrap_or(record.nodes);
    // Write the record first: it identifies the directory as a playground's.
    directory.write(&record)?;
    let clusters = layout::clusters(record.clusters, record.nodes);
    let progress = Progress::start(is_new, clusters.len());
    let started = start(&directory, &record, &clusters, &progress).await;
    progress.finish();
    let planes = started?;
    for plane in &planes {
        record.ports.insert(plane.name.clone(), plane.advertised.port());
    }
    write_kubeconfig(&directory, &planes)?;
    join(&directory, &clusters).await?;
    if let Some(control_plane) = planes.first().filter(|_| !record.has_sample) {
        let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        sample::create(&control_plane.client("system:atoll-playground"), &names).await?;
        record.has_sample = true;
    }
    directory.write(&record)?;
    let stop = ShutdownSignal::listen()?;
    instructions::ready(&directory, &planes, &clusters, start_time.elapsed());
    stop.received().await;
    println!("Stopping. All data is kept in {}.", directory.path.display());
    let mut stopping = JoinSet::new();
    for plane in planes {
        stopping.spawn(plane.stop());
    }
    while let Some(stopped) = stopping.join_next().await {
        stopped.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// Joins the clusters to the control plane. This also updates the addresses of those that have joined before.
async fn join(directory: &PlaygroundDirectory, clusters: &[ClusterShape]) -> Result<(), String> {
    let kubeconfig = |name: &str| certificates::kubeconfig_path(&directory.of(name));
    let mut joining = JoinSet::new();
    for cluster in clusters {
        let options = JoinOptions {
            name: cluster.name.clone(),
            kubeconfig: Some(kubeconfig(&cluster.name)),
            control_plane_kubeconfig: Some(kubeconfig(CONTROL_PLANE)),
            ..JoinOptions::default()
        };
        joining.spawn(async move { cluster::join::join_quietly(&options).await });
    }
    while let Some(joined) = joining.join_next().await {
        joined.map_err(|error| error.to_string())?.map_err(String::from)?;
    }
    Ok(())
}

/// Starts all of them concurrently. Returns the control plane first, then the clusters in order.
async fn start(
    directory: &PlaygroundDirectory,
    record: &PlaygroundRecord,
    clusters: &[ClusterShape],
    progress: &Progress,
) -> Result<Vec<ControlPlane>, String> {
    let shared = SharedCatalog::new(Profile::Full);
    let mut starting = JoinSet::new();
    let control_plane = settings(directory, record, CONTROL_PLANE, &shared)?;
    starting.spawn(async move { (0, ControlPlane::start(control_plane).await) });
    for (position, cluster) in clusters.iter().enumerate() {
        let simulation = Simulation::new();
        let settings = PlaneSettings {
            storage: StorageMode::Relaxed,
            simulation: Some(simulation.clone()),
            ..settings(directory, record, &cluster.name, &shared)?
        };
        let nodes = cluster.nodes.clone();
        starting.spawn(async move {
            let mut started = ControlPlane::start(settings).await;
            if let Ok(plane) = &mut started {
                populate(plane, &simulation, nodes, BuiltInObjects::ALL, true).await;
            }
            (position + 1, started)
        });
    }
    let mut planes: Vec<Option<ControlPlane>> = Vec::new();
    planes.resize_with(clusters.len() + 1, || None);
    let mut problem = None;
    while let Some(started) = starting.join_next().await {
        match started.map_err(|error| error.to_string())? {
            (position, Ok(plane)) => {
                progress.ready(&plane);
                planes[position] = Some(plane);
            }
            (_, Err(cause)) => problem = Some(cause),
        }
    }
    let planes = planes.into_iter().flatten();
    let Some(problem) = problem else { return Ok(planes.collect()) };
    for plane in planes {
        plane.stop().await?;
    }
    Err(problem)
}

fn settings(
    directory: &PlaygroundDirectory,
    record: &PlaygroundRecord,
    name: &str,
    shared: &Arc<SharedCatalog>,
) -> Result<PlaneSettings, String> {
    let port = record.ports.get(name).copied().unwrap_or(0);
    Ok(PlaneSettings {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        any_port: true,
        other_kubeconfig: Some(directory.kubeconfig()),
        // All clusters are on this machine.
        allow_tenant_addresses: true,
        ..PlaneSettings::new(name, &directory.of(name), shared.clone())?
    })
}

fn write_kubeconfig(directory: &PlaygroundDirectory, planes: &[ControlPlane]) -> Result<(), String> {
    let entries = planes.iter().map(|plane| Entry {
        name: &plane.name,
        server: plane.advertised,
        control: plane.control,
        authority_pem: &plane.authority_pem,
        identity: &plane.identity,
    });
    let text = kubeconfig::render(&entries.collect::<Vec<_>>(), CONTROL_PLANE);
    write_private(&directory.kubeconfig(), &text).map_err(|error| error.to_string())
}
