//! A simulated physical cluster: nodes that are only numbers, and everything that can go wrong with them.
//!
//! ```text
//!   atoll sim fault add … ──► Faults ──┬─► nodes: dead, full, cut off; images that crash
//!                                      └─► the program around it: network, clock, missing APIs
//!   Settings ──► run(client, …) ──┬─► heartbeat: Nodes and Leases, over the plain Kubernetes API
//!                                 ├─► kubelet: status of Pods, servers at their ports (echo)
//!                                 ├─► endpoint: logs, exec, attach, port-forward, statistics
//!                                 └─► measurements: what nodes and Pods use
//!   storage::run(informers, …) ──► volumes for claims
//! ```

mod addresses;
mod cluster;
mod echo;
mod endpoint;
pub mod faults;
mod furniture;
#[doc(hidden)]
pub mod fuzzing;
mod heartbeat;
mod kubelet;
mod measurements;
mod node;
mod pod;
mod ports;
mod program;
mod settings;
pub mod storage;
mod usage;

use std::sync::Arc;

use atoll_client::{BoxFuture, Client};
use atoll_informer::{Clock, World};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::cluster::Cluster;
pub use crate::faults::{Fault, FaultSet, Faults};
pub use crate::furniture::{Furniture, furnish};
use crate::kubelet::Kubelet;
pub use crate::measurements::{Measured, Measurements};
pub use crate::ports::Ports;
pub use crate::settings::{MARK, Settings};
pub use crate::usage::Usage;

/// Decides over the certificates of somebody, his own first.
pub type Admits = Arc<dyn Fn(Vec<CertificateDer<'static>>) -> BoxFuture<'static, bool> + Send + Sync>;

/// Where the kubelets are to listen, and whom they trust.
pub struct Door {
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    /// Whether whoever has these certificates may come in, where not all may whom `tls` lets through.
    pub admits: Option<Admits>,
    /// Told where pods are served.
    pub ports: Arc<Ports>,
    /// Told who knows what is used.
    pub measurements: Arc<Measurements>,
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
    if let Some(door) = &door {
        door.measurements.begin(&kubelet);
    }
    let answering = async {
        if let Some(Door { listener, tls, admits, .. }) = door {
            endpoint::serve(kubelet.clone(), listener, tls, admits).await;
        }
    };
    tokio::join!(heartbeat::run(cluster), kubelet.clone().run(), answering);
}
