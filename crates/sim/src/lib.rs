//! A simulated physical cluster: nodes that are only numbers, and everything that can go wrong with them.
//!
//! ```text
//!   atoll sim fault add … ──► Faults ──┬─► nodes: dead, full, cut off; images that crash
//!                                      └─► the program around it: network, clock, missing APIs
//!   Settings ──► run(client, …) ──► Nodes, Leases, status of Pods, over the plain Kubernetes API
//! ```

mod addresses;
mod cluster;
mod echo;
pub mod faults;
mod heartbeat;
mod kubelet;
mod node;
mod pod;
mod program;
mod settings;

use std::sync::Arc;

use atoll_client::Client;
use atoll_informer::{Clock, World};

use crate::cluster::Cluster;
pub use crate::faults::{Fault, FaultSet, Faults};
use crate::kubelet::Kubelet;
pub use crate::settings::Settings;

/// Makes the nodes and runs what is assigned to them, for as long as it is polled.
pub async fn run(client: Client, settings: Settings, faults: Arc<Faults>, clock: Arc<dyn Clock>) {
    let cluster = Arc::new(Cluster::new(World::one(client), settings, faults, clock));
    let kubelet = Arc::new(Kubelet::new(cluster.clone()));
    tokio::join!(heartbeat::run(cluster), kubelet.run());
}
