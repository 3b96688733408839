//! The harness of all tests with real programs: a running Atoll, a running kube-apiserver, kubectl, and a
//! client.
//!
//! ```text
//!  Atoll::start()        the binary as a user starts it, on a free port, with its own data directory
//!  Atoll::simulate()     the same for a simulated cluster
//!  Setup::new()          its flags, environment, directory, tokens; start() or try_start()
//!  atoll(&[…])           a command of the binary; succeed() and fail() run it, Process::start() keeps it
//!  Upstream::shared()    the real kube-apiserver, once for all tests of a process; None where Go is absent
//!  └── admin() ─► Client: get, post, … ─► ApiResponse: expect, expect_status
//!                 ├── http1(), http2() ─► KeptConnection
//!                 └── Watch::open() ─► events
//!  Kubectl::new()        the pinned kubectl with a kubeconfig; None where Go is absent
//!  Programs::build()     Kubernetes' own programs, to be run on their own; None where Go is absent
//!  RealCluster::start()  real clusters with running containers; None where they cannot run
//!  wait                  the one way to wait
//! ```
//!
//! Starting panics, with the reason, where a test cannot continue. Nothing sleeps for a fixed time: a server
//! is ready when it prints so.

mod atoll;
mod binary;
mod client;
mod cluster;
mod command;
mod connection;
mod kubectl;
mod process;
mod programs;
mod response;
mod upstream;
pub mod wait;
mod watch;

pub use rustix::process::Signal;

pub use crate::atoll::{Atoll, Setup, atoll, fault};
pub use crate::binary::binary;
pub use crate::client::{APPLY, Client, ClientError, JSON, MERGE, RequestContent};
pub use crate::cluster::RealCluster;
pub use crate::command::{fail, succeed};
pub use crate::connection::KeptConnection;
pub use crate::kubectl::Kubectl;
pub use crate::process::{Process, StartFailure};
pub use crate::programs::{Program, Programs};
pub use crate::response::{ApiResponse, names, revision};
pub use crate::upstream::{TOKEN, TOKENS, Upstream};
pub use crate::watch::{Event, Next, Watch};
