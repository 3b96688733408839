//! Streams into containers: what exec, attach and port-forward speak between clients, API servers and kubelets.
//!
//! ```text
//!   remote_command (exec, attach)      port_forward
//!        │        └────────┐      ┌────────┘ │
//!        │ channels        │      │ streams  │ streams
//!   websocket ◄─ tunnel ─► spdy ◄─┘          │
//!        └────────── an upgraded connection ─┘
//! ```
//!
//! A session gives each of its streams as an [`Input`] or an [`Output`], whichever protocol carries it. Parsers are pure and
//! take any bytes; connections hold a bounded number of bytes for each stream, and a reader that falls behind stops the sender.
//! SPDY's windows are not used: no implementation that Kubernetes has ever met sends them.

#![allow(
    clippy::result_large_err,
    reason = "a refusal is the whole answer to a request, made once a connection"
)]

mod outbox;
mod pipe;
pub mod port_forward;
pub mod remote_command;
pub mod spdy;
mod upgrade;
pub mod websocket;

pub use pipe::{Input, Output};
pub use upgrade::{Refusal, STREAM_PROTOCOL, header_values, is_upgrade};
