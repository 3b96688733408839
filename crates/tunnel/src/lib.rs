//! The tunnel of an agent: requests and streams of the control plane to the API of a cluster, over a connection
//! that the agent has opened.
//!
//! ```text
//!   control plane                                         agent
//!   ConnectedClusters ─► Tunnel ═══ upgraded request ═══ serve ─► rules ─► forward ─► ClusterApi of its cluster
//!                       HTTP/2 client                HTTP/2 server
//!                                                        ▲
//!                                                  run: dials, again and again
//! ```
//!
//! Inside the connection the roles are reversed: the agent is the HTTP/2 server. A request that changes its
//! protocol (exec, attach, port-forward) is an extended CONNECT, which the agent turns into an upgrade request
//! to the cluster. The agent adds its own credential, drops every other one, and refuses requests
//! that the rules do not allow. Both ends send pings, so that each notices when the other is gone.

mod abortable_stream;
mod agent;
mod control_plane;
mod error;
mod permitted_stream;
mod protocol;
mod relay;

pub use agent::{Agent, rules, run, serve};
pub use control_plane::Tunnel;
pub use error::TunnelError;
pub use protocol::{KeepAlive, PROTOCOL, STREAMS_OF_USER};
pub use relay::relay;
