//! A simulated physical cluster: nodes that are only numbers, and everything that can go wrong with them.
//!
//! ```text
//!   atoll sim fault add … ──► Faults ──┬─► nodes: dead, full, cut off; images that crash
//!                                      └─► the program around it: network, clock, missing APIs
//!   Settings ──► run(client, …) ──┬─► heartbeat: Nodes and Leases, over the plain Kubernetes API
//!                                 ├─► kubelet: status of Pods, servers at their ports (echo)
//!                                 └─► endpoint: logs, exec, attach, port-forward
//! ```

mod addresses;
mod cluster;
mod echo;
mod endpoint;
pub mod faults;
#[doc(hidden)]
pub mod fuzzing;
mod heartbeat;
mod kubelet;
mod node;
mod pod;
mod ports;
mod program;
mod settings;

use std::sync::Arc;

use atoll_client::Client;
use atoll_informer::{Clock, World};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::cluster::Cluster;
pub use crate::faults::{Fault, FaultSet, Faults};
use crate::kubelet::Kubelet;
pub use crate::ports::Ports;
pub use crate::settings::Settings;

/// Where the kubelets are to listen, and whom they trust.
pub struct Door {
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    /// Told where pods are served.
    pub ports: Arc<Ports>,
}

/// Makes the nodes and runs what is assigned to them, for as long as it is polled.
pub async fn run(
    client: Client,
    settings: Settings,
    faults: Arc<Faults>,
    clock: Arc<dyn Clock>,
    door: Option<Door>,
) {
    let mut cluster = Cluster::new(World::one(client), settings, faults, clock);
    let port = door.as_ref().and_then(|door| door.listener.local_addr().ok());
    cluster.kubelet_port = port.map(|address| address.port());
    if let Some(door) = &door {
        cluster.ports = door.ports.clone();
    }
    let cluster = Arc::new(cluster);
    let kubelet = Arc::new(Kubelet::new(cluster.clone()));
    let answering = async {
        if let Some(Door { listener, tls, .. }) = door {
            endpoint::serve(kubelet.clone(), listener, tls).await;
        }
    };
    tokio::join!(heartbeat::run(cluster), kubelet.clone().run(), answering);
}
