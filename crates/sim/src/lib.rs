//! A simulated physical cluster: nodes that are only numbers, and everything that can go wrong with them.
//!
//! ```text
//!   atoll sim fault add … ──► Faults ──┬─► nodes: dead, full, cut off; images that crash
//!                                      └─► the program around it: network, clock, missing APIs
//!   Settings ──► run(client, …) ──► Nodes, Leases, status of Pods, over the plain Kubernetes API
//! ```

pub mod faults;
mod settings;

use std::sync::Arc;

use atoll_client::Client;
use atoll_informer::Clock;

pub use faults::{Fault, FaultSet, Faults};
pub use settings::Settings;

/// Makes the nodes and runs what is scheduled to them, until the server is gone.
pub async fn run(client: Client, settings: Settings, faults: Arc<Faults>, clock: Arc<dyn Clock>) {
    let _ = (client, settings, faults, clock);
    std::future::pending::<()>().await;
}
