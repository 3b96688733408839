//! The network of a simulated cluster, with its faults: late or lost responses, hanging or refused
//! connections, and hidden parts of the API. It wraps a listener of the server, which knows nothing of faults.
//! Requests within the process are not affected.
//!
//! ```text
//!   Simulation ─► NetworkFaults ─ FaultInjector ─┬─► FaultyListener: accepts, refuses, drops
//!                                                ├─► FaultyStream: stalls, resets
//!                                                └─► ConnectionFaults: delays and loses responses and events
//! ```

mod connection;
mod faults;
mod listener;
mod stream;

pub use faults::{FaultInjector, NetworkFaults};
pub use listener::FaultyListener;
