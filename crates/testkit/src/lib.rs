//! What tests need that go through the real programs: a running Atoll, a running kube-apiserver, and a client.
//!
//! ```text
//!   Atoll::start()      the binary as a user starts it, on a free port, with a data directory of its own
//!   Atoll::simulate()   the same for a simulated cluster; SimulatedNodes for nodes at any server
//!   Upstream::shared()  the real kube-apiserver, once for all tests of a process; None where Go is absent
//!        └── client() ─► Client: HTTPS, JSON, watches
//!   Programs::build()   Kubernetes' own programs, to be run by themselves; None where Go is absent
//!   RealCluster::start()  real clusters with running containers; None where there can be none
//! ```
//!
//! Starting panics, with the reason, where a test could not go on anyway. Nothing here waits for time to pass:
//! a server is ready when it says so.

mod atoll;
mod client;
mod cluster;
mod process;
mod programs;
mod upstream;
pub mod wait;

pub use crate::atoll::{Atoll, SimulatedNodes, TOKEN, binary};
pub use crate::client::{Answer, Client, Error, Watch, request};
pub use crate::cluster::RealCluster;
pub use crate::programs::{Program, Programs};
pub use crate::upstream::Upstream;
