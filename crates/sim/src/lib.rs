//! A simulated cluster: nodes and pods without containers, and their faults.
//!
//! ```text
//!   atoll sim fault add … ──► Faults ──┬─► nodes: stopped, full, disconnected; images that crash
//!                                      └─► the embedding program: network, clock, missing APIs
//!   Settings ──► run(client, …) ──┬─► heartbeat: Nodes and Leases, over the Kubernetes API
//!                                 ├─► kubelet: status of Pods, servers at their ports (echo)
//!                                 ├─► endpoint: logs, exec, attach, port-forward, statistics
//!                                 └─► measurements: usage of nodes and Pods
//!   storage::run(informers, …) ──► volumes for claims
//! ```

mod addresses;
mod built_in_objects;
mod cluster;
mod echo;
mod endpoint;
pub mod faults;
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
use atoll_informer::{ApiScope, Clock};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;

pub use crate::built_in_objects::{BuiltInObjects, create_built_in_objects};
use crate::cluster::Cluster;
pub use crate::faults::{Fault, FaultSet, Faults};
use crate::kubelet::Kubelet;
pub use crate::measurements::{Measurements, UsageSample};
pub use crate::ports::Ports;
pub use crate::settings::{MARK, Settings};
pub use crate::usage::Usage;

/// Decides whether a client with these certificates, its own first, is admitted.
pub type Admits = Arc<dyn Fn(Vec<CertificateDer<'static>>) -> BoxFuture<'static, bool> + Send + Sync>;

/// Listener of the kubelets, with its TLS configuration.
pub struct KubeletListener {
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    /// An additional check of client certificates, where not all clients that `tls` accepts are admitted.
    pub admits: Option<Admits>,
    /// Receives the addresses at which pods are served.
    pub ports: Arc<Ports>,
    /// Receives the kubelet, as the source of usage data.
    pub measurements: Arc<Measurements>,
}

/// Creates the nodes and runs the pods that are bound to them, for as long as it is polled.
pub async fn run(
    client: Client,
    settings: Settings,
    faults: Arc<Faults>,
    clock: Arc<dyn Clock>,
    kubelet_listener: Option<KubeletListener>,
) {
    let mut cluster = Cluster::new(ApiScope::single(client), settings, faults, clock);
    let port =
        kubelet_listener.as_ref().and_then(|kubelet_listener| kubelet_listener.listener.local_addr().ok());
    cluster.kubelet_port = port.map(|address| address.port());
    if let Some(kubelet_listener) = &kubelet_listener {
        cluster.ports = kubelet_listener.ports.clone();
    }
    let cluster = Arc::new(cluster);
    let kubelet = Arc::new(Kubelet::new(cluster.clone()));
    if let Some(kubelet_listener) = &kubelet_listener {
        kubelet_listener.measurements.set_kubelet(&kubelet);
    }
    let answering = async {
        if let Some(KubeletListener { listener, tls, admits, .. }) = kubelet_listener {
            endpoint::serve(kubelet.clone(), listener, tls, admits).await;
        }
    };
    tokio::join!(heartbeat::run(cluster), kubelet.clone().run(), answering);
}
