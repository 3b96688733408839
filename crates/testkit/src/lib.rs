//! Shared helpers for tests that use real programs: a running Atoll, a running kube-apiserver, and a client.
//!
//! ```text
//!  Atoll::start()        the binary as a user starts it, on a free port, with its own data directory
//!  Atoll::simulate()     the same for a simulated cluster; SimulatedNodes for nodes at any server
//!  Upstream::shared()    the real kube-apiserver, once for all tests of a process; None where Go is absent
//!  └── client() ─► Client: HTTPS, JSON, watches
//!  Programs::build()     Kubernetes' own programs, to be run on their own; None where Go is absent
//!  RealCluster::start()  real clusters with running containers; None where they cannot run
//! ```
//!
//! Starting panics, with the reason, where a test cannot continue. No helper sleeps for a fixed time: a
//! server is ready when it prints so.

mod atoll;
mod client;
mod cluster;
mod process;
mod programs;
mod upstream;
pub mod wait;

pub use crate::atoll::{Atoll, SimulatedNodes, TOKEN, binary};
pub use crate::client::{ApiResponse, Client, ClientError, Watch, request};
pub use crate::cluster::RealCluster;
pub use crate::programs::{Program, Programs};
pub use crate::upstream::Upstream;
